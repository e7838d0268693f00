package host

import (
	"slices"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/rigtest"
	"optibfm/internal/taskstore"
	"optibfm/rtloop"
)

func TestTaskDesk_SavesTheNewestBelief(t *testing.T) {
	const d = 3
	file := configs.Default()
	file.Controller = controller.DefaultConfig()
	watch, err := newBeliefWatch(file.Controller, d)
	rigtest.Must(t, err)
	desk := &taskDesk{
		folder: taskstore.Folder(t.TempDir()), file: file, model: "abc", spec: hal.Spec{Name: "fake"}, belief: watch,
	}
	learner, err := controller.NewLearner(file.Controller, d, 20e6)
	rigtest.Must(t, err)
	show := func(at int64) {
		state := controller.NewState(controller.Shape{Obs: 1, Action: 1, Latent: d})
		state.At = at
		learner.WriteBelief(state)
		watch.take(state)
	}
	const later = 1 << 40 // so that a save need not wait
	show(rtloop.Now() + later)
	if err := desk.Save("turn", false); err == nil || !strings.Contains(err.Error(), "no label") {
		t.Errorf("without labels: %v", err)
	}
	rigtest.Must(t, learner.WarmStart([]float64{1, 0, 2}, []float64{0.5}))
	show(rtloop.Now() + 2*later)
	for _, c := range []struct {
		name    string
		replace bool
		err     string
	}{
		{"turn", false, ""}, {"turn", false, "exists"}, {"turn", true, ""},
		{"../turn", false, "not a name"}, {"-rf", true, "not a name"},
	} {
		err := desk.Save(c.name, c.replace)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s, replace %v: %v; want %q", c.name, c.replace, err, c.err)
		}
	}
	if names, err := desk.Names(); err != nil || !slices.Equal(names, []string{"turn"}) {
		t.Errorf("names %q, %v", names, err)
	}
	saved, err := desk.folder.Load("turn")
	rigtest.Must(t, err)
	if got, want := saved.Belief.Belief.Hash(), learner.Belief().Hash(); got != want || saved.ModelHash != "abc" {
		t.Errorf("saved the belief %x of the model %s, want %x", got, saved.ModelHash, want)
	}
	if err := desk.Load("walk"); err == nil || !strings.Contains(err.Error(), "no task walk") {
		t.Errorf("a task that is not saved: %v", err)
	}
}
