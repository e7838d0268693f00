package controller

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

// ranged runs an agent whose operator's labels have a range, and returns
// its ticks. From the middle on the task is another one.
func ranged(t *testing.T, labels LabelRange, change func(*Config)) (run []*Tick) {
	t.Helper()
	r := newRig(t, func(c *Config) {
		*c = PersonConfig()
		prior := testPrior(rigLatent, 3)
		floats.Scale(0.05, prior.Moment)
		random := rand.New(rand.NewPCG(9, 9))
		for range 6 * (rigLatent + 3) {
			prior.Examples = append(prior.Examples, float32(random.NormFloat64()))
		}
		var err error
		c.Basis, err = NewBasis(prior)
		fatal.If(t, err)
		c.Gate.StopWhenLearnt, c.Gate.RequestsPerMinute, c.Gate.Kappa, c.Candidates = true, 0, 0.05, 8
		change(c)
		c.LabelRange = labels
	})
	r.model.act = func(dst, obs []float32, z []float64) error {
		for i := range dst {
			dst[i] = obs[i] * float32(math.Tanh(z[i]))
		}
		return nil
	}
	r.model.search = func(_, candidates []float32, b tflite.Belief) (best int, score float32, err error) {
		for i := 0; i < len(candidates); i += rigLatent {
			if s := candidates[i]*b.Mean[0] + b.Beta*b.InvR[1]*candidates[i+1]; s > score {
				best, score = i/rigLatent, s
			}
		}
		return best, score, nil
	}
	sign, id := 1.0, uint64(0)
	grade := func(t *Tick) float64 { return math.Round(4+4*math.Tanh(3*sign*float64(t.Obs[0]))) / 8 }
	give := func(l rewardsrc.Label, share float64) { // of the range
		id++
		l.ID, l.Value = id, share*(labels.Good-labels.Bad)
		if l.Kind == rewardsrc.Value {
			l.Value += labels.Bad
		}
		r.source.give(l)
	}
	r.source.onAsk = func(q rewardsrc.Request) {
		if q.State == rewardsrc.Open {
			give(answer(0, q.ID, 0), grade(r.agent.tick))
		}
	}
	for i := range 3000 {
		if i == 1500 {
			sign = -1
		}
		label := press(0, int64(r.next)*int64(testPeriod), 0)
		switch {
		case i%25 == 10:
			give(value(0, r.next-1, 0), grade(r.tick))
		case i%500 == 20:
			give(label, 0.5)
		case i%500 == 120:
			label.Kind = rewardsrc.Comparison
			give(label, rewardsrc.Worse(1, 0).Value)
		case i%500 == 220:
			label.Kind = rewardsrc.Goal
			give(label, rewardsrc.AtGoal(1, 0).Value)
		case i%500 == 36:
			give(rewardsrc.Label{Kind: rewardsrc.Undo}, 0)
		}
		r.steps(1)
		kept := NewTick(r.agent.Shape())
		kept.CopyFrom(r.tick)
		run = append(run, kept)
	}
	return run
}

func TestAgent_DecidesAlikeForEveryRangeOfLabels(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"thompson":      func(*Config) {},
		"wider scale":   func(c *Config) { c.Labels.Bad = -1 },
		"ucb":           func(c *Config) { c.Strategy = UCB },
		"fixed noise":   func(c *Config) { c.Noise = NoiseConfig{} },
		"no hypotheses": func(c *Config) { c.Hypotheses = false },
	} {
		t.Run(name, func(t *testing.T) {
			all, undone := Flags(0), 0
			cfg := PersonConfig()
			change(&cfg)
			scale, bad := LabelRange(cfg.Labels), 2.0
			unit := (10 - bad) / (scale.Good - scale.Bad)
			label := func(x float64) float64 { return bad + unit*(x-scale.Bad) }
			unscaled, labels := ranged(t, scale, change), ranged(t, LabelRange{bad, 10}, change)
			for i, got := range labels {
				want := unscaled[i]
				for k := range want.Labels[:want.NumLabels] {
					l := &want.Labels[k]
					if l.Kind == rewardsrc.Undo && l.Outcome == Applied {
						undone++
					}
					if l.Kind == rewardsrc.Value || l.Kind == rewardsrc.Undo {
						l.Value = label(l.Value)
					} else {
						l.Value *= unit
					}
				}
				if !nearly(got.Sigma, unit*want.Sigma) || !nearly(got.Zero, label(want.Zero)) {
					t.Fatalf("tick %d: σ %g, zero %g, want %g, %g",
						i, got.Sigma, got.Zero, unit*want.Sigma, label(want.Zero))
				}
				want.Sigma, want.Zero = got.Sigma, got.Zero
				if *got.Header != *want.Header || !slices.Equal(got.Z, want.Z) || !slices.Equal(got.Action, want.Action) {
					t.Fatalf("tick %d: %+v, want %+v", i, *got.Header, *want.Header)
				}
				all |= got.Flags
			}
			if undone == 0 || !all.Has(FlagAsked|FlagRequestClosed|FlagChanged|FlagKeepable) {
				t.Errorf("%d undos, flags %b: too little happened", undone, all)
			}
		})
	}
}

func nearly(x, y float64) bool { return math.Abs(x-y) <= 1e-12*max(1, math.Abs(y)) }

func TestLearner_LabelsWithoutOffsetHaveNoRange(t *testing.T) {
	var hashes [2]uint64
	for i, labels := range []LabelRange{{}, {-5, 5}} {
		l, _ := newTestLearner(t, func(c *Config) { c.LabelRange = labels })
		l.Observe(1, 0, []float64{1, 2, 3, 4}, nil)
		l.Apply(value(1, 1, 3), 0)
		hashes[i] = l.Belief().Hash()
	}
	if hashes[0] != hashes[1] {
		t.Error("the belief is another")
	}
}

func TestConfig_ExpectedIsInTheUnitOfLabels(t *testing.T) {
	var expected, deviation [2]float64
	for i, labels := range []LabelRange{{}, {2, 10}} {
		cfg := PersonConfig()
		cfg.LabelRange = labels
		l, err := NewLearner(cfg, 2, testPeriod)
		fatal.If(t, err)
		phi, z := []float64{1, -2}, []float64{0.25, 0.125}
		l.Observe(1, 0, phi, nil)
		l.Apply(value(1, 1, cfg.labelScale().label(0.75)), 0)
		if l.Zero() != cfg.Zero(l.Belief()) || cfg.Scale(l.Sigma()) != l.Scale() {
			t.Errorf("%v: zero %g, scale %g, want %g, %g",
				labels, cfg.Zero(l.Belief()), cfg.Scale(l.Sigma()), l.Zero(), l.Scale())
		}
		expected[i], deviation[i] = cfg.Expected(phi, z, l.Zero()), cfg.Deviation(4, l.Sigma())
	}
	if !nearly(expected[1], 8*expected[0]+2) || !nearly(deviation[1], 8*deviation[0]) {
		t.Errorf("expected %v ± %v", expected, deviation)
	}
}

func TestLearner_WarmStartHasTheRangeOfLabels(t *testing.T) {
	cfg := PersonConfig()
	var hashes [2]uint64
	for i, labels := range []LabelRange{{}, {2, 10}} {
		cfg.LabelRange = labels
		l, err := NewLearner(cfg, 2, testPeriod)
		fatal.If(t, err)
		scale := cfg.labelScale()
		fatal.If(t, l.WarmStart([]float64{1, 2, 3, 4}, []float64{scale.label(0.5), scale.label(0.25)}))
		hashes[i] = l.Belief().Hash()
	}
	if hashes[0] != hashes[1] {
		t.Error("the belief is another")
	}
}
