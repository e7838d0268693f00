package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"optibfm/controller"
	"optibfm/internal/journal"
	"optibfm/internal/plaintext"
	"optibfm/internal/taskstore"
	"optibfm/posterior"
)

// Recall reads the belief of earlier runs and sets Began, Lineage and the former tasks. OpenSession
// calls it for a run in lockstep. A run in real time calls it before it makes the controller, while
// it holds safety.socket: an earlier run saves its last labels before it closes that.
func (s *Session) Recall() (err error) {
	if s.last, err = s.loadLast(); err != nil {
		return err
	}
	var belief *taskstore.SavedBelief
	if task := s.begins(); task != nil {
		s.Began, belief = task.Name, task.Belief
	}
	s.Lineage = taskstore.NewLineage(belief)
	if belief == nil && s.File.Model.WarmStart != "" {
		s.Lineage = taskstore.NewLineage(new(taskstore.SavedBelief)) // other runs may have the same labels
	}
	for _, err := range SetFormerTasks(&s.File.Controller, s.File.Run, s.Model, belief) {
		warning := plaintext.Printable(fmt.Sprintf("warning: run.former_tasks: %v", err))
		fmt.Fprint(journal.For(os.Stderr, journal.Warning), plaintext.Wrap(warning))
	}
	return nil
}

// begins returns the task with which the run begins: that of earlier runs or, if it has no labels,
// that of run.start_task. nil: none.
func (s *Session) begins() *taskstore.Task {
	switch {
	case s.last != nil && !s.Fresh && !s.last.Unlabelled():
		return s.last
	case s.Start != nil:
		return &s.Start.Task
	}
	return nil
}

// loadLast reads the task last, nil if there is none. A fresh session sets it aside, even if it is
// damaged.
func (s *Session) loadLast() (*taskstore.Task, error) {
	if s.File.Run.StateDir == "" {
		return nil, nil
	}
	store, err := TaskStore(s.File.Run)
	if err != nil {
		return nil, err
	}
	task, err := store.Load(taskstore.Last)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case s.Fresh:
		return &task, nil
	case err == nil && task.Belief == nil:
		err = fmt.Errorf("%s has no belief", store.Path(task.Name))
	case err == nil:
		err = checkBelief(task, store.Path(task.Name), s.File.Controller, s.Model)
	}
	return &task, lastError(err)
}

// lastError adds the fix to the error of the task last.
func lastError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("run.state_dir: %w; or start without it: use --fresh once", err)
}

// RestoreBelief gives the learner the belief of earlier runs or, without one, that of StartBelief,
// after Recall. It returns a message about that belief, the former tasks and the task that the run
// follows first, empty if there is none.
func RestoreBelief(ctx context.Context, l *controller.Learner, s *Session) (message string, err error) {
	recalled, started, former, first := "", "", "", ""
	switch {
	case s.last == nil || s.Fresh && s.last.Unlabelled():
	case s.Fresh: // the host process does this
		recalled = "the belief of earlier runs is set aside as the task " + taskstore.Previous
	default:
		if err := restore(l, *s.last.Belief); err != nil {
			return "", lastError(err)
		}
		recalled = fmt.Sprintf("the run starts from the belief of %s; labels in it: %d",
			s.last.Belief.SavedAt.UTC().Format("2006-01-02 15:04:05 UTC"), s.last.Belief.Labels())
	}
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

// StartBelief gives the learner the belief of run.start_task or, without one, the labels of
// model.warm_start. It returns a message about the task, empty if there was none.
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
func restore(l *controller.Learner, b taskstore.SavedBelief) error {
	state := make([]float64, posterior.StateLen(b.Belief.Dim()))
	b.Belief.State(state)
	return l.Restore(state, b.Noise)
}

// MeanZ returns ẑ [d] of a belief of a configuration, nil if it is 0.
func MeanZ(k controller.Config, b taskstore.SavedBelief) []float64 {
	z := make([]float64, b.Belief.TaskDim())
	k.Estimate(z, b.Belief, b.Noise.Scale(k))
	if !slices.ContainsFunc(z, func(v float64) bool { return v != 0 }) {
		return nil
	}
	return z
}

// CheckModelHash refuses a file of another model.
func CheckModelHash(path, hash string, m Model) error {
	if found := m.Fingerprint(); hash != found {
		return fmt.Errorf("%s belongs to another model (%s, not %s); use that model",
			path, plaintext.ShortHash(hash), plaintext.ShortHash(found))
	}
	return nil
}

// checkBelief refuses a belief of another model or of other settings. where is the file of the
// task.
func checkBelief(t taskstore.Task, where string, k controller.Config, m Model) error {
	if err := CheckModelHash(where, t.ModelHash, m); err != nil {
		return err
	}
	saved, b := *t.Belief, t.Belief.Belief
	if d := m.Dims().Latent; b.TaskDim() != d {
		return fmt.Errorf("%s has another dimension (%d, not %d); use its model", where, b.TaskDim(), d)
	}
	if err := CheckBasis(where, saved, k); err != nil {
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
		{"offset", saved.Offset, k.Offset}, {"sigma", saved.Sigma, k.Sigma},
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

// otherScale reports whether a belief has labels on another scale.
func otherScale(b taskstore.SavedBelief, k controller.Config) bool {
	return b.Offset > 0 && b.LearntScale != k.LearntScale() && b.Belief.Weight() > 0
}

// CheckBasis refuses a belief with other coordinates, another scale of labels or another noise model.
func CheckBasis(where string, b taskstore.SavedBelief, k controller.Config) error {
	switch found := k.BasisHash(); {
	case b.Basis == found:
	case b.Basis == "":
		return fmt.Errorf("%s belongs to an isotropic prior; set controller.prior: isotropic", where)
	case found == "":
		return fmt.Errorf("%s belongs to a task prior (%s); set controller.prior: task", where, b.Basis)
	default:
		return fmt.Errorf("%s belongs to another task prior of the model (%s, not %s); use that bundle",
			where, b.Basis, found)
	}
	if otherScale(b, k) {
		return fmt.Errorf("%s has labels on another scale, of an earlier version or of other controller.labels; "+
			"teach the task again, or start a run from it with --strategy fixed", where)
	}
	if b.Estimate != k.Noise.Estimate {
		return fmt.Errorf("%s belongs to controller.noise.estimate %t; set that value", where, b.Estimate)
	}
	return nil
}
