package oracle_test

import (
	"math"
	"slices"
	"testing"

	"optibfm/episodes/oracle"
	"optibfm/hal/rover"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestRecord_ReturnsWholeEpisodesWithRewards(t *testing.T) {
	cfg := rover.DefaultConfig()
	robot, err := rover.New(cfg)
	fatal.If(t, err)
	states, err := oracle.Record(robot, cfg.RewardOf, 500, 1)
	fatal.If(t, err)
	sum := 0
	for _, length := range states.Episodes {
		sum += length
	}
	if sum != 500 || len(states.Episodes) < 5 || slices.Max(states.Episodes) > 100 {
		t.Errorf("episode lengths %v, want 500 states in episodes of at most 100", states.Episodes)
	}
	want, err := rover.Reward(cfg.Task, states.Obs[6:12])
	if err != nil || states.Reward[1] != want {
		t.Errorf("reward of state 1: %v, want %v (%v)", states.Reward[1], want, err)
	}
}

func TestLabelled_InferFindsTheTask(t *testing.T) {
	z := []float64{0.5, -2}
	var l oracle.Labelled
	for _, phi := range [][]float64{{1, 0}, {0, 1}, {1, 1}} {
		l.Phi = append(l.Phi, phi...)
		l.Reward = append(l.Reward, phi[0]*z[0]+phi[1]*z[1])
	}
	got, err := l.Infer(1e-9)
	if err != nil || math.Abs(got[0]-z[0]) > 1e-6 || math.Abs(got[1]-z[1]) > 1e-6 {
		t.Errorf("inferred %v, want %v (%v)", got, z, err)
	}
	errtest.NotNil(t, errtest.Of((oracle.Labelled{}).Infer(1)), "no error without states")
}
