package setup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
)

// recalled returns a session with its former tasks.
func recalled(t *testing.T, file configs.File, fresh bool) *setup.Session {
	t.Helper()
	s, err := setup.OpenSession(file, fresh)
	fatal.If(t, err)
	fatal.If(t, s.Recall())
	return s
}

func TestSetFormerTasks_TakesTheNewestOfTheModel(t *testing.T) {
	file, err := configs.Load("rover", "run.task_dir="+filepath.Join(t.TempDir(), "tasks"))
	fatal.If(t, err)
	open := func() *setup.Session {
		t.Helper()
		return recalled(t, file, false)
	}
	s := open()
	if s.File.Controller.FormerTasks != nil {
		t.Error("former tasks without a folder")
	}
	store := taskstore.Store{Dir: file.Run.TaskDir}
	task := rigtest.NewTask(t, s, "newest")
	want := s.File.Controller.FormerTask(task.Z, task.Belief.Belief, task.Belief.Noise.Scale(s.File.Controller))
	goal := task
	goal.Belief = nil
	for i := range controller.MaxFormerTasks + 3 {
		goal.Name, goal.Origin.At = fmt.Sprintf("old%02d", i), time.Unix(int64(i), 0)
		fatal.If(t, store.Save(goal, false))
	}
	task.Origin.At = time.Unix(1e9, 0)
	fatal.If(t, store.Save(task, false))
	goal.Name, goal.ModelHash, goal.Origin.At = "other", "another model", time.Unix(2e9, 0)
	fatal.If(t, store.Save(goal, false))
	fatal.If(t, os.WriteFile(store.Path("damaged"), []byte("x"), 0o600))

	got := open().File.Controller
	if n := len(got.FormerTasks); n != controller.MaxFormerTasks || !slices.Equal(got.FormerTasks[0], want) {
		t.Errorf("%d former tasks, or the first is not the newest", n)
	}
	k := got
	if unread := setup.SetFormerTasks(&k, file.Run, s.Model, nil); len(unread) != 1 {
		t.Errorf("unread: %v", unread)
	}
	file.Run.StartTask = "newest"
	if got := open().File.Controller.FormerTasks; slices.Equal(got[0], want) {
		t.Error("the task of the start is a former task too")
	}
	file.Run.StartTask, file.Run.FormerTasks = "", false
	if open().File.Controller.FormerTasks != nil {
		t.Error("run.former_tasks: false has no effect")
	}
}

func TestSetFormerTasks_TakesTheDirectionOfATaskOfAnotherScale(t *testing.T) {
	file, err := configs.Load("rover", "run.task_dir="+filepath.Join(t.TempDir(), "tasks"))
	fatal.If(t, err)
	s := recalled(t, file, false)
	task := rigtest.NewTask(t, s, "old")
	task.Belief.LearntScale = controller.LabelRange{}
	fatal.If(t, taskstore.Store{Dir: file.Run.TaskDir}.Save(task, false))
	want := s.File.Controller.FormerTask(task.Z, nil, 0)
	if got := recalled(t, file, false).File.Controller.FormerTasks; len(got) != 1 || !slices.Equal(got[0], want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestSetFormerTasks_LeavesOutTasksWhoseLabelsTheStartHas(t *testing.T) {
	file, err := configs.Load("rover", "run.task_dir="+filepath.Join(t.TempDir(), "tasks"))
	fatal.If(t, err)
	s, err := setup.OpenSession(file, false)
	fatal.If(t, err)
	save := func(name string, sessions ...taskstore.Session) {
		t.Helper()
		task := rigtest.NewTask(t, s, name)
		task.Belief.Sessions = sessions
		fatal.If(t, taskstore.Store{Dir: file.Run.TaskDir}.Save(task, false))
	}
	one, other := taskstore.Session{ID: "a-0", Until: 9}, taskstore.Session{ID: "b-0", Until: 5}
	save("merged", one, other)
	save("parent", one)
	save("another-parent", taskstore.Session{ID: other.ID, Until: 3})
	save("same", other, one)
	for start, want := range map[string]int{"merged": 0, "parent": 3, "": 4} {
		file.Run.StartTask = start
		s := recalled(t, file, false)
		if got := len(s.File.Controller.FormerTasks); got != want {
			t.Errorf("start %q: %d former tasks, want %d", start, got, want)
		}
	}
	save("later", taskstore.Session{ID: one.ID, Until: one.Until + 1})
	save("partly", one, taskstore.Session{ID: "c-0", Until: 1})
	save("unknown")
	file.Run.StartTask = "merged"
	s = recalled(t, file, false)
	if got := len(s.File.Controller.FormerTasks); got != 3 {
		t.Errorf("%d former tasks with other labels, want 3", got)
	}
	file.Run.StartTask, file.Run.StateDir, file.Run.Lockstep = "", t.TempDir(), false
	last := rigtest.NewTask(t, s, taskstore.Last)
	last.Belief.Sessions = []taskstore.Session{one, other}
	rigtest.SaveLast(t, file.Run.StateDir, last)
	for fresh, want := range map[bool]int{false: 3, true: 7} {
		s := recalled(t, file, fresh)
		if got := len(s.File.Controller.FormerTasks); got != want {
			t.Errorf("continued, fresh %v: %d former tasks, want %d", fresh, got, want)
		}
	}
}
