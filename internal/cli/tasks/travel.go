package tasks

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"optibfm/controller"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/internal/taskstore"
	"optibfm/internal/version"
	"optibfm/tflite"
)

// Export writes a saved task to a new file for another robot, with the channels of its model.
func Export(out io.Writer, o Options, name, path string) error {
	w, err := o.open()
	if err != nil {
		return err
	}
	t, m, _, err := w.loadFitting(name)
	if err != nil {
		return fmt.Errorf("task export: %w", err)
	}
	t.Exported = exported(t.Name, m)
	if err := taskstore.Export(path, t); err != nil {
		return fmt.Errorf("task export: %w; give another file", err)
	}
	fmt.Fprintf(out, "%s: the task %s. On the other robot:\n    %s\n", path, name,
		shell.ThisProgram().Command("task", "import", shell.Operand(path)))
	return nil
}

// Import saves the task of a file of Export under its name, or under that of n, if it fits the
// configuration.
func Import(out io.Writer, o Options, n New, path string) error {
	w, err := o.open()
	if err != nil {
		return err
	}
	t, err := taskstore.ReadExported(path)
	if errors.Is(err, taskstore.ErrDamaged) {
		return fmt.Errorf("task import: %w; export and copy it again", err)
	}
	if err != nil {
		return fmt.Errorf("task import: %w", err)
	}
	m, k, err := w.modelAndConfig()
	if err == nil {
		err = fits(path, t, m, k)
	}
	if err != nil {
		return fmt.Errorf("task import: %w", err)
	}
	if n.Name != "" {
		t.Name = n.Name
	}
	if n.Note != "" {
		t.Note = n.Note
	}
	t.Exported = nil
	what := "a z without labels"
	if t.Belief != nil {
		what = labelsText(t)
	}
	return w.keep(out, "task import", t, n.Replace, what)
}

// modelAndConfig returns the model of the configuration, and its controller in the coordinates of
// that model.
func (w workplace) modelAndConfig() (m setup.Model, k controller.Config, err error) {
	k = w.file.Controller
	if m, err = setup.ConfiguredModel(w.file); err != nil {
		return nil, k, err
	}
	if err := setup.SetBasis(&k, m); err != nil {
		return nil, k, err
	}
	return m, k, nil
}

// loadFitting loads a task from which the robot of the configuration can start.
func (w workplace) loadFitting(name string) (t taskstore.Task, m setup.Model, k controller.Config, err error) {
	if t, err = w.store.Load(name); err != nil {
		return t, nil, k, err
	}
	if m, k, err = w.modelAndConfig(); err != nil {
		return t, nil, k, err
	}
	return t, m, k, fits(w.store.Path(name), t, m, k)
}

func exported(name string, m setup.Model) *taskstore.Exported {
	observation, action := m.Channels()
	return &taskstore.Exported{Name: name, Observation: channels(observation), Action: channels(action)}
}

func channels(of []tflite.Channel) (list []taskstore.Channel) {
	for _, c := range of {
		list = append(list, taskstore.Channel{Name: c.Name, Unit: c.Unit})
	}
	return list
}

// fits refuses a task that the robot of a configuration cannot use. where is its file.
func fits(where string, t taskstore.Task, m setup.Model, k controller.Config) error {
	if e := t.Exported; e != nil {
		local := exported(t.Name, m)
		if err := sameChannels("observation", e.Observation, local.Observation); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if err := sameChannels("action", e.Action, local.Action); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	return setup.CheckTask(where, t, k, m)
}

// sameChannels reports the first channel in which two models differ.
func sameChannels(kind string, was, is []taskstore.Channel) error {
	if len(was) != len(is) {
		return fmt.Errorf("its model has %d %s channels, model.bundle has %d; use its model", len(was), kind, len(is))
	}
	for i := range was {
		if was[i] != is[i] {
			return fmt.Errorf("%s channel %d of its model is %q in %q, that of model.bundle %q in %q; use its model",
				kind, i, was[i].Name, was[i].Unit, is[i].Name, is[i].Unit)
		}
	}
	return nil
}

// Merge saves a task with the labels of two tasks. It counts a label of both once.
func Merge(out io.Writer, o Options, n New, first, second string) error {
	if err := taskstore.CheckName(n.Name); err != nil {
		return fmt.Errorf("task merge: --save: %w", err)
	}
	w, err := o.open()
	if err != nil {
		return err
	}
	t, m, k, err := w.merge(first, second)
	if err != nil {
		return fmt.Errorf("task merge: %w", err)
	}
	w.file.Run.StartTask = n.Name
	setup.SetFormerTasks(&k, w.file.Run, m, t.Belief) // as a run from it does, which reports unreadable tasks
	t.Name, t.Note, t.Z = n.Name, n.Note, setup.MeanZ(k, *t.Belief)
	t.Origin = taskstore.Origin{At: time.Now().UTC(), Program: version.String(), Robot: t.Origin.Robot}
	return w.keep(out, "task merge", t, n.Replace, labelsText(t))
}

func (w workplace) merge(first, second string) (t taskstore.Task, m setup.Model, k controller.Config, err error) {
	var of [2]taskstore.Task
	for i, name := range []string{first, second} {
		if of[i], m, k, err = w.loadFitting(name); err != nil {
			return t, m, k, err
		}
		if of[i].Belief == nil {
			return t, m, k, fmt.Errorf("%s has no labels: it was made from a log; merge tasks that were taught", name)
		}
		if of[i].Belief.Sessions == nil {
			return t, m, k, fmt.Errorf("unknown which labels %s has (an earlier version saved it, it began with "+
				"model.warm_start, its run began the task again, or its log has a switch of the task); teach it again", name)
		}
	}
	entries, err := w.store.List() // find skips damaged files
	if err != nil {
		return t, m, k, err
	}
	t = of[0]
	t.Belief, err = join(of[0].Belief, of[1].Belief, entries)
	if err != nil {
		err = fmt.Errorf("%s and %s: %w", first, second, err)
	}
	return t, m, k, err
}

// shared returns the sessions of both, with the labels of l.
func shared(l, with taskstore.LabelSet) taskstore.LabelSet {
	both := maps.Clone(l)
	maps.DeleteFunc(both, func(id string, _ uint64) bool { _, ok := with[id]; return !ok })
	return both
}

// join returns a belief with the labels of a and b. Of a session of both it has the newest state.
// If each has labels that the other lacks, it needs the belief from which both began, among the
// saved tasks, to count theirs once.
func join(a, b *taskstore.SavedBelief, saved []taskstore.Entry) (*taskstore.SavedBelief, error) {
	ofA, ofB := a.LabelSet(), b.LabelSet()
	inA, inB := shared(ofA, ofB), shared(ofB, ofA)
	switch {
	case len(inA) == 0:
		return add(a, b, nil)
	case ofA.Within(ofB):
		return b, nil
	case ofB.Within(ofA):
		return a, nil
	case a.Belief.Rho() < 1:
		return nil, fmt.Errorf("they have labels in common, and with controller.rho %g these aged differently; "+
			"merge tasks without common labels", a.Belief.Rho())
	}
	if base := find(inB, saved); base != nil && inB.Within(ofA) {
		return add(a, b, base)
	}
	if base := find(inA, saved); base != nil && inA.Within(ofB) {
		return add(b, a, base)
	}
	return nil, errors.New("they have labels in common, and no saved task has just these; import the task from which " +
		"both began")
}

// find returns a saved belief with just these labels, nil if there is none.
func find(labels taskstore.LabelSet, saved []taskstore.Entry) *taskstore.SavedBelief {
	for _, e := range saved {
		if e.Err == nil && e.Task.Belief != nil && maps.Equal(e.Task.Belief.LabelSet(), labels) {
			return e.Task.Belief
		}
	}
	return nil
}

// add returns a with the labels of b that base lacks. A nil base has no label.
func add(a, b, base *taskstore.SavedBelief) (*taskstore.SavedBelief, error) {
	sum := *a
	sum.Belief = a.Belief.Clone()
	own, noise := b.Belief.Clone(), controller.NoiseState{}
	if base != nil {
		if base.Belief.Dim() != b.Belief.Dim() || base.Basis != b.Basis {
			return nil, errors.New("the task from which both began is of another prior; import it again")
		}
		if err := own.Unmerge(base.Belief); err != nil {
			return nil, fmt.Errorf("the labels in common changed after the task from which both began: %w", err)
		}
		noise = base.Noise
	}
	if err := sum.Belief.Merge(own); err != nil {
		return nil, err
	}
	sum.Noise, sum.SavedAt = a.Noise.Pool(b.Noise, noise), time.Now().UTC()
	sum.Sessions = slices.Clone(a.Sessions)
	have := a.LabelSet()
	for _, s := range b.Sessions {
		if _, ok := have[s.ID]; !ok {
			sum.Sessions = append(sum.Sessions, s)
		}
	}
	return &sum, nil
}
