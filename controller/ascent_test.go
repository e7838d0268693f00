package controller

import (
	"errors"
	"math"
	"slices"
	"testing"

	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

func TestAscent_ImprovesOnMean(t *testing.T) {
	cfg := configured(UCBGradient)
	network := tflitetest.Network(plannerDims, 3)
	s := learnt(t, cfg, 4)
	mean := make([]float64, rigLatent)
	beliefOf(t, cfg, s).Mean(mean)
	at := func(z []float64) float64 {
		narrowZ := make([]float32, rigLatent)
		toFloat32(narrowZ, z)
		_, score := bruteForce(t, network, s, narrowZ, cfg)
		return score
	}
	last := at(mean)
	for _, steps := range []int{2, 16} {
		cfg.Gradient.Steps = steps
		got := plan(t, newTestPlanner(t, cfg, network), s)
		if !closeTo(got.Score, at(got.Z), 1e-4) || got.Beta != 1 {
			t.Errorf("%d steps: score %v, z has %v; β %v", steps, got.Score, at(got.Z), got.Beta)
		}
		if !(got.Score > last) {
			t.Errorf("%d steps: score %v, with fewer steps %v", steps, got.Score, last)
		}
		last = got.Score
	}
}

// slopes is a model with a score of constant gradient.
type slopes struct {
	*tflite.Network
	slope []float32
	seen  [][]float32
}

func (m *slopes) Gradient(dz, _, z []float32, _ tflite.Belief) (float32, error) {
	copy(dz, m.slope)
	m.seen = append(m.seen, slices.Clone(z))
	return float32(len(m.seen)), nil
}

func (m *slopes) Search(_, z []float32, _ tflite.Belief) (int, float32, error) {
	m.seen = append(m.seen, slices.Clone(z))
	return 0, float32(len(m.seen)), nil
}

func TestAscent_TakesStepsOfAdamFromMean(t *testing.T) {
	for _, absolute := range []bool{false, true} {
		testStepsOfAdam(t, absolute)
	}
}

func testStepsOfAdam(t *testing.T, absolute bool) {
	cfg := configured(UCBGradient)
	cfg.Gradient = GradientConfig{Steps: 3, LearningRate: 0.1, Absolute: absolute}
	m := &slopes{Network: tflitetest.Network(plannerDims, 3), slope: []float32{1e-3, -5, 0, 2}}
	s := learnt(t, cfg, 4)
	got := plan(t, newTestPlanner(t, cfg, m), s)
	mean := make([]float64, rigLatent)
	beliefOf(t, cfg, s).Mean(mean)
	// With a constant gradient, every step of Adam has the length of the rate.
	unit := 0.1
	if !absolute {
		unit *= norm(mean) / math.Sqrt(rigLatent)
	}
	for step, z := range m.seen {
		for i, sign := range []float64{1, -1, 0, 1} {
			if want := mean[i] + sign*unit*float64(step); math.Abs(float64(z[i])-want) > 1e-4*unit+1e-6 {
				t.Errorf("step %d: element %d is %v, want %v", step, i, z[i], want)
			}
		}
	}
	if len(m.seen) != 4 || got.Score != 4 || float32(got.Z[1]) != m.seen[3][1] {
		t.Errorf("%d places, score %v, z %v: want the best one, the last of 4", len(m.seen), got.Score, got.Z)
	}
}

func TestAscent_KeepsOptimizerStateWithinEpisode(t *testing.T) {
	for _, keep := range []bool{false, true} {
		cfg := configured(UCBGradient)
		cfg.Gradient.KeepMoments = keep
		m := &slopes{Network: tflitetest.Network(plannerDims, 3), slope: []float32{1, 1, 1, 1}}
		p := newTestPlanner(t, cfg, m)
		plan(t, p, learnt(t, cfg, 4))
		if plan(t, p, learnt(t, cfg, 5)); p.ascent.steps != 2*cfg.Gradient.Steps {
			t.Errorf("%d steps, want those of both plans", p.ascent.steps)
		}
		s, plans := learnt(t, cfg, 6), 1
		s.Episode = 1
		if keep {
			plans = 3
		}
		if plan(t, p, s); p.ascent.steps != plans*cfg.Gradient.Steps {
			t.Errorf("keep_moments %t: %d steps in a new episode, want those of %d plans", keep, p.ascent.steps, plans)
		}
	}
}

func TestAscent_IsDeterministic(t *testing.T) {
	cfg := configured(UCBGradient)
	var plans []*Plan
	for range 2 {
		p := newTestPlanner(t, cfg, tflitetest.Network(plannerDims, 1))
		plan(t, p, learnt(t, cfg, 1))
		plans = append(plans, plan(t, p, learnt(t, cfg, 2)))
	}
	if !slices.Equal(plans[0].Z, plans[1].Z) || plans[0].Score != plans[1].Score {
		t.Errorf("%v, then %v", plans[0].Z, plans[1].Z)
	}
}

func TestAscent_NeedsModelWithGradients(t *testing.T) {
	withoutGradient := struct{ tflite.Model }{newStub(rigObs, rigAction, rigLatent)}
	_, err := NewPlanner(configured(UCBGradient), withoutGradient)
	if !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	for _, g := range []GradientConfig{
		{Steps: 0, LearningRate: 0.1}, {Steps: 2000, LearningRate: 0.1}, {Steps: 4, LearningRate: 0},
		{Steps: 4, LearningRate: math.NaN()}, {Steps: 4, LearningRate: 11},
	} {
		cfg := configured(UCBGradient)
		cfg.Gradient = g
		if err := cfg.Validate(rigLatent); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", g, err)
		}
	}
}
