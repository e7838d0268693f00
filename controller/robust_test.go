package controller

import (
	"math"
	"math/rand/v2"
	"testing"

	"optibfm/rewardsrc"
)

// teaching is an operator that labels random states of a task, with mistakes.
type teaching struct {
	l      *Learner
	task   []float64
	random *rand.Rand
	tick   uint64
}

func newTeaching(t testing.TB, seed uint64, robust, rho float64) *teaching {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Robust, cfg.Rho = robust, rho
	l, err := NewLearner(cfg, teachingLatent, testPeriod)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 99))
	return &teaching{l: l, task: unit(random, teachingLatent), random: random}
}

const teachingLatent = 8

func unit(random *rand.Rand, d int) []float64 {
	z := gaussian(random, d)
	length := norm(z)
	for i := range z {
		z[i] /= length
	}
	return z
}

// teach gives n labels with noise 0.05. Some are mistakes: they have the opposite
// sign, or are 2 if good is set. The random numbers do not depend on the learner.
func (s *teaching) teach(n int, mistaken float64, good bool) {
	for range n {
		phi := gaussian(s.random, teachingLatent)
		reward := 0.05 * s.random.NormFloat64()
		for i, x := range phi {
			reward += x * s.task[i]
		}
		if s.random.Float64() < mistaken {
			reward = -reward
			if good {
				reward = 2
			}
		}
		s.l.Advance(1)
		s.l.Observe(s.tick, int64(s.tick)*int64(testPeriod), phi, nil)
		s.l.Apply(value(s.tick+1, s.tick, reward), 0)
		s.tick++
	}
}

// angle between ẑ and the task, in radians.
func (s *teaching) angle() float64 {
	z := make([]float64, teachingLatent)
	s.l.belief.Mean(z)
	product := 0.0
	for i, x := range z {
		product += x * s.task[i]
	}
	return math.Acos(product / norm(z))
}

func TestRobust_ReducesErrorFromMistakes(t *testing.T) {
	const seeds, limit = 100, 0.2
	for name, c := range map[string]struct {
		mistaken float64
		good     bool
		most     float64 // mean angle of the robust belief, relative to the plain one
	}{
		"10 % with opposite sign": {0.1, false, 0.4},
		"20 % with opposite sign": {0.2, false, 0.5},
		"10 % always good":        {0.1, true, 0.4},
	} {
		var plainSum, robustSum float64
		better := 0
		for seed := range uint64(seeds) {
			plain, robust := newTeaching(t, seed, 0, 1), newTeaching(t, seed, limit, 1)
			plain.teach(100, c.mistaken, c.good)
			robust.teach(100, c.mistaken, c.good)
			plainSum, robustSum = plainSum+plain.angle(), robustSum+robust.angle()
			if robust.angle() < plain.angle() {
				better++
			}
		}
		if robustSum > c.most*plainSum || better < 90 {
			t.Errorf("%s: angle %.3f plain, %.3f robust; smaller for %d of %d seeds",
				name, plainSum/seeds, robustSum/seeds, better, seeds)
		}
	}
}

func TestRobust_CostsLittleWithoutMistakes(t *testing.T) {
	const seeds = 100
	// The first labels lose some weight: the task is five times as large as the
	// robust limit.
	for labels, most := range map[int]float64{10: 1.3, 30: 1.15, 100: 1.05} {
		var plainSum, robustSum float64
		for seed := range uint64(seeds) {
			plain, robust := newTeaching(t, seed, 0, 1), newTeaching(t, seed, 0.2, 1)
			plain.teach(labels, 0, false)
			robust.teach(labels, 0, false)
			plainSum, robustSum = plainSum+plain.angle(), robustSum+robust.angle()
		}
		if robustSum > most*plainSum {
			t.Errorf("%d labels: angle %.4f plain, %.4f robust", labels, plainSum/seeds, robustSum/seeds)
		}
	}
}

func TestRobust_LearnsChangedTask(t *testing.T) {
	labelsUntilNear := func(s *teaching) int {
		s.teach(400, 0, false)
		for i := range s.task {
			s.task[i] = -s.task[i] // the opposite task
		}
		for n := range 2000 {
			if s.angle() < 0.3 {
				return n
			}
			s.teach(1, 0, false)
		}
		return 2000
	}
	for seed := range uint64(30) {
		plain := labelsUntilNear(newTeaching(t, seed, 0, 0.99))
		robust := labelsUntilNear(newTeaching(t, seed, 0.2, 0.99))
		if robust > 3*plain {
			t.Errorf("seed %d: robust needs %d labels for the other task, plain %d", seed, robust, plain)
		}
	}
}

func TestRobust_UndoRemovesDownweightedLabel(t *testing.T) {
	with, without := newTeaching(t, 1, 0.2, 0.999), newTeaching(t, 1, 0.2, 0.999)
	with.teach(60, 0, false)
	without.teach(60, 0, false)
	low := with.l.Apply(value(1000, 57, -5), 0)
	if !(low.Outcome == Applied && low.Weight < 0.2) {
		t.Fatalf("a contradicting label: %v, weight %g", low.Outcome, low.Weight)
	}
	with.l.Advance(20)
	without.l.Advance(20)
	undone := with.l.Apply(rewardsrc.Label{ID: 1001, Kind: rewardsrc.Undo}, 0)
	if want := low.Weight * math.Pow(0.999, 20); undone.Outcome != Applied || math.Abs(undone.Weight-want) > 1e-12 {
		t.Fatalf("%v, weight %g, want %g", undone.Outcome, undone.Weight, want)
	}
	beliefsAgree(t, state(with.l), state(without.l))
}

func TestRobust_FirstLabelHasFullWeight(t *testing.T) {
	s := newTeaching(t, 3, 0.5, 1)
	phi := unit(s.random, teachingLatent)
	for i := range phi {
		phi[i] *= 10 // ‖φ‖² is 100: the root is 10
	}
	s.l.Observe(0, 0, phi, nil)
	if a := s.l.Apply(value(1, 0, 1), 0); a.Outcome != Applied || a.Weight != 1 {
		t.Errorf("the first label: %v, weight %g", a.Outcome, a.Weight)
	}
	if a := s.l.Apply(value(2, 0, -1), 0); a.Outcome != Applied || a.Weight >= 0.5 {
		t.Errorf("the contrary: %v, weight %g", a.Outcome, a.Weight)
	}
}

func TestAppliedLabel_DownweightedBelowFullShare(t *testing.T) {
	for share, want := range map[float64]bool{
		0: false, 1e-12: true, 0.5: true, 0.994: true, FullShare: false, 1: false, nan: false,
	} {
		if got := (&AppliedLabel{Share: share}).Downweighted(); got != want {
			t.Errorf("share %v: %v, want %v", share, got, want)
		}
	}
}
