package taskstore

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/posterior"
)

// newTask returns a task of three dimensions, with the belief of one label if learnt is true.
func newTask(t testing.TB, name string, learnt bool) Task {
	t.Helper()
	task := Task{
		Name: name, Note: "slow, nach links →", ModelHash: "abc", Z: []float64{0.1, -1e-300, 1.0 / 3},
		Origin: Origin{
			At: time.Unix(1e9, 5).UTC(), Program: "test", Robot: "fake", Log: "run.mcap", FromS: 1.5, ToS: 2, States: 7,
		},
	}
	if !learnt {
		return task
	}
	b, err := posterior.New(3, 0.5, 0.999)
	if err == nil {
		err = b.Update([]float64{1, 2, 3}, 0.7, 4)
	}
	fatal.If(t, err)
	task.Belief = &SavedBelief{
		Belief: b, Sigma: 0.5, Noise: controller.NoiseState{Squares: 1.0 / 3, Count: 2, Labels: 1},
		SavedAt: time.Unix(2e9, 0).UTC(),
	}
	return task
}

func TestStore_LoadsWhatItSaved(t *testing.T) {
	store := Store{Dir: filepath.Join(t.TempDir(), "a", "b")}
	for _, learnt := range []bool{false, true} {
		want := newTask(t, fmt.Sprintf("learnt-%t", learnt), learnt)
		fatal.If(t, store.Save(want, false))
		got, err := store.Load(want.Name)
		fatal.If(t, err)
		if (got.Belief != nil) != learnt {
			t.Fatalf("belief %v", got.Belief)
		}
		if learnt {
			if got.Belief.Belief.Hash() != want.Belief.Belief.Hash() || got.Belief.Labels() != 1 {
				t.Errorf("a belief of %d labels, want 1", got.Belief.Labels())
			}
			got.Belief.Belief, want.Belief.Belief = nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestStore_SaveReplacesOnlyIfAsked(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	first, second := newTask(t, "turn", false), newTask(t, "turn", true)
	fatal.If(t, store.Save(first, false))
	errtest.Is(t, store.Save(second, false), ErrExists, "the second")
	if got, err := store.Load("turn"); err != nil || got.Belief != nil {
		t.Errorf("after a refused save: %+v, %v", got, err)
	}
	fatal.If(t, store.Save(second, true))
	if got, err := store.Load("turn"); err != nil || got.Belief == nil {
		t.Errorf("after a replacement: %+v, %v", got, err)
	}
}

func TestStore_RefusesFilesThatAreNotRegular(t *testing.T) {
	for name, create := range map[string]func(string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"too large": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxFile+1))
		},
	} {
		store := Store{State: t.TempDir()}
		fatal.If(t, create(store.Path(Last)))
		loaded := make(chan error, 1)
		go func() {
			_, err := store.Load(Last)
			loaded <- err
		}()
		select {
		case err := <-loaded:
			errtest.Is(t, err, ErrDamaged, name)
			errtest.Contains(t, err, store.State, name)
		case <-time.After(2 * time.Minute): // a guard against a hang
			t.Fatalf("%s: Load waits", name)
		}
	}
}

func TestStore_NeverAdvisesToRemoveAFileThatMayBeGood(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	path := store.Path("a")
	fatal.If(t, os.Symlink(path, path)) // opening it fails, also for root
	_, err := store.Load("a")
	if err == nil || errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "delete") ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

func TestStore_ListsTheTasksOfARunAndRefusesOthersOfTheirNames(t *testing.T) {
	saved := Store{Dir: t.TempDir()}
	task := newTask(t, "last", true)
	fatal.If(t, saved.Save(task, false)) // by a robot without run.state_dir
	fatal.If(t, saved.Save(newTask(t, "turn", false), false))
	names := func(store Store) (names []string) {
		entries, err := store.List()
		fatal.If(t, err)
		for _, e := range entries {
			if e.Err != nil {
				e.Name += ", " + strings.ReplaceAll(e.Err.Error(), saved.Dir, "DIR")
			}
			names = append(names, e.Name)
		}
		return names
	}
	store := newState(t)
	store.Dir = saved.Dir
	const shadow = `last, taskstore: "DIR/last.task": rename it: ` +
		"last is the name of a task that a run writes itself; choose another name"
	if got := names(store); !slices.Equal(got, []string{shadow, "last", "previous", "turn"}) {
		t.Errorf("%q", got)
	}
	if got := names(Store{Dir: saved.Dir, State: t.TempDir()}); !slices.Equal(got, []string{shadow, "turn"}) {
		t.Errorf("before the first run: %q", got)
	}
	if got := names(Store{Dir: store.State, State: store.State}); !slices.Equal(got, []string{"last", "previous"}) {
		t.Errorf("one folder for all: %q", got)
	}
	fatal.If(t, store.Delete(Previous))
	if got := names(store); !slices.Equal(got, []string{shadow, "last", "turn"}) {
		t.Errorf("after a removal: %q", got)
	}
}

func TestStore_ListsTheTasksOfARunWithoutTheFolderOfTheOthers(t *testing.T) {
	store := newState(t)
	store.Dir = filepath.Join(t.TempDir(), "file")
	fatal.If(t, os.WriteFile(store.Dir, nil, 0o600))
	entries, err := store.List()
	if len(entries) != 2 || err == nil || !strings.Contains(err.Error(), store.Dir) {
		t.Errorf("%v, %v", entries, err)
	}
	err = store.Save(newTask(t, "a", false), false)
	errtest.Contains(t, err, "; check the owner", "Save")
	if _, err := (Store{State: store.Dir}).Lock(); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("Lock: %v", err)
	}
}

func TestStore_TheNameIsThatOfTheFile(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	fatal.If(t, store.Save(newTask(t, "turn", false), false))
	fatal.If(t, os.Rename(store.Path("turn"), store.Path("spin")))
	if got, err := store.Load("spin"); err != nil || got.Name != "spin" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestStore_ListNamesDamagedFilesBesideTheOthers(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	if entries, err := (Store{Dir: store.Path("none")}).List(); err != nil || len(entries) != 0 {
		t.Errorf("a missing folder: %v, %v", entries, err)
	}
	for _, name := range []string{"b", "b-2", "d"} {
		fatal.If(t, store.Save(newTask(t, name, true), false))
	}
	fatal.If(t, os.WriteFile(store.Path("a"), []byte("cut"), 0o600))
	fatal.If(t, os.Mkdir(store.Path("c"), 0o700))
	fatal.If(t, os.Rename(store.Path("d"), store.Path("d e")))
	fatal.If(t, os.WriteFile(unfinished(store.Path("b")), nil, 0o600))
	entries, err := store.List()
	fatal.If(t, err)
	var names, failed []string
	for _, e := range entries {
		names = append(names, e.Name)
		if e.Err != nil {
			failed = append(failed, e.Name)
		}
	}
	if !slices.Equal(names, []string{"a", "b", "b-2", "c", "d e"}) || !slices.Equal(failed, []string{"a", "c", "d e"}) {
		t.Errorf("names %q, errors of %q", names, failed)
	}
}

func TestStore_HeadsByModel(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	for name, origin := range map[string]struct{ model, robot string }{
		"z": {"abc", "fake"}, "a": {"old", "walker"}, "c": {"abc", "fake"}, "d": {"old", "cheetah"}, "b": {"new", "walker"},
	} {
		task := newTask(t, name, true)
		task.ModelHash, task.Origin.Robot = origin.model, origin.robot
		fatal.If(t, store.Save(task, false))
	}
	fatal.If(t, os.WriteFile(store.Path("0"), []byte("cut"), 0o600))
	entries, err := store.Heads()
	fatal.If(t, err)
	ByModel(entries, "abc")
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
		if (e.Err != nil) != (e.Name == "0") || e.Task.Belief != nil || e.Err == nil && e.Task.Name != e.Name {
			t.Errorf("%s: %+v", e.Name, e)
		}
	}
	if want := []string{"c", "z", "d", "b", "a", "0"}; !slices.Equal(names, want) {
		t.Errorf("order %q, want %q", names, want)
	}
}

func TestStore_DeletesAlsoADamagedTask(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	fatal.If(t, store.Save(newTask(t, "turn", false), false))
	fatal.If(t, os.WriteFile(store.Path("cut"), []byte("cut"), 0o600))
	for _, name := range []string{"turn", "cut"} {
		fatal.If(t, store.Delete(name))
		if err := store.Delete(name); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is deleted twice: %v", name, err)
		}
	}
	if entries, err := store.List(); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestStore_RefusesUnsafeNames(t *testing.T) {
	parent := t.TempDir()
	store := Store{Dir: filepath.Join(parent, "tasks")}
	fatal.If(t, Store{Dir: parent}.Save(newTask(t, "outside", false), false))
	fatal.If(t, store.Save(newTask(t, "inside", false), false))
	for _, name := range []string{
		"", ".", "..", "../outside", "a/b", "-rf", ".hidden", "a b", "é", "a\x00", "$(id)", strings.Repeat("a", 101),
	} {
		errtest.NotNil(t, store.Save(newTask(t, name, false), false), "Save accepts ", name)
		errtest.NotNil(t, errtest.Of(store.Load(name)), "Load accepts ", name)
		errtest.NotNil(t, store.Delete(name), "Delete accepts ", name)
	}
	errtest.Nil(t, errtest.Of((Store{Dir: parent}).Load("outside")))
}

func TestStore_SaveRefusesTasksThatNoRunCanFollow(t *testing.T) {
	store := Store{Dir: t.TempDir(), State: t.TempDir()}
	for name, change := range map[string]func(*Task){
		"no z":           func(t *Task) { t.Z = nil },
		"zero":           func(t *Task) { t.Z = make([]float64, 3) },
		"nan":            func(t *Task) { t.Z[1] = math.NaN() },
		"infinite":       func(t *Task) { t.Z[2] = math.Inf(-1) },
		"too many":       func(t *Task) { t.Z = slices.Repeat([]float64{1}, posterior.MaxDim+1) },
		"note":           func(t *Task) { t.Note = strings.Repeat("a", maxNote+1) },
		"note, not text": func(t *Task) { t.Note = "\xff" },
		"name of a run":  func(t *Task) { t.Name = Last },
	} {
		task := newTask(t, "task", true)
		change(&task)
		errtest.NotNil(t, store.Save(task, false), name, ": accepted")
	}
	if entries, _ := store.List(); len(entries) != 0 {
		t.Errorf("files %v", entries)
	}
}
