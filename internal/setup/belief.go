package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"optibfm/controller"
	"optibfm/internal/beliefstore"
	"optibfm/internal/plaintext"
	"optibfm/posterior"
)

// RestoreBelief gives the learner what is known before the first tick: the belief of
// earlier runs, or else the labels of model.warm_start, which that one has had.
func RestoreBelief(ctx context.Context, l *controller.Learner, s *Session) (recalled string, err error) {
	if recalled, err = loadBelief(l, s); err != nil || l.Belief().Weight() > 0 {
		return recalled, err
	}
	return recalled, s.Warm.Apply(ctx, l)
}

// loadBelief gives the learner what earlier runs have learnt (run.state_dir), or
// sets that aside where fresh. What it did it says in words, "" where there was
// nothing to do. The control process calls it before the first tick.
func loadBelief(l *controller.Learner, s *Session) (said string, err error) {
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
			said = "what earlier runs have learnt is set aside in " + old
		}
		return said, nil
	}
	record, err := beliefstore.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil {
		err = checkBelief(record, s)
	}
	if err == nil {
		state := make([]float64, posterior.StateLen(record.Belief.Dim()))
		record.Belief.State(state)
		err = l.Belief().Restore(state)
	}
	if err != nil {
		return "", fmt.Errorf("run.state_dir: %w: or start from nothing, once, with --fresh, or by renaming %s", err, beliefstore.Path(dir))
	}
	return fmt.Sprintf("the run goes on from what was learnt until %s: its labels weigh %.4g",
		record.SavedAt.UTC().Format("2006-01-02 15:04:05 UTC"), record.Belief.Weight()), nil
}

// checkBelief refuses a belief whose numbers would mean something else here.
func checkBelief(r beliefstore.Record, s *Session) error {
	k, b := s.File.Controller, r.Belief
	where := beliefstore.Path(s.File.Run.StateDir)
	if is := s.Model.Fingerprint(); r.ModelHash != is {
		return fmt.Errorf("%s was learnt with another model (%s, not %s): use that model", where, plaintext.ShortHash(r.ModelHash), plaintext.ShortHash(is))
	}
	if d := s.Model.Dims().Latent; b.Dim() != d {
		return fmt.Errorf("%s has another dimension (%d, not %d): use the model that it was learnt with", where, b.Dim(), d)
	}
	for _, key := range []struct {
		name    string
		was, is float64
	}{{"lambda", b.Lambda(), k.Lambda}, {"rho", b.Rho(), k.Rho}, {"sigma", r.Sigma, k.Sigma}} {
		if key.was != key.is {
			return fmt.Errorf("%s was learnt with another controller.%s (%g, not %g): give it that value", where, key.name, key.was, key.is)
		}
	}
	if b.ExactRestore() != k.ExactRestore {
		return fmt.Errorf("%s was learnt with controller.exact_restore %t: give it that value", where, b.ExactRestore())
	}
	return nil
}
