package host

import (
	"os"
	"slices"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
	"optibfm/internal/taskstore"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
)

func TestTaskDesk_SavesTheNewestBelief(t *testing.T) {
	const d = 3
	file := configs.Default()
	file.Controller = controller.DefaultConfig()
	watch, err := newBeliefWatch(file.Controller, d)
	fatal.If(t, err)
	desk := &taskDesk{
		store:    taskstore.Store{Dir: t.TempDir()},
		template: taskTemplate{file: file, model: "abc", robot: "fake"}, belief: watch,
	}
	learner, err := controller.NewLearner(file.Controller, d, 20e6)
	fatal.If(t, err)
	show := func(at int64) {
		state := controller.NewState(controller.Shape{Obs: 1, Action: 1, Latent: d})
		state.At = at
		learner.WriteBelief(state)
		watch.take(state)
	}
	const later = 1 << 40 // so that a save need not wait
	show(rtloop.Now() + later)
	errtest.Contains(t, desk.Save("turn", false), "no label", "without labels")
	fatal.If(t, learner.WarmStart([]float64{1, 0, 2}, []float64{0.5}))
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
	fatal.If(t, desk.store.Save(taskstore.Task{
		Name: "a", ModelHash: "another", Z: []float64{1}, Origin: taskstore.Origin{Robot: "walker"},
	}, false))
	fatal.If(t, os.WriteFile(desk.store.Path("b"), []byte("damaged"), 0o600))
	want := []web.SavedTask{
		{Name: "turn", Robot: "fake"},
		{Name: "a", Robot: "walker", Other: true},
		{Name: "b", Other: true},
	}
	if list, err := desk.List(); err != nil || !slices.Equal(list, want) {
		t.Errorf("tasks %+v, %v; want %+v", list, err, want)
	}
	saved, err := desk.store.Load("turn")
	fatal.If(t, err)
	if got, want := saved.Belief.Belief.Hash(), learner.Belief().Hash(); got != want || saved.ModelHash != "abc" {
		t.Errorf("saved the belief %x of the model %s, want %x", got, saved.ModelHash, want)
	}
	errtest.Contains(t, desk.Load("walk"), "no task walk", "a task that is not saved")
}

func TestProcess_SavesAFormerTaskThatWasNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(h *Process, tick *controller.Tick)
		want int
	}{
		"kept": {func(h *Process, tick *controller.Tick) {
			tick.NumLabels, tick.Labels[0] = 1, controller.AppliedLabel{Kind: rewardsrc.Keep, Outcome: controller.Applied}
			h.noteFormer(tick)
		}, 0},
		"unanswered": {func(h *Process, tick *controller.Tick) {
			tick.Flags = 0
			h.noteFormer(tick)
		}, 1},
		"at the end of the run": {func(h *Process, _ *controller.Tick) { h.saveFormer() }, 1},
	} {
		session := rigtest.NewSession(t, func(f *configs.File) { f.Run.TaskDir = t.TempDir() })
		learner, err := controller.NewLearner(session.File.Controller, session.Shape().Latent, 20e6)
		fatal.If(t, err)
		phi := make([]float64, session.Shape().Latent)
		phi[0] = 1
		fatal.If(t, learner.WarmStart(phi, []float64{1}))
		state := make([]float64, session.Shape().StateLen())
		learner.Belief().State(state)
		h := &Process{Session: session, Planner: &Planner{Events: make(chan flightlog.Event, 2)}}
		h.former = &formerTask{ipc.TaskBelief{Name: ipc.FormerTask, State: state}, 5}
		tick := controller.NewTick(session.Shape())
		tick.Index, tick.Flags = 6, controller.FlagKeepable
		if h.noteFormer(tick); h.former == nil {
			t.Fatalf("%s: the minute ended early", name)
		}
		c.end(h, tick)
		h.saving.Wait()
		saved, err := taskstore.Store{Dir: session.File.Run.TaskDir}.List()
		fatal.If(t, err)
		if len(saved) != c.want || h.former != nil || len(h.Planner.Events) != c.want {
			t.Errorf("%s: tasks %v, %d events", name, saved, len(h.Planner.Events))
		}
		for _, e := range saved {
			fatal.If(t, e.Err)
			if !strings.HasPrefix(e.Name, "before-change-") || e.Task.Belief.Belief.Hash() != learner.Belief().Hash() {
				t.Errorf("%s: the task %s has another belief", name, e.Name)
			}
		}
	}
}
