package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"optibfm/controller"
	"optibfm/internal/beliefstore"
	"optibfm/internal/plaintext"
	"optibfm/posterior"
)

// RestoreBelief gives the learner the belief of earlier runs or, without one, that of StartBelief. It returns
// a message about that belief, the former tasks and the task that the run follows first, empty if there is none.
func RestoreBelief(ctx context.Context, l *controller.Learner, s *Session) (message string, err error) {
	recalled, err := loadBelief(l, s)
	if err != nil {
		return recalled, err
	}
	started, former, first := "", "", ""
	if n := len(s.File.Controller.FormerTasks); n > 0 {
		former = fmt.Sprintf("%d saved tasks are hypotheses (run.former_tasks)", n)
	}
	if l.Belief().Weight() == 0 {
		started, err = StartBelief(ctx, l, s)
	}
	if e := s.File.Controller.Explore; e.UntilLabel {
		first = fmt.Sprintf("the robot follows the task %s until your first label", e.Tasks[0])
	}
	messages := slices.DeleteFunc([]string{recalled, started, former, first}, func(m string) bool { return m == "" })
	return strings.Join(messages, "; "), err
}

// StartBelief gives the learner the belief of run.start_task or, without one, the labels of model.warm_start. It
// returns a message about the task, empty if there was none.
func StartBelief(ctx context.Context, l *controller.Learner, s *Session) (started string, err error) {
	if s.Start != nil {
		started = s.Start.message()
	}
	if s.Start == nil || s.Start.Belief == nil {
		return started, s.Warm.Apply(ctx, l)
	}
	if err := restore(l, *s.Start.Belief); err != nil {
		return "", fmt.Errorf("run.start_task: %s: %w", s.Start.Path, err)
	}
	return started, nil
}

// restore copies a belief.
func restore(l *controller.Learner, r beliefstore.Record) error {
	state := make([]float64, posterior.StateLen(r.Belief.Dim()))
	r.Belief.State(state)
	return l.Restore(state, r.Noise)
}

// MeanZ returns ẑ [d] of a belief of a configuration.
func MeanZ(k controller.Config, r beliefstore.Record) []float64 {
	z := make([]float64, r.Belief.TaskDim())
	k.Estimate(z, r.Belief, r.Noise.Scale(k))
	return z
}

// loadBelief gives the learner the belief in run.state_dir, or sets that aside in a fresh session.
func loadBelief(l *controller.Learner, s *Session) (message string, err error) {
	dir := s.File.Run.StateDir
	if dir == "" {
		return "", nil
	}
	if s.fresh {
		old, err := beliefstore.SetAside(dir)
		if err != nil {
			return "", fmt.Errorf("run.state_dir: --fresh: %w", err)
		}
		if old != "" {
			message = "the belief of earlier runs is set aside in " + old
		}
		return message, nil
	}
	record, err := beliefstore.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil {
		err = checkBelief(record, beliefstore.Path(dir), s.File.Controller, s.Model)
	}
	if err == nil {
		err = restore(l, record)
	}
	if err != nil {
		return "", fmt.Errorf("run.state_dir: %w; or start without it: use --fresh once, or rename %s",
			err, beliefstore.Path(dir))
	}
	return fmt.Sprintf("the run starts from the belief of %s; labels in it: %d",
		record.SavedAt.UTC().Format("2006-01-02 15:04:05 UTC"), record.Labels()), nil
}

// CheckModelHash refuses a file of another model.
func CheckModelHash(path, hash string, m Model) error {
	if is := m.Fingerprint(); hash != is {
		return fmt.Errorf("%s belongs to another model (%s, not %s); use that model",
			path, plaintext.ShortHash(hash), plaintext.ShortHash(is))
	}
	return nil
}

// checkBelief refuses a belief of another model or of other settings. where is the file of the belief.
func checkBelief(r beliefstore.Record, where string, k controller.Config, m Model) error {
	if err := CheckModelHash(where, r.ModelHash, m); err != nil {
		return err
	}
	b := r.Belief
	if d := m.Dims().Latent; b.TaskDim() != d {
		return fmt.Errorf("%s has another dimension (%d, not %d); use its model", where, b.TaskDim(), d)
	}
	if err := CheckBasis(where, r, k); err != nil {
		return err
	}
	own, err := k.NewBelief(b.TaskDim())
	if err != nil {
		return err
	}
	for _, key := range []struct {
		name    string
		was, is float64
	}{
		{"offset", r.Offset, k.Offset}, {"sigma", r.Sigma, k.Sigma},
		{"lambda", b.Lambda(), own.Lambda()}, {"rho", b.Rho(), k.Rho},
	} {
		if key.was != key.is {
			return fmt.Errorf("%s belongs to another controller.%s (%g, not %g); set that value",
				where, key.name, key.was, key.is)
		}
	}
	if b.ExactRestore() != k.ExactRestore {
		return fmt.Errorf("%s belongs to controller.exact_restore %t; set that value", where, b.ExactRestore())
	}
	return nil
}

// CheckBasis refuses a belief in other coordinates or of another noise model.
func CheckBasis(where string, r beliefstore.Record, k controller.Config) error {
	switch is := k.BasisHash(); {
	case r.Basis == is:
	case r.Basis == "":
		return fmt.Errorf("%s belongs to an isotropic prior; set controller.prior: isotropic", where)
	case is == "":
		return fmt.Errorf("%s belongs to a task prior (%s); set controller.prior: task", where, r.Basis)
	default:
		return fmt.Errorf("%s belongs to another task prior of the model (%s, not %s); use that bundle",
			where, r.Basis, is)
	}
	if r.Estimate != k.Noise.Estimate {
		return fmt.Errorf("%s belongs to controller.noise.estimate %t; set that value", where, r.Estimate)
	}
	return nil
}
