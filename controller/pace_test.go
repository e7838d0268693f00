package controller

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"optibfm/internal/fatal"
)

// operate runs a gate for some minutes at 50 Hz with D-gaps from gap, and returns
// the requests of each minute.
func operate(cfg GateConfig, minutes int, gap func(minute int) float64) (asked []int, gate *Gate) {
	period := 20 * time.Millisecond
	gate = NewGate(cfg, 1, period)
	tick := uint64(0)
	for minute := range minutes {
		n := 0
		for range int(time.Minute / period) {
			gate.Expire(tick)
			gate.Advance(1)
			if dgap := gap(minute); gate.Passes(math.Expm1(dgap)) {
				if r, ok := gate.Ask(tick, 0, dgap); ok {
					n++
					gate.Answer(r.ID)
				}
			}
			tick++
		}
		asked = append(asked, n)
	}
	return asked, gate
}

func TestPace_RequestRateMeetsBudget(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	gaps := map[string]func(int) float64{
		"exponential":     func(int) float64 { return random.ExpFloat64() },
		"nearly constant": func(int) float64 { return 0.7 + 1e-3*random.Float64() },
		"heavy-tailed":    func(int) float64 { return 0.05 / math.Pow(1-random.Float64(), 0.7) },
		"falling":         func(minute int) float64 { return random.ExpFloat64() * 4 / float64(1+minute) },
	}
	for name, gap := range gaps {
		for _, budget := range []float64{0.5, 3, 12} {
			cfg := DefaultConfig().Gate
			cfg.Kappa, cfg.LabelsPerMinute = 0.01, budget
			const minutes, settling = 60, 20
			asked, _ := operate(cfg, minutes, gap)
			total := 0
			for _, n := range asked[settling:] {
				total += n
			}
			rate := float64(total) / (minutes - settling)
			t.Logf("%-15s %4g wanted: %6.3f a minute; first minute %d", name, budget, rate, asked[0])
			if math.Abs(rate-budget) > 0.1*budget+0.1 {
				t.Errorf("%s: %g a minute, want %g", name, rate, budget)
			}
		}
	}
}

func TestPace_RequestsEqualBudgetPlusKappaChange(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	cfg := DefaultConfig().Gate
	cfg.Kappa, cfg.LabelsPerMinute, cfg.RequestsPerMinute = 1e-3, 6, 0
	asked, gate := operate(cfg, 30, func(int) float64 { return 1 + random.Float64() })
	total := 0
	for _, n := range asked {
		total += n
	}
	if want := 6*30 + math.Log(gate.Kappa()/1e-3)/paceStep; math.Abs(float64(total)-want) > 1 {
		t.Errorf("%d requests, want %g", total, want)
	}
}

func TestPace_KappaHasLowerBound(t *testing.T) {
	for _, c := range []struct{ kappa, budget, dgap float64 }{
		{0.2, 6, 0.19}, // a label would gain too little
		{0.3, 0, 1},    // no budget: κ is constant
	} {
		cfg := DefaultConfig().Gate
		cfg.Kappa, cfg.LabelsPerMinute, cfg.RequestsPerMinute = c.kappa, c.budget, 0
		asked, gate := operate(cfg, 3, func(int) float64 { return c.dgap })
		if gate.Kappa() != c.kappa || (slices.Max(asked) == 0) != (c.dgap < c.kappa) {
			t.Errorf("%+v: κ is %g, asked %v", c, gate.Kappa(), asked)
		}
	}
}

func TestPace_ResumesExactlyFromKappa(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	cfg := DefaultConfig().Gate
	cfg.Kappa, cfg.LabelsPerMinute = 0.05, 7.25
	p, q := NewPace(cfg, time.Millisecond), NewPace(cfg, time.Millisecond)
	for i := range 20_000 {
		p.Advance(random.Uint64N(400))
		if random.IntN(20) == 0 {
			p.Asked()
		}
		q.Resume(p.Kappa())
		if q.level != p.level {
			t.Fatalf("step %d: level %d, want %d", i, q.level, p.level)
		}
	}
	for _, bad := range []float64{nan, inf, 0, -1, 1e300} {
		q.Resume(bad) // from a damaged log: no change
		if q.level != p.level {
			t.Errorf("κ %g changed the level", bad)
		}
	}
}

// kappaCheck computes κ from the recorded ticks and compares.
type kappaCheck struct {
	pace  *Pace
	asked int
}

func (k *kappaCheck) check(t *testing.T, tick *Tick) {
	t.Helper()
	if tick.Flags.Has(FlagArmed) {
		k.pace.Advance(tick.Elapsed)
	}
	if tick.Kappa != k.pace.Kappa() {
		t.Fatalf("tick %d (%v): κ %g, want %g", tick.Index, tick.Mode(), tick.Kappa, k.pace.Kappa())
	}
	if tick.Flags.Has(FlagAsked) {
		k.asked++
		if !tick.Flags.Has(FlagUncounted) {
			k.pace.Asked()
		}
	}
}

func TestAgent_RecordsKappa(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Gate.Kappa, c.Gate.LabelsPerMinute, c.Gate.TimeoutS, c.Gate.BackoffS = 0.01, 3, 0.1, 0
	})
	k := kappaCheck{pace: NewPace(r.cfg.Gate, testPeriod)}
	r.source.onAsk = obliging(r)
	for range 3000 {
		skip := uint64(0)
		if r.random.IntN(40) == 0 {
			skip = 3
		}
		fatal.If(t, r.step(skip, 0))
		k.check(t, r.tick)
		if open := r.tick.DGap >= r.tick.Kappa; open != r.tick.Flags.Has(FlagGateOpen) {
			t.Fatalf("tick %d: D-gap %g, κ %g, gate open %v", r.tick.Index, r.tick.DGap, r.tick.Kappa, !open)
		}
	}
	if k.asked < 4 {
		t.Errorf("%d requests: too few for this test", k.asked)
	}
}

func TestAgent_KappaOfStoppedRobotFollowsFromTicks(t *testing.T) {
	r, robot := newStoppableRig(t, Safety{})
	gate := &r.cfg.Gate
	gate.Kappa, gate.LabelsPerMinute, gate.TimeoutS, gate.BackoffS = 0.01, 30, 0.1, 0
	r.build(robot)
	r.arm()
	r.agent.gate.Hear()
	k := kappaCheck{pace: NewPace(r.cfg.Gate, testPeriod)}
	raised := 0
	for i := range 300 {
		robot.Pressed = i%50 == 49
		if i%50 == 9 && i > 9 {
			fatal.If(t, r.agent.Reset(), r.agent.Arm(0))
		}
		var fault *FaultError
		if err := r.step(0, 0); err != nil && !errors.As(err, &fault) {
			t.Fatal(err)
		}
		k.check(t, r.tick)
		if r.tick.Flags.Has(FlagArmed|FlagStopped) && r.tick.Kappa > 0.01 {
			raised++
		}
	}
	if raised < 3 {
		t.Errorf("%d stops with κ raised: too few for this test", raised)
	}
}

func TestAgent_UnreachableOperatorStopsRequestsNotRobot(t *testing.T) {
	for name, c := range map[string]struct {
		change          func(*GateConfig)
		before, returns int // requests within 20 ticks
	}{
		"pause of an hour": {func(g *GateConfig) {
			g.BackoffS, g.BackoffMaxS, g.LabelsPerMinute = 3600, 3600, 1
		}, 1, 1},
		"no pause": {func(g *GateConfig) { g.BackoffS, g.RequestsPerMinute = 0, 0 }, 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(cfg *Config) { cfg.Gate.TimeoutS = 0.1; c.change(&cfg.Gate) })
			run := func(n int) (asked int) {
				for range n {
					acted := r.robot.Acts
					r.steps(1)
					if r.robot.Acts != acted+1 {
						t.Fatal("the robot does not act")
					}
					if r.tick.Flags.Has(FlagUnreachable) != r.source.away {
						t.Fatalf("flags %b while away is %v", r.tick.Flags, r.source.away)
					}
					if r.tick.Flags.Has(FlagAsked) {
						asked++
					}
				}
				return asked
			}
			if n := run(20); n != c.before {
				t.Fatalf("%d requests before the absence, want %d", n, c.before)
			}
			r.source.away = true
			kappa := r.tick.Kappa
			if n := run(50); n != 0 || r.tick.Kappa != kappa {
				t.Errorf("during the absence: %d requests, κ from %g to %g", n, kappa, r.tick.Kappa)
			}
			r.source.away = false
			if n := run(20); n != c.returns {
				t.Errorf("%d requests after the return, want %d", n, c.returns)
			}
		})
	}
}

func BenchmarkPace(b *testing.B) {
	cfg := DefaultConfig().Gate
	cfg.Kappa, cfg.LabelsPerMinute = 0.01, 3
	gate := NewGate(cfg, 1, time.Millisecond)
	b.ReportAllocs()
	for b.Loop() {
		gate.pace.level = 3 * gate.pace.perAsk // at level 0 it takes less time
		gate.Advance(1)
		if gate.Passes(1e-9) {
			b.Fatal("κ is 0")
		}
	}
}
