package flightlog

import (
	"math"
	"testing"

	"optibfm/controller"
	"optibfm/flightlog/flightlogtest"
	"optibfm/internal/fatal"
)

// simulation is a simulated run with ticks of testShape.
type simulation flightlogtest.Run

// run returns the path of the log and ẑ at its end.
func (s simulation) run(t *testing.T) (path string, z []float64) { return s.runSpoilt(t, nil) }

// runSpoilt changes the snapshot of the switch to a saved task; without a Task it is missing.
func (s simulation) runSpoilt(t *testing.T, spoil func(*Snapshot)) (path string, z []float64) {
	t.Helper()
	meta := testMetadata(testShape)
	meta.Control, s.Latent, s.Period = s.Config, testShape.Latent, meta.Robot.Period
	w, path := create(t, meta, Options{NoSync: true})
	newTick := func(index uint64) *controller.Tick { return randomTick(testShape, index) }
	z = flightlogtest.Run(s).Write(t, spoiltLog{w, spoil}, newTick)
	fatal.If(t, w.Close())
	return path, z
}

type spoiltLog struct {
	*Writer
	spoil func(*Snapshot)
}

func (l spoiltLog) WriteLearner(next uint64, learner *controller.Learner, task string) error {
	state := make([]float64, testShape.StateLen())
	learner.Belief().State(state)
	s := Snapshot{Next: next, State: state, Hash: learner.Belief().Hash(), Noise: learner.Noise(), Task: task}
	if task != "" && l.spoil != nil {
		if l.spoil(&s); s.Task == "" {
			return nil
		}
	}
	return l.WriteSnapshot(s)
}

func sameVector(t *testing.T, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d numbers, want %d", len(got), len(want))
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > tolerance {
			t.Fatalf("[%d]: got %g, want %g", i, got[i], want[i])
		}
	}
}
