package setup_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
	"optibfm/posterior"
)

// newTask returns a task with the belief of n labels for the model of a session.
func newTask(t *testing.T, s *setup.Session, name string, n int) taskstore.Task {
	t.Helper()
	b, err := posterior.New(s.Model.Dims().Latent, s.File.Controller.Lambda, s.File.Controller.Rho)
	fatal.If(t, err)
	phi := make([]float64, b.Dim())
	for i := range n {
		phi[i%len(phi)]++
		fatal.If(t, b.Update(phi, float64(i+1), 1))
	}
	saved := taskstore.SavedBelief{
		Belief: b, Sigma: 1, Noise: controller.NoiseState{Labels: uint64(n)}, SavedAt: time.Unix(1e9, 0),
	}
	return taskstore.Task{
		Name: name, ModelHash: s.Model.Fingerprint(), Z: setup.MeanZ(s.File.Controller, saved), Belief: &saved,
		Origin: taskstore.Origin{Robot: "rover"},
	}
}

// newStartable returns a session whose folder has the tasks learnt, of 5 labels, and goal, without
// a belief.
func newStartable(t *testing.T) *setup.Session {
	t.Helper()
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Run.StateDir = filepath.Join(t.TempDir(), "belief")
		f.Run.StartTask = "learnt"
	})
	store, err := setup.TaskStore(s.File.Run)
	fatal.If(t, err)
	task := newTask(t, s, "learnt", 5)
	fatal.If(t, store.Save(task, false))
	task.Name, task.Belief = "goal", nil
	fatal.If(t, store.Save(task, false))
	return s
}

func TestTaskStore_IsBesideTheStateOfTheRobot(t *testing.T) {
	t.Setenv("HOME", "/home/someone")
	t.Setenv("XDG_STATE_HOME", "relative")
	for _, c := range []struct{ task, state, want string }{
		{"/a/tasks", "/b/belief", "/a/tasks"},
		{"", "/b/belief", "/b/tasks"},
		{"", "/b/belief/", "/b/tasks"},
		{"", "belief", "tasks"},
		{"", "", "/home/someone/.local/state/optibfm/tasks"},
	} {
		got, err := setup.TaskStore(configs.Run{TaskDir: c.task, StateDir: c.state})
		if err != nil || got.Dir != c.want || got.State != c.state {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	t.Setenv("XDG_STATE_HOME", "/state")
	if got, err := setup.TaskStore(configs.Run{}); err != nil || got.Dir != "/state/optibfm/tasks" {
		t.Errorf("XDG_STATE_HOME: %v, %v", got, err)
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	if got, err := setup.TaskStore(configs.Run{}); err == nil || !strings.Contains(err.Error(), "run.task_dir") {
		t.Errorf("no home: %v, %v", got, err)
	}
}

func TestLoadStart_RefusesATaskThatDoesNotFit(t *testing.T) {
	s := newStartable(t)
	store, err := setup.TaskStore(s.File.Run)
	fatal.If(t, err)
	unscaled := newTask(t, s, "unscaled", 5)
	unscaled.Belief.Offset = 0.7
	fatal.If(t, store.Save(unscaled, false))
	for name, c := range map[string]struct {
		change func(*configs.File)
		want   string
	}{
		"unknown":       {func(f *configs.File) { f.Run.StartTask = "none" }, "optibfm task list"},
		"unsafe name":   {func(f *configs.File) { f.Run.StartTask = "../learnt" }, "not a name"},
		"another sigma": {func(f *configs.File) { f.Controller.Sigma = 0.5 }, "controller.sigma (1, not 0.5); set"},
		"another rho":   {func(f *configs.File) { f.Controller.Rho = 0.999 }, "another controller.rho"},
		"another scale": {func(f *configs.File) {
			f.Run.StartTask, f.Controller.Offset = "unscaled", 0.7
			f.Controller.LabelRange = f.Operator.LabelRange()
		}, "labels on another scale, of an earlier version or of other controller.labels"},
		"goal": {func(f *configs.File) { f.Run.StartTask = "goal" }, "use --strategy fixed"},
		"two z": {func(f *configs.File) {
			f.Controller.Strategy, f.Controller.FixedZ = controller.Fixed, []float64{1}
		}, "controller.fixed_z"},
	} {
		file := s.File
		c.change(&file)
		errtest.Contains(t, errtest.Of(setup.LoadStart(&file, s.Model)), c.want, name)
	}
	file := s.File
	file.Run.StartTask, file.Controller.Offset, file.Controller.Strategy = "unscaled", 0.7, controller.Fixed
	file.Controller.LabelRange = file.Operator.LabelRange()
	start, err := setup.LoadStart(&file, s.Model)
	fatal.If(t, err)
	if start.Belief != nil || !slices.Equal(file.Controller.FixedZ, unscaled.Z) {
		t.Errorf("another scale, strategy fixed: %v, z %v", start.Belief, file.Controller.FixedZ)
	}
	unlabelled := newTask(t, s, "unlabelled", 0)
	unlabelled.Belief.Offset = 0.7
	fatal.If(t, setup.CheckBasis("a belief without a label", *unlabelled.Belief, file.Controller))
	rigtest.SaveLast(t, s.File.Run.StateDir, newTask(t, s, taskstore.Last, 0))
	file = s.File
	file.Run.StartTask, file.Controller.Strategy = taskstore.Last, controller.Fixed
	errtest.Contains(t, errtest.Of(setup.LoadStart(&file, s.Model)), "has no z", "a belief without a label")
	other, err := setup.OpenModel("embedded:rover")
	fatal.If(t, err)
	if _, err := setup.LoadStart(&s.File, other); err == nil ||
		!strings.Contains(err.Error(), `of the robot "rover", belongs to another model`) {
		t.Errorf("another model: %v", err)
	}
}

func TestLoadStart_GivesItsZToTheFixedStrategy(t *testing.T) {
	s := newStartable(t)
	for _, name := range []string{"learnt", "goal"} {
		file := s.File
		file.Run.StartTask, file.Controller.Strategy = name, controller.Fixed
		for range 2 { // the second time as a copy of the first run's configuration
			start, err := setup.LoadStart(&file, s.Model)
			fatal.If(t, err)
			if !slices.Equal(file.Controller.FixedZ, start.Z) || len(start.Z) != s.Model.Dims().Latent {
				t.Errorf("%s: fixed_z is %v", name, file.Controller.FixedZ)
			}
		}
	}
	file := s.File
	fatal.If(t, errtest.Of(setup.LoadStart(&file, s.Model)))
	if file.Controller.FixedZ != nil {
		t.Errorf("strategy %s: fixed_z is %v", file.Controller.Strategy, file.Controller.FixedZ)
	}
}

// restored returns the belief with which a session starts, and the message about it.
func restored(t *testing.T, s *setup.Session) (*posterior.Belief, string) {
	t.Helper()
	fatal.If(t, s.Recall())
	return restoredAfterRecall(t, s)
}

func restoredAfterRecall(t *testing.T, s *setup.Session) (*posterior.Belief, string) {
	t.Helper()
	l, err := controller.NewLearner(s.File.Controller, s.Model.Dims().Latent, 50*time.Millisecond)
	fatal.If(t, err)
	message, err := setup.RestoreBelief(t.Context(), l, s)
	fatal.If(t, err)
	return l.Belief(), message
}

func TestRestoreBelief_PrefersTheBeliefOfEarlierRunsToTheStartTask(t *testing.T) {
	s := newStartable(t)
	var err error
	s.Start, err = setup.LoadStart(&s.File, s.Model)
	fatal.If(t, err)
	saved := newTask(t, s, taskstore.Last, 2)
	b, message := restored(t, s)
	if b.Hash() != s.Start.Belief.Belief.Hash() || s.Began != "learnt" || !strings.Contains(message, "task learnt") {
		t.Errorf("without a saved belief: %q, %q", s.Began, message)
	}
	rigtest.SaveLast(t, s.File.Run.StateDir, saved)
	b, message = restored(t, s)
	if b.Hash() != saved.Belief.Belief.Hash() || s.Began != taskstore.Last || strings.Contains(message, "task") {
		t.Errorf("with a saved belief: %q, %q", s.Began, message)
	}
	rigtest.SaveLast(t, s.File.Run.StateDir, newTask(t, s, taskstore.Last, 3)) // Recall has read the other one
	if b, _ := restoredAfterRecall(t, s); b.Hash() != saved.Belief.Belief.Hash() {
		t.Error("the belief was read twice")
	}
	s.File.Controller.Explore = controller.ExploreConfig{Tasks: []string{"goal"}, UntilLabel: true}
	const first = "; the robot follows the task goal until your first label"
	if _, message := restored(t, s); !strings.HasSuffix(message, first) {
		t.Errorf("with a vetted task: %q", message)
	}
}

func TestOpenSession_StartsATaskAfresh(t *testing.T) {
	bundle := rigtest.RoverBundle(t, rigtest.RemoveChannelNames)
	dir := t.TempDir()
	file, err := configs.Load("rover", "controller.preset=paper", "model.bundle="+bundle,
		"run.task_dir="+dir, "run.state_dir="+t.TempDir())
	fatal.If(t, err)
	s, err := setup.OpenSession(file, false)
	fatal.If(t, err)
	task := newTask(t, s, "learnt", 4)
	fatal.If(t, taskstore.Store{Dir: dir}.Save(task, false))
	rigtest.SaveLast(t, file.Run.StateDir, newTask(t, s, taskstore.Last, 9))

	file.Run.StartTask = "learnt"
	s, err = setup.OpenSession(file, true)
	fatal.If(t, err)
	b, message := restored(t, s)
	if b.Hash() != task.Belief.Belief.Hash() || !strings.Contains(message, "task previous; the run starts from the task") {
		t.Errorf("a belief of weight %g, %q", b.Weight(), message)
	}
	if !strings.Contains(string(s.YAML), "start_task: learnt") {
		t.Errorf("the recorded configuration has no start_task:\n%s", s.YAML)
	}
}

func TestLoadVetted_GivesTheControllerTheZOfTasksOfItsModel(t *testing.T) {
	s := newStartable(t)
	s.File.Run.StartTask = ""
	explore := &s.File.Controller.Explore
	explore.Tasks, explore.WithinDeg = []string{"goal", "learnt"}, 30
	fatal.If(t, setup.LoadVetted(&s.File, s.Model))
	store, err := setup.TaskStore(s.File.Run)
	fatal.If(t, err)
	for i, name := range explore.Tasks {
		task, err := store.Load(name)
		fatal.If(t, err)
		if !slices.Equal(explore.Vetted[i], task.Z) {
			t.Errorf("%s: %v, want %v", name, explore.Vetted[i], task.Z)
		}
	}
	fatal.If(t, s.UpdateYAML())
	if strings.Contains(string(s.YAML), "vetted") {
		t.Errorf("the configuration has the numbers:\n%s", s.YAML)
	}
	other, err := setup.OpenModel("embedded:rover")
	fatal.If(t, err)
	errtest.Contains(t, setup.LoadVetted(&s.File, other), "another model", "another model")
	rigtest.SaveLast(t, s.File.Run.StateDir, newTask(t, s, taskstore.Last, 1)) // which no person chose
	for name, want := range map[string]string{
		"none": "optibfm task list", "../goal": "not a name", taskstore.Last: "no task last",
	} {
		explore.Tasks = []string{"goal", name}
		err := setup.LoadVetted(&s.File, s.Model)
		if err == nil || !strings.Contains(err.Error(), "controller.explore.tasks: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}
