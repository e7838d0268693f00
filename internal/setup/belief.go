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

// RestoreBelief gives the learner the belief of earlier runs or, without one, the labels of
// model.warm_start. It returns a message about that belief, empty if there was none.
func RestoreBelief(ctx context.Context, l *controller.Learner, s *Session) (recalled string, err error) {
	if recalled, err = loadBelief(l, s); err != nil || l.Belief().Weight() > 0 {
		return recalled, err
	}
	return recalled, s.Warm.Apply(ctx, l)
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
		err = checkBelief(record, s)
	}
	if err == nil {
		err = restoreBelief(l, record)
	}
	if err != nil {
		return "", fmt.Errorf("run.state_dir: %w; or start without it: use --fresh once, or rename %s",
			err, beliefstore.Path(dir))
	}
	return fmt.Sprintf("the run starts from the belief of %s; its labels weigh %.4g",
		record.SavedAt.UTC().Format("2006-01-02 15:04:05 UTC"), record.Belief.Weight()), nil
}

// checkBelief refuses a belief of another model or of other settings.
func checkBelief(r beliefstore.Record, s *Session) error {
	k, b := s.File.Controller, r.Belief
	where := beliefstore.Path(s.File.Run.StateDir)
	if is := s.Model.Fingerprint(); r.ModelHash != is {
		return fmt.Errorf("%s belongs to another model (%s, not %s); use that model",
			where, plaintext.ShortHash(r.ModelHash), plaintext.ShortHash(is))
	}
	if d := s.Model.Dims().Latent; b.TaskDim() != d {
		return fmt.Errorf("%s has another dimension (%d, not %d); use its model", where, b.TaskDim(), d)
	}
	if err := checkBasis(where, r, k); err != nil {
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

// checkBasis refuses a belief in other coordinates or of another noise model.
func checkBasis(where string, r beliefstore.Record, k controller.Config) error {
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

func restoreBelief(l *controller.Learner, r beliefstore.Record) error {
	state := make([]float64, posterior.StateLen(r.Belief.Dim()))
	r.Belief.State(state)
	if err := l.Belief().Restore(state); err != nil {
		return err
	}
	if !l.SetNoise(r.Noise) {
		return fmt.Errorf("impossible noise (%+v)", r.Noise)
	}
	return nil
}
