package setup

import (
	"slices"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/taskstore"
)

// SetFormerTasks gives the controller the newest saved tasks of the model, without the one with
// which the run starts and those whose labels its belief start has, if any: they would count twice.
// It returns the errors of the tasks that it cannot read, and leaves them out.
func SetFormerTasks(k *controller.Config, r configs.Run, m Model, start *taskstore.SavedBelief) (unread []error) {
	k.FormerTasks = nil
	if !r.FormerTasks || !k.Hypotheses || k.BasisHash() == "" {
		return nil
	}
	store, err := TaskStore(r)
	if err != nil {
		return []error{err}
	}
	store.State = "" // only the tasks that a person saved
	entries, err := store.List()
	if err != nil {
		unread = append(unread, err)
	}
	slices.SortStableFunc(entries, func(a, b taskstore.Entry) int { return b.Task.Origin.At.Compare(a.Task.Origin.At) })
	for _, e := range entries {
		if e.Err != nil {
			unread = append(unread, e.Err)
			continue
		}
		fits := e.Task.ModelHash == m.Fingerprint() && len(e.Task.Z) == m.Dims().Latent
		if !fits || e.Name == r.StartTask || within(e.Task.Belief, start) || len(k.FormerTasks) == controller.MaxFormerTasks {
			continue
		}
		if u := formerTask(*k, e.Task); u != nil {
			k.FormerTasks = append(k.FormerTasks, u)
		}
	}
	return unread
}

// within reports whether a belief has labels, all of them also in another belief. Unknown labels
// are in none.
func within(b, of *taskstore.SavedBelief) bool {
	return b != nil && of != nil && len(b.Sessions) > 0 && b.LabelSet().Within(of.LabelSet())
}

// formerTask returns the coordinates of a task. A belief in other coordinates, or of another scale of
// labels, counts as a z without one.
func formerTask(k controller.Config, t taskstore.Task) []float64 {
	b := t.Belief
	if b == nil || b.Basis != k.BasisHash() || b.LearntScale != k.LearntScale() {
		return k.FormerTask(t.Z, nil, 0)
	}
	k.Offset, k.Sigma, k.Noise.Estimate = b.Offset, b.Sigma, b.Estimate
	return k.FormerTask(t.Z, b.Belief, b.Noise.Scale(k))
}
