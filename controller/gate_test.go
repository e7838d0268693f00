package controller

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"optibfm/rewardsrc"
)

func testGate(change func(*GateConfig)) *Gate {
	cfg := GateConfig{TimeoutS: 1, BackoffS: 0, BackoffMaxS: 0}
	if change != nil {
		change(&cfg)
	}
	return NewGate(cfg, 1, 100*time.Millisecond) // ten ticks a second
}

func TestGate_OpensAtKappa(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	open := 0
	for range 2000 {
		kappa, sigma := 2*random.Float64(), 0.3+2*random.Float64()
		l, n := newTestLearner(t, func(c *Config) { c.Sigma = sigma })
		for tick := range uint64(random.IntN(6)) {
			phi := gaussian(random, rigLatent)
			l.Observe(tick, 0, phi, nil)
			n.observe(tick, 0, phi)
			l.Apply(value(0, tick, 1), 0)
			n.apply(value(0, tick, 1), 0)
		}
		phi := gaussian(random, rigLatent)
		before, _ := n.vb()
		after := mat.NewSymDense(rigLatent, nil)
		after.SymRankOne(before, 1/(sigma*sigma), mat.NewVecDense(rigLatent, phi))
		logBefore, _ := mat.LogDet(before)
		logAfter, _ := mat.LogDet(after)
		gate := NewGate(GateConfig{Kappa: kappa, TimeoutS: 1}, l.LabelWeight(), testPeriod)
		want := logAfter-logBefore >= kappa
		if got := gate.Passes(l.Belief().NormSq(phi)); got != want {
			t.Fatalf("κ %g, gain %g: passes is %v", kappa, logAfter-logBefore, got)
		}
		if want {
			open++
		}
	}
	if open < 200 || open > 1800 {
		t.Errorf("open %d times of 2000: too few for this test", open)
	}
}

func TestGate_OffNeverOpensAndKappaZeroAlwaysOpens(t *testing.T) {
	if testGate(func(c *GateConfig) { c.Off = true }).Passes(math.Inf(1)) {
		t.Error("off, but it passes")
	}
	if g := testGate(nil); !g.Passes(0) || g.Passes(nan) {
		t.Error("κ = 0 must pass every state, but not a NaN")
	}
	if testGate(func(c *GateConfig) { c.Kappa = 1e300 }).Passes(1e300) {
		t.Error("an infinite threshold passed")
	}
}

func TestGate_OpensOneRequestAtATime(t *testing.T) {
	g := testGate(nil)
	r, ok := g.Ask(5, 123, 0.7)
	want := rewardsrc.Request{ID: 1, Tick: 5, At: 123, Until: 15, DGap: 0.7, State: rewardsrc.Open}
	if !ok || r != want || g.OpenRequest() != 1 {
		t.Fatalf("%+v", r)
	}
	if _, ok := g.Ask(6, 0, 1); ok {
		t.Error("a second request beside the first")
	}
	want.State = rewardsrc.Answered
	if closed, ok := g.Answer(1); !ok || closed != want || g.OpenRequest() != 0 {
		t.Errorf("closed: %+v", closed)
	}
	if r, ok := g.Ask(6, 0, 1); !ok || r.ID != 2 {
		t.Errorf("after the answer: %+v", r)
	}
}

func TestGate_RequestExpiresOnce(t *testing.T) {
	for _, now := range []uint64{15, 16, 1000} { // skipped ticks do not keep it alive
		g := testGate(nil)
		g.Ask(5, 0, 1)
		if _, ok := g.Expire(14); ok {
			t.Error("too early")
		}
		r, ok := g.Expire(now)
		if !ok || r.State != rewardsrc.Expired || r.ID != 1 || g.OpenRequest() != 0 {
			t.Errorf("at %d: %+v", now, r)
		}
		if _, ok := g.Expire(now + 1); ok {
			t.Error("it expired twice")
		}
	}
}

func TestGate_FindsExpiredRequestOnce(t *testing.T) {
	g := testGate(nil)
	for range 3 {
		r, _ := g.Ask(100*g.lastID, 0, 1)
		g.Expire(r.Until)
	}
	if tick, outcome := g.Find(2); tick != 100 || outcome != Applied {
		t.Errorf("request 2 is about tick %d (%v)", tick, outcome)
	}
	if _, ok := g.Answer(2); ok {
		t.Error("an expired request was closed again")
	}
	if _, outcome := g.Find(2); outcome != Duplicate {
		t.Errorf("the second answer: %v", outcome)
	}
	for _, id := range []uint64{0, 4, 16, 18, math.MaxUint64} {
		if _, outcome := g.Find(id); outcome != UnknownRequest {
			t.Errorf("request %d: %v", id, outcome)
		}
		if _, ok := g.Answer(id); ok {
			t.Errorf("request %d was answered", id)
		}
	}
}

func TestGate_ForgetsOldRequests(t *testing.T) {
	g := testGate(nil)
	for range maxAnswerable + 1 {
		r, _ := g.Ask(g.lastID*20, 0, 1)
		g.Expire(r.Until)
	}
	if _, outcome := g.Find(1); outcome != UnknownRequest {
		t.Errorf("the oldest: %v", outcome)
	}
	if _, outcome := g.Find(2); outcome != Applied {
		t.Errorf("the second oldest: %v", outcome)
	}
}

func TestGate_LimitsRequestsPerMinute(t *testing.T) {
	for _, limit := range []int{1, 3, 30} {
		g := testGate(func(c *GateConfig) { c.RequestsPerMinute = limit })
		random := rand.New(rand.NewPCG(9, uint64(limit)))
		var asked []uint64
		for tick := uint64(0); tick < 30_000; tick += 1 + random.Uint64N(4) {
			recent := 0
			for _, a := range asked {
				if tick-a < 600 {
					recent++
				}
			}
			r, ok := g.Ask(tick, 0, 1)
			if ok != (recent < limit) {
				t.Fatalf("limit %d, tick %d: asked %v with %d in the last minute", limit, tick, ok, recent)
			}
			if ok {
				asked = append(asked, tick)
				g.Answer(r.ID)
			}
		}
		if len(asked) < limit {
			t.Errorf("limit %d: asked %d times", limit, len(asked))
		}
	}
}

func TestGate_BackoffDoublesUntilAnswer(t *testing.T) {
	g := testGate(func(c *GateConfig) { c.BackoffS, c.BackoffMaxS = 1, 5 })
	tick := uint64(0)
	next := func() (pause uint64) {
		t.Helper()
		for {
			if r, ok := g.Ask(tick, 0, 1); ok {
				tick = r.Until
				g.Expire(tick)
				return pause
			}
			tick++
			pause++
		}
	}
	for i, want := range []uint64{0, 10, 10, 10} {
		if got := next(); got != want {
			t.Errorf("request %d before the first label came after a pause of %d ticks, want %d", i, got, want)
		}
	}
	g.Hear()
	for i, want := range []uint64{0, 10, 20, 40, 50, 50} {
		if got := next(); got != want {
			t.Errorf("request %d came after a pause of %d ticks, want %d", i, got, want)
		}
	}
	g.Answer(g.lastID)
	for i, want := range []uint64{0, 10, 20} {
		if got := next(); got != want {
			t.Errorf("request %d after an answer came after %d ticks, want %d", i, got, want)
		}
	}
}

func TestGate_BackoffDoesNotOverflow(t *testing.T) {
	g := NewGate(GateConfig{TimeoutS: 3600, BackoffS: 86_400, BackoffMaxS: 86_400}, 1, time.Microsecond)
	tick := uint64(0)
	for range 1000 {
		r, ok := g.Ask(tick, 0, 1)
		if !ok {
			t.Fatal("not asked")
		}
		g.Expire(r.Until)
		if _, ok := g.Ask(r.Until+86_400_000_000-1, 0, 1); ok {
			t.Fatal("asked within the pause")
		}
		tick = r.Until + 86_400_000_000
	}
}

func TestGate_CountsRequestsFromTheFirstLabel(t *testing.T) {
	for name, hear := range map[string]func(*Gate){
		"unasked label": func(g *Gate) { g.Hear() },
		"answer":        func(g *Gate) { g.Answer(1) },
	} {
		t.Run(name, func(t *testing.T) {
			g := testGate(func(c *GateConfig) { c.Kappa, c.LabelsPerMinute = 0.1, 3 })
			ask := func(tick uint64) (kappa float64) {
				if _, ok := g.Ask(tick, 0, 1); !ok {
					t.Fatalf("tick %d: no request", tick)
				}
				g.Expire(tick + 10)
				return g.Kappa()
			}
			for tick := range uint64(5) {
				if kappa := ask(100 * tick); kappa != 0.1 || g.Heard() {
					t.Errorf("before the first label: κ %g", kappa)
				}
			}
			hear(g)
			if kappa := ask(1000); !(kappa > 0.1) || !g.Heard() {
				t.Errorf("after the first label: κ %g", kappa)
			}
		})
	}
}
