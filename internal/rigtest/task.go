package rigtest

import (
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/internal/fatal"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
)

// NewTask returns a task with the belief of a few labels, for runs of a session.
func NewTask(t *testing.T, s *setup.Session, name string) taskstore.Task {
	t.Helper()
	k := s.File.Controller
	l, err := controller.NewLearner(k, s.Model.Dims().Latent, 20*time.Millisecond)
	fatal.If(t, err)
	d := s.Model.Dims().Latent
	phi := make([]float64, 3*d)
	for i := range phi {
		phi[i] = float64(i%5) - 2
	}
	fatal.If(t, l.WarmStart(phi, []float64{1, -1, 0.5}))
	saved := taskstore.SavedBelief{
		Belief: l.Belief(), Basis: k.BasisHash(), Offset: k.Offset, Sigma: k.Sigma, Estimate: k.Noise.Estimate,
		LearntScale: k.LearntScale(), Noise: l.Noise(), SavedAt: time.Unix(1e9, 0),
		Sessions: []taskstore.Session{{ID: "earlier-0", Until: 9}},
	}
	return taskstore.Task{
		Name: name, ModelHash: s.Model.Fingerprint(), Z: setup.MeanZ(k, saved), Belief: &saved,
		Origin: taskstore.Origin{At: saved.SavedAt, Robot: "rover"},
	}
}

// TaskFile returns the bytes of the file of a task.
func TaskFile(t *testing.T, task taskstore.Task) []byte {
	t.Helper()
	store := taskstore.Store{Dir: t.TempDir()}
	fatal.If(t, store.Save(task, false))
	_, data, err := store.Read(task.Name)
	fatal.If(t, err)
	return data
}

// SaveLast saves a task as the newest belief of a run.
func SaveLast(t *testing.T, dir string, task taskstore.Task) {
	t.Helper()
	keeper, err := taskstore.Store{State: dir}.Lock()
	fatal.If(t, err)
	fatal.If(t, keeper.Save(task))
	fatal.If(t, keeper.Close())
}
