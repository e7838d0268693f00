package host

import (
	"os"
	"slices"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/rigtest"
	"optibfm/internal/taskstore"
	"optibfm/rewardsrc/web"
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
	rigtest.Must(t, desk.folder.Save(taskstore.Task{
		Name: "a", ModelHash: "another", Z: []float64{1}, Origin: taskstore.Origin{Robot: "walker"},
	}, false))
	rigtest.Must(t, os.WriteFile(desk.folder.Path("b"), []byte("damaged"), 0o600))
	want := []web.SavedTask{{Name: "turn", Robot: "fake"}, {Name: "a", Robot: "walker", Other: true}, {Name: "b", Other: true}}
	if list, err := desk.List(); err != nil || !slices.Equal(list, want) {
		t.Errorf("tasks %+v, %v; want %+v", list, err, want)
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
