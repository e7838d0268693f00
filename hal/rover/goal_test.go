package rover_test

import (
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

// goal returns ẑ of the preset person after one press "this is it" at an observation.
func (s *solver) goal(t *testing.T, obs []float32) []float64 {
	t.Helper()
	cfg, d := controller.PersonConfig(), s.network.Dims().Latent
	phi, z := make([]float64, d), make([]float64, d)
	var err error
	if cfg.Basis, err = controller.NewBasis(loadModel(t).Prior); err != nil {
		t.Fatal(err)
	}
	l, err := controller.NewLearner(cfg, d, 50*time.Millisecond)
	fatal.If(t, err)
	fatal.If(t, s.network.Phi(phi, obs))
	l.Observe(1, 0, phi, obs)
	a := l.Apply(rewardsrc.Label{ID: 1, Kind: rewardsrc.Goal, Tick: 1, Value: 1}, 0)
	if a.Outcome != controller.Applied {
		t.Fatalf("%+v", a)
	}
	cfg.Estimate(z, l.Belief(), l.Scale())
	return z
}

func TestModel_FollowsOneGoal(t *testing.T) {
	s := newSolver(t, 20_000)
	for task, obs := range map[string][]float32{ // x, y, cos and sin of the heading, speed, yaw rate
		"corner":     {0.8, 0.8, 0.7, 0.7, 0, 0},
		"far_corner": {-0.8, -0.8, -0.7, -0.7, 0, 0},
		"centre":     {0, 0, 1, 0, 0, 0},
		"south_wall": {0.1, -0.85, 1, 0, 0.2, 0},
	} {
		goal, oracle := s.goal(t, obs), s.infer(t, task)
		earned := s.earn(t, task, func() []float64 { return goal }, 10)
		most := s.earn(t, task, func() []float64 { return oracle }, 10)
		t.Logf("%-10s after one goal %5.1f, oracle %5.1f", task, earned, most)
		if earned < most/2 {
			t.Errorf("%s: the goal earns %.1f, the oracle %.1f", task, earned, most)
		}
	}
}
