package rigtest

import (
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/internal/beliefstore"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
)

// NewTask returns a task with the belief of a few labels, for runs of a session.
func NewTask(t *testing.T, s *setup.Session, name string) taskstore.Task {
	t.Helper()
	k := s.File.Controller
	l, err := controller.NewLearner(k, s.Model.Dims().Latent, 20*time.Millisecond)
	Must(t, err)
	d := s.Model.Dims().Latent
	phi := make([]float64, 3*d)
	for i := range phi {
		phi[i] = float64(i%5) - 2
	}
	Must(t, l.WarmStart(phi, []float64{1, -1, 0.5}))
	record := beliefstore.Record{
		ModelHash: s.Model.Fingerprint(), Basis: k.BasisHash(), Offset: k.Offset, Sigma: k.Sigma,
		Estimate: k.Noise.Estimate, Noise: l.Noise(), Program: "test", Robot: "rover", SavedAt: time.Unix(1e9, 0),
		Belief: l.Belief(),
	}
	return taskstore.Task{
		Name: name, ModelHash: record.ModelHash, Z: setup.MeanZ(k, record), Belief: &record,
		Origin: taskstore.Origin{At: record.SavedAt, Robot: record.Robot},
	}
}

// TaskFile returns the bytes of the file of a task.
func TaskFile(t *testing.T, task taskstore.Task) []byte {
	t.Helper()
	folder := taskstore.Folder(t.TempDir())
	Must(t, folder.Save(task, false))
	_, data, err := folder.Read(task.Name)
	Must(t, err)
	return data
}
