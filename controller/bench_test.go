package controller

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"optibfm/hal/haltest"
	"optibfm/rewardsrc"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// The sizes of a quadruped with the usual networks.
const (
	benchObs    = 24
	benchAction = 6
	benchLatent = 50
	benchHidden = 256
)

// benchNetwork is a random model with hidden layers of 256.
func benchNetwork(b *testing.B) *tflite.Network {
	b.Helper()
	m := tflitetest.Manifest(tflite.Dims{Obs: benchObs, Action: benchAction, Latent: benchLatent, Ensemble: 2})
	a := &m.Architecture
	a.F.Hidden, a.B.Hidden, a.Actor.Hidden = benchHidden, benchHidden, benchHidden
	bundle, err := tflite.New(m, tflitetest.Tensors(m.Architecture, 1))
	if err != nil {
		b.Fatal(err)
	}
	n, err := bundle.NewNetwork()
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkStep measures a control tick with a label and without the planner.
func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		name     string
		rho      float64
		networks bool
	}{{"remembering", 1, false}, {"forgetting", 0.999, false}, {"networks", 1, true}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.Rho, cfg.Gate.RequestsPerMinute, cfg.Gate.BackoffS = c.rho, 0, 0
			shape := Shape{benchObs, benchAction, benchLatent, 0}
			random := rand.New(rand.NewPCG(1, 1))
			features := gaussian(random, benchLatent)
			stub := newStub(benchObs, benchAction, benchLatent)
			stub.phi = func(dst []float64, _ []float32) error { copy(dst, features); return nil }
			var model tflite.Model = stub
			if c.networks {
				model = benchNetwork(b)
			}
			plans := newStubPlans(shape)
			plans.confirm()
			robot := haltest.New(haltest.Spec(benchObs, benchAction))
			robot.Observe = func(n int, obs []float32) error {
				toFloat32(obs, features[n%benchObs:][:benchObs])
				return nil
			}
			agent, err := NewAgent(cfg, Parts{Robot: robot, Source: &oracle{}, Model: model, Plans: plans})
			if err != nil {
				b.Fatal(err)
			}
			if err := agent.Arm(0); err != nil {
				b.Fatal(err)
			}
			tick := NewTick(shape)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				features[i%benchLatent] = -features[i%benchLatent]
				tick.Index, tick.Elapsed, tick.Flags = uint64(i), 1, 0
				if err := agent.Step(tick); err != nil {
					b.Fatal(err)
				}
				if tick.NumLabels != 1 || tick.Labels[0].Outcome != Applied {
					b.Fatal("no label")
				}
			}
		})
	}
}

// oracle answers every request at once.
type oracle struct{ open, lastID uint64 }

func (o *oracle) Ask(r rewardsrc.Request) {
	o.open = 0
	if r.State == rewardsrc.Open {
		o.open = r.ID
	}
}

func (o *oracle) Poll(dst []rewardsrc.Label) int {
	if o.open == 0 {
		return 0
	}
	o.lastID++
	dst[0] = answer(o.lastID, o.open, 0.5)
	return 1
}

func (o *oracle) Halt() error { return nil }

func BenchmarkApply(b *testing.B) {
	cfg := DefaultConfig()
	l, err := NewLearner(cfg, benchLatent, testPeriod)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	at := int64(0)
	for tick := range uint64(100) {
		at = int64(tick) * int64(testPeriod)
		l.Observe(tick, at, gaussian(random, benchLatent), nil)
	}
	b.Run("answer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Apply(answer(0, 1, 0.5), 90)
		}
	})
	b.Run("press", func(b *testing.B) { // 21 ticks in the window
		b.ReportAllocs()
		for b.Loop() {
			l.Apply(press(0, at, 0.5), 0)
		}
	})
}

func BenchmarkPlan(b *testing.B) {
	network := benchNetwork(b)
	for _, strategy := range Strategies() {
		if strategy == UCB || strategy == UCBSphere {
			for _, n := range []int{128, 512} {
				b.Run(fmt.Sprintf("%s/n=%d", strategy, n), func(b *testing.B) {
					benchmarkPlan(b, network, strategy, n)
				})
			}
			continue
		}
		b.Run(strategy, func(b *testing.B) { benchmarkPlan(b, network, strategy, 0) })
	}
}

func benchmarkPlan(b *testing.B, network *tflite.Network, strategy string, candidates int) {
	cfg := DefaultConfig()
	cfg.Strategy, cfg.Candidates = strategy, candidates
	cfg.FixedZ = gaussian(rand.New(rand.NewPCG(1, 1)), benchLatent)
	p, err := NewPlanner(cfg, network)
	if err != nil {
		b.Fatal(err)
	}
	l, err := NewLearner(cfg, benchLatent, testPeriod)
	if err != nil {
		b.Fatal(err)
	}
	shape := Shape{benchObs, benchAction, benchLatent, 0}
	s, dst := NewState(shape), NewPlan(shape)
	s.Valid, s.Hash, s.Scale = 1, l.Belief().Hash(), l.Scale()
	l.Belief().State(s.Belief)
	s.Next = 1
	if _, err := p.Plan(s, dst); err != nil { // allocates the model's scratch
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Next++
		if _, err := p.Plan(s, dst); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHypotheses plans after a new label in every tick, and after none.
func BenchmarkHypotheses(b *testing.B) {
	const residuals, examples = 64, 256
	prior := testPrior(benchLatent, residuals)
	for _, x := range gaussian(rand.New(rand.NewPCG(2, 2)), examples*(benchLatent+residuals)) {
		prior.Examples = append(prior.Examples, float32(x))
	}
	cfg := PersonConfig()
	var err error
	if cfg.Basis, err = NewBasis(prior); err != nil {
		b.Fatal(err)
	}
	l, err := NewLearner(cfg, benchLatent, testPeriod)
	if err != nil {
		b.Fatal(err)
	}
	h := newHypotheses(cfg, benchLatent)
	random := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, l.Belief().Dim())
	l.features(x, gaussian(random, benchLatent), make([]float32, benchObs))
	for name, weight := range map[string]float64{"label": 1e-9, "none": 0} {
		b.Run(name, func(b *testing.B) {
			l.Belief().Reset()
			if err := l.Belief().Update(x, 0.5, 1); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if weight > 0 {
					if err := l.Belief().Update(x, 0.5, weight); err != nil {
						b.Fatal(err)
					}
				}
				if !h.weigh(l.Belief(), l.Scale()) {
					b.Fatal("not weighed")
				}
			}
		})
	}
}

// BenchmarkLearner_Relearn measures the longest Relearn: with all labels that the ledger holds.
func BenchmarkLearner_Relearn(b *testing.B) {
	for _, d := range []int{50, 100, 256} {
		b.Run(fmt.Sprint(d), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.Gate.Relearn, cfg.Offset = true, 1
			l, err := NewLearner(cfg, d, testPeriod)
			if err != nil {
				b.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 2))
			for tick := range uint64(undoable) {
				l.Observe(tick, int64(tick)*int64(testPeriod), gaussian(random, d), nil)
				if got := l.Apply(value(tick+1, tick, 1), 0); got.Outcome != Applied {
					b.Fatal(got.Outcome)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				l.evidence.open, l.evidence.first = true, 0
				l.Relearn(0)
			}
			if l.noise.state.Labels != undoable {
				b.Fatalf("%d labels, want %d", l.noise.state.Labels, undoable)
			}
		})
	}
}
