package controller

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"optibfm/internal/fatal"
	"optibfm/posterior"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

var plannerDims = tflite.Dims{Obs: rigObs, Action: rigAction, Latent: rigLatent, Ensemble: 2}

// learnt returns a state at a tick after some labels.
func learnt(t testing.TB, cfg Config, tick uint64) *State {
	t.Helper()
	l, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	random := rand.New(rand.NewPCG(11, 12))
	for i := range uint64(6) {
		l.Observe(i, 0, gaussian(random, rigLatent), nil)
		l.Apply(value(0, i, random.NormFloat64()), 0)
	}
	s := NewState(Shape{rigObs, rigAction, rigLatent, 0})
	s.Next, s.Valid = tick+1, 1
	copy(s.Obs, []float32{0.3, -0.2, 0.9})
	l.WriteBelief(s)
	return s
}

func newTestPlanner(t testing.TB, cfg Config, m tflite.Model) *Planner {
	t.Helper()
	p, err := NewPlanner(cfg, m)
	fatal.If(t, err)
	return p
}

func plan(t testing.TB, p *Planner, s *State) *Plan {
	t.Helper()
	dst := NewPlan(Shape{rigObs, rigAction, rigLatent, 0})
	fresh, err := p.Plan(s, dst)
	if err != nil || !fresh {
		t.Fatalf("fresh %v, %v", fresh, err)
	}
	return dst
}

func configured(strategy string) Config {
	cfg := DefaultConfig()
	cfg.Strategy = strategy
	cfg.FixedZ = []float64{1, 2, 3, 4}
	cfg.Seed = 5
	return cfg
}

func TestPlanner_PlanIsFunctionOfConfigModelAndState(t *testing.T) {
	for _, strategy := range Strategies() {
		if strategy == UCBGradient {
			continue // depends on the optimizer's state and not on random numbers
		}
		cfg := configured(strategy)
		cfg.Candidates = 16
		fresh := newTestPlanner(t, cfg, tflitetest.Network(plannerDims, 1))
		busy := newTestPlanner(t, cfg, tflitetest.Network(plannerDims, 1))
		for tick := range uint64(9) {
			plan(t, busy, learnt(t, cfg, tick))
		}
		a, b := plan(t, fresh, learnt(t, cfg, 9)), plan(t, busy, learnt(t, cfg, 9))
		if !slices.Equal(a.Z, b.Z) || *a.PlanHeader != *b.PlanHeader {
			t.Errorf("%s: %v %v, want %v %v", strategy, *b.PlanHeader, b.Z, *a.PlanHeader, a.Z)
		}
		c := plan(t, busy, learnt(t, cfg, 10))
		if same := slices.Equal(b.Z, c.Z); same != (strategy == Fixed) {
			t.Errorf("%s: the next tick's z equals this one's: %v", strategy, same)
		}
		cfg.Seed++
		d := plan(t, newTestPlanner(t, cfg, tflitetest.Network(plannerDims, 1)), learnt(t, cfg, 9))
		if same := slices.Equal(a.Z, d.Z); same != (strategy == Fixed) {
			t.Errorf("%s: another seed's z is the same: %v", strategy, same)
		}
	}
}

func TestPlanner_UCBTakesBestCandidate(t *testing.T) {
	for _, c := range []struct {
		strategy string
		n        int
	}{{UCB, 128}, {UCBSphere, 512}} {
		cfg := configured(c.strategy)
		cfg.Beta.Value = 0.7
		network := tflitetest.Network(plannerDims, 3)
		spy := &spyModel{Network: network}
		s := learnt(t, cfg, 4)
		got := plan(t, newTestPlanner(t, cfg, spy), s)
		if n := len(spy.candidates) / rigLatent; n != c.n {
			t.Fatalf("%s: %d candidates, want %d", c.strategy, n, c.n)
		}
		best, score := bruteForce(t, network, s, spy.candidates, cfg)
		same := closeTo(float64(spy.candidates[best*rigLatent]), got.Z[0], 1e-6) && closeTo(got.Score, score, 1e-4)
		if !same || got.Beta != 0.7 {
			t.Errorf("%s: z %v with score %v, want candidate %d with %v", c.strategy, got.Z, got.Score, best, score)
		}
		checkRegion(t, c.strategy, s, spy.candidates, cfg)
	}
}

func closeTo(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*(1+math.Abs(b)) }

// spyModel records the candidates of a search.
type spyModel struct {
	*tflite.Network
	candidates []float32
}

func (m *spyModel) Search(obs, candidates []float32, b tflite.Belief) (int, float32, error) {
	m.candidates = slices.Clone(candidates)
	return m.Network.Search(obs, candidates, b)
}

func beliefOf(t testing.TB, cfg Config, s *State) *posterior.Belief {
	t.Helper()
	b, err := cfg.NewBelief(rigLatent)
	fatal.If(t, err)
	fatal.If(t, b.Restore(s.Belief))
	return b
}

// meanAndV returns ẑ and V by gonum, from R and b.
func meanAndV(t testing.TB, s *State) (mean *mat.VecDense, v *mat.SymDense) {
	t.Helper()
	l, err := NewLearner(DefaultConfig(), rigLatent, testPeriod)
	fatal.If(t, err)
	fatal.If(t, l.belief.Restore(s.Belief))
	v, b := factored(l)
	mean = new(mat.VecDense)
	fatal.If(t, mean.SolveVec(v, b))
	return mean, v
}

// bruteForce evaluates the candidates one at a time and scores them with V⁻¹.
func bruteForce(
	t testing.TB, m *tflite.Network, s *State, candidates []float32, cfg Config,
) (best int, score float64) {
	t.Helper()
	mean, v := meanAndV(t, s)
	var inverse mat.Dense
	fatal.If(t, inverse.Inverse(v))
	score = -inf
	z, action := make([]float64, rigLatent), make([]float32, rigAction)
	psi := make([]float32, plannerDims.Ensemble*rigLatent)
	x := mat.NewVecDense(rigLatent, nil)
	for i := 0; i < len(candidates)/rigLatent; i++ {
		for j := range z {
			z[j] = float64(candidates[i*rigLatent+j])
		}
		fatal.If(t, m.Act(action, s.Obs, z))
		fatal.If(t, m.Psi(psi, s.Obs, action, z))
		least := inf
		for e := range plannerDims.Ensemble {
			for j, p := range psi[e*rigLatent : (e+1)*rigLatent] {
				x.SetVec(j, float64(p))
			}
			least = math.Min(least, mat.Dot(x, mean)+cfg.Beta.Value*math.Sqrt(mat.Inner(x, &inverse, x)))
		}
		if least > score {
			best, score = i, least
		}
	}
	return best, score
}

// checkRegion checks that the candidates lie in the ellipsoid of radius 2β around
// ẑ and extend to its boundary, or that they lie on the sphere of radius √d.
func checkRegion(t *testing.T, strategy string, s *State, candidates []float32, cfg Config) {
	t.Helper()
	mean, v := meanAndV(t, s)
	farthest := 0.0
	for i := 0; i < len(candidates); i += rigLatent {
		x := mat.NewVecDense(rigLatent, nil)
		for j := range rigLatent {
			x.SetVec(j, float64(candidates[i+j]))
		}
		if strategy == UCBSphere {
			if r := mat.Norm(x, 2); !closeTo(r, 2, 1e-6) {
				t.Errorf("a candidate of norm %v is not on the sphere", r)
			}
			continue
		}
		x.SubVec(x, mean)
		r := math.Sqrt(mat.Inner(x, v, x))
		farthest = math.Max(farthest, r)
	}
	if strategy == UCB && (farthest > 2*cfg.Beta.Value+1e-5 || farthest < 1.8*cfg.Beta.Value) {
		t.Errorf("the farthest candidate is %v from ẑ in the norm of V, want about %v", farthest, 2*cfg.Beta.Value)
	}
}

func TestPlanner_ThompsonSamplesPosterior(t *testing.T) {
	cfg := configured(Thompson)
	p := newTestPlanner(t, cfg, newStub(rigObs, rigAction, rigLatent))
	const n = 40_000
	samples := mat.NewDense(n, rigLatent, nil)
	s := learnt(t, cfg, 0)
	dst := NewPlan(Shape{rigObs, rigAction, rigLatent, 0})
	for i := range n {
		s.Next = uint64(i) + 1
		if _, err := p.Plan(s, dst); err != nil {
			t.Fatal(err)
		}
		samples.SetRow(i, dst.Z)
	}
	mean, v := meanAndV(t, s)
	var want, got mat.Dense
	fatal.If(t, want.Inverse(v))
	var covariance mat.SymDense
	stat.CovarianceMatrix(&covariance, samples, nil)
	got.Sub(&covariance, &want)
	if e := mat.Norm(&got, 2) / mat.Norm(&want, 2); e > 0.03 {
		t.Errorf("the covariance is off by %.3f of V⁻¹", e)
	}
	for j := range rigLatent {
		column := mat.Col(nil, j, samples)
		sd := math.Sqrt(want.At(j, j))
		if m := stat.Mean(column, nil); math.Abs(m-mean.AtVec(j)) > 5*sd/math.Sqrt(n) {
			t.Errorf("the mean of z[%d] is %v, want %v", j, m, mean.AtVec(j))
		}
		// The generators of successive ticks must be uncorrelated.
		if c := stat.Correlation(column[1:], column[:n-1], nil); math.Abs(c) > 5/math.Sqrt(n) {
			t.Errorf("z[%d] of a tick correlates with the next one's by %v", j, c)
		}
	}
}

func TestPlanner_RandomIsUniformAndFixedIsGiven(t *testing.T) {
	cfg := configured(Random)
	p := newTestPlanner(t, cfg, newStub(rigObs, rigAction, rigLatent))
	s := learnt(t, cfg, 0)
	sum := make([]float64, rigLatent)
	const n = 10_000
	for i := range uint64(n) {
		s.Next = i + 1
		z := plan(t, p, s).Z
		if !closeTo(norm(z), 2, 1e-12) {
			t.Fatalf("norm %v", norm(z))
		}
		for j, x := range z {
			sum[j] += x / n
		}
	}
	if norm(sum) > 0.1 {
		t.Errorf("the mean direction is %v", sum)
	}
	cfg = configured(Fixed)
	if z := plan(t, newTestPlanner(t, cfg, newStub(rigObs, rigAction, rigLatent)), s).Z; !slices.Equal(z, cfg.FixedZ) {
		t.Errorf("z is %v", z)
	}
}

func TestPlanner_PlansWhenDue(t *testing.T) {
	for _, replan := range []uint64{0, 1, 3} {
		cfg := configured(Random)
		cfg.Replan = replan
		p := newTestPlanner(t, cfg, newStub(rigObs, rigAction, rigLatent))
		dst := NewPlan(Shape{rigObs, rigAction, rigLatent, 0})
		last := uint64(0)
		for tick := range uint64(40) {
			s := learnt(t, cfg, tick)
			s.Episode = uint32(tick / 10)
			want := tick%10 == 0 || (replan > 0 && tick-last >= replan)
			fresh, err := p.Plan(s, dst)
			if err != nil || fresh != want {
				t.Fatalf("r = %d, tick %d: fresh %v, %v", replan, tick, fresh, err)
			}
			if fresh {
				last = tick
			}
			if dst.Tick != last || dst.Confirmed != tick {
				t.Fatalf("r = %d, tick %d: planned at %d, confirmed at %d", replan, tick, dst.Tick, dst.Confirmed)
			}
		}
	}
}

func TestPlanner_RefusesInvalidState(t *testing.T) {
	cfg := configured(Thompson)
	cfg.Replan = 0
	for name, corrupt := range map[string]func(*State){
		"no observation":      func(s *State) { s.Valid = 0 },
		"before the first":    func(s *State) { s.Next = 0 },
		"a NaN in the belief": func(s *State) { s.Belief[2] = nan },
		"a torn belief":       func(s *State) { s.Belief[1] += 1e-9 },
		"another hash":        func(s *State) { s.Hash++ },
	} {
		p := newTestPlanner(t, cfg, newStub(rigObs, rigAction, rigLatent))
		s := learnt(t, cfg, 7)
		corrupt(s)
		if _, err := p.Plan(s, NewPlan(Shape{rigObs, rigAction, rigLatent, 0})); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
		plan(t, p, learnt(t, cfg, 8))
	}
}

func TestPlanner_RefusesInvalidSearchResult(t *testing.T) {
	for name, result := range map[string]struct {
		best  int
		score float64
		err   error
	}{
		"search fails":      {0, 0, errOut},
		"negative index":    {-1, 0, nil},
		"index beyond last": {128, 0, nil},
		"largest index":     {math.MaxInt, 0, nil},
		"score is NaN":      {0, nan, nil},
		"score is infinite": {0, inf, nil},
	} {
		cfg := configured(UCB)
		cfg.Replan = 0
		m := newStub(rigObs, rigAction, rigLatent)
		p := newTestPlanner(t, cfg, m)
		plan(t, p, learnt(t, cfg, 0))
		m.search = func(_, _ []float32, _ tflite.Belief) (int, float32, error) {
			return result.best, float32(result.score), result.err
		}
		s := learnt(t, cfg, 1)
		s.Episode = 1
		if _, err := p.Plan(s, NewPlan(Shape{rigObs, rigAction, rigLatent, 0})); err == nil {
			t.Errorf("%s: no error", name)
		}
		m.search = nil
		plan(t, p, learnt(t, cfg, 2)) // the error discarded the first plan
	}
}

func TestPlanner_UsesBetaSchedule(t *testing.T) {
	cfg := configured(UCB)
	cfg.Beta = Beta{Schedule: Theory, S: 1.5, Delta: 0.1}
	s := learnt(t, cfg, 0)
	b := beliefOf(t, cfg, s)
	want := 1.5 + math.Sqrt(b.LogDet()+2*math.Log(10)) // λ = 1
	if got := plan(t, newTestPlanner(t, cfg, tflitetest.Network(plannerDims, 1)), s).Beta; !closeTo(got, want, 1e-12) {
		t.Errorf("β is %v, want %v", got, want)
	}
	cfg.Beta = Beta{Schedule: Misspecified, S: 1.5, Delta: 0.1, Zeta: 0.2, L: 1e9}
	want += 0.2 * math.Sqrt(b.Weight())
	if got := plan(t, newTestPlanner(t, cfg, tflitetest.Network(plannerDims, 1)), s).Beta; !closeTo(got, want, 1e-12) {
		t.Errorf("β′ is %v, want %v", got, want)
	}
}

func TestPlanner_AllocatesNothing(t *testing.T) {
	for _, strategy := range Strategies() {
		cfg := configured(strategy)
		cfg.Draw.Dither = 0.1
		p := newTestPlanner(t, cfg, tflitetest.Network(plannerDims, 1))
		s := learnt(t, cfg, 0)
		dst := NewPlan(Shape{rigObs, rigAction, rigLatent, 0})
		n := testing.AllocsPerRun(20, func() {
			s.Next++
			if _, err := p.Plan(s, dst); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", strategy, n)
		}
	}
}

func TestPlanner_DithersInPoorStates(t *testing.T) {
	cfg := configured(Thompson)
	cfg.Replan, cfg.Draw = 1, DrawConfig{Scale: 1, Held: 0.5, Ticks: 10}
	dithered := cfg
	dithered.Draw.Dither = 0.5
	m := newStub(rigObs, rigAction, rigLatent)
	plain, p := newTestPlanner(t, cfg, m), newTestPlanner(t, dithered, m)
	dst := NewPlan(Shape{rigObs, rigAction, rigLatent, 0})
	var before []float64
	for tick := uint64(20); tick < 24; tick++ { // which share a held draw
		s := learnt(t, cfg, tick)
		z := slices.Clone(plan(t, plain, s).Z)
		noise := func(sign float64) []float64 {
			m.phi = func(phi []float64, _ []float32) error {
				for i := range phi {
					phi[i] = sign * z[i]
				}
				return nil
			}
			p.planned = false
			_, err := p.Plan(s, dst)
			fatal.If(t, err)
			n := slices.Clone(dst.Z)
			for i := range n {
				n[i] = (n[i] - z[i]) / (0.5 * norm(z))
			}
			return n
		}
		if n := noise(1); norm(n) != 0 {
			t.Errorf("tick %d: noise %v in a good state", tick, n)
		}
		n := noise(-1)
		if length := norm(n); !(length > 0.1 && length < 6) {
			t.Errorf("tick %d: noise of length %g in a poor state, want about 2", tick, length)
		}
		if before != nil && AngleDeg(n, before) < 1 {
			t.Errorf("tick %d: the noise is that of the plan before", tick)
		}
		before = n
		s.Learnt = 1
		noise(-1)
		if want := plan(t, newTestPlanner(t, cfg, m), s).Z; !slices.Equal(dst.Z, want) {
			t.Errorf("tick %d: noise on z of a learnt task", tick)
		}
	}
	m.phi = func([]float64, []float32) error { return errOut }
	if _, err := p.Plan(learnt(t, cfg, 30), dst); !errors.Is(err, errOut) {
		t.Errorf("without features: %v", err)
	}
}
