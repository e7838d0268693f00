package taskstore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// actAsWriter is the folder to which the test binary saves until it is killed.
const actAsWriter = "TASKSTORE_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(actAsWriter); dir != "" {
		panic(writeUntilKilled(Store{State: dir}))
	}
	os.Exit(m.Run())
}

// writeUntilKilled adds labels to the last task, and at every third save switches to the previous
// one. It prints the notes of both tasks with their number of labels after each save.
func writeUntilKilled(store Store) error {
	fmt.Println("begun")
	keeper, err := store.Lock()
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		last, err := store.Load(Last)
		if err != nil {
			return err
		}
		previous, err := store.Load(Previous)
		if err != nil {
			return err
		}
		if n%3 == 2 {
			last, previous = previous, last
			keeper.Switch()
		}
		last.Belief.Noise.Labels++
		if err := keeper.Save(last); err != nil {
			return err
		}
		fmt.Printf("%s %d %s %d\n", last.Note, last.Belief.Labels(), previous.Note, previous.Belief.Labels())
	}
}

// newState returns a folder with the tasks one, the last, and two, the previous.
func newState(t *testing.T) Store {
	t.Helper()
	store := Store{State: t.TempDir()}
	save(t, store, "two", 1, false)
	save(t, store, "one", 1, true)
	return store
}

// save saves a task with a number of labels as the last one.
func save(t *testing.T, store Store, note string, labels uint64, switched bool) {
	t.Helper()
	keeper, err := store.Lock()
	fatal.If(t, err)
	defer keeper.Close()
	task := newTask(t, "", true)
	task.Note, task.Belief.Noise.Labels = note, labels
	if switched {
		keeper.Switch()
	}
	fatal.If(t, keeper.Save(task))
}

// labels returns the number of labels in the last and in the previous task, by their notes.
func labels(t *testing.T, store Store) map[string]uint64 {
	t.Helper()
	found := map[string]uint64{}
	for _, name := range []string{Last, Previous} {
		task, err := store.Load(name)
		fatal.If(t, err)
		found[task.Note] = task.Belief.Labels()
	}
	return found
}

// killAfter starts a writer, kills it a while after its first output, and returns its last whole
// line.
func killAfter(t *testing.T, store Store, wait time.Duration) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), actAsWriter+"="+store.State)
	out := &output{first: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	fatal.If(t, cmd.Start())
	select {
	case <-out.first:
	case <-time.After(2 * time.Minute): // a guard against a hang
		t.Error("no output from the writer")
	}
	time.Sleep(wait)
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the writer was not killed: %v", err)
	}
	lines := strings.Split(out.text.String(), "\n")
	return lines[max(0, len(lines)-2)]
}

// output keeps the output of a process and closes first at its start.
type output struct {
	text  bytes.Buffer
	first chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	if o.text.Len() == 0 {
		close(o.first)
	}
	return o.text.Write(p)
}

// kills kills writers of a folder and checks that no label of the two tasks is lost.
func kills(t *testing.T, store Store) {
	n := 100
	if testing.Short() {
		n = 20
	}
	written, inSwitch := 0, 0
	for kill := range n {
		line := killAfter(t, store, time.Duration(rand.IntN(10_000))*time.Microsecond)
		if _, err := store.Load(Last); err != nil {
			t.Fatalf("after kill %d: %v", kill, err)
		}
		if exists(store.switching()) {
			inSwitch++
		}
		keeper, err := store.Lock()
		fatal.If(t, err)
		fatal.If(t, keeper.Close())
		saved := map[string]uint64{"one": 1, "two": 1}
		if line != "begun" {
			var a, b string
			var na, nb uint64
			fatal.If(t, errtest.Of(fmt.Sscan(line, &a, &na, &b, &nb)))
			saved[a], saved[b] = na, nb
			written++
		}
		got := labels(t, store)
		if got["one"] < saved["one"] || got["two"] < saved["two"] {
			t.Fatalf("after kill %d: the writer had saved %v, found %v", kill, saved, got)
		}
	}
	t.Logf("%d kills, %d after a save, %d in a switch", n, written, inSwitch)
}

func TestKeeper_SurvivesKillAtAnyMoment(t *testing.T) {
	store := newState(t)
	kills(t, store)
}

// TestStore_FindsTheTasksInEachStateOfASwitch builds the folders that a kill after each step
// leaves.
func TestStore_FindsTheTasksInEachStateOfASwitch(t *testing.T) {
	for name, c := range map[string]struct {
		build                func(Store)
		last, previous, pend string // notes
	}{
		"the last one is renamed": {func(s Store) { fatal.If(t, rename(s.Path(Last), s.switching())) }, "one", "one", "two"},
		"the new one is written": {func(s Store) {
			fatal.If(t, rename(s.Path(Last), s.switching()))
			three := newTask(t, "", true)
			three.Note = "three"
			data, err := three.append(nil)
			fatal.If(t, err)
			fatal.If(t, replace(s.Path(Last), data))
		}, "three", "three", "one"},
	} {
		store := newState(t)
		c.build(store)
		if got, err := store.Load(Last); err != nil || got.Note != c.last {
			t.Errorf("%s: starts from %q, %v", name, got.Note, err)
		}
		keeper, err := store.Lock()
		fatal.If(t, err)
		got := labels(t, store)
		if got[c.previous] == 0 || got[c.pend] == 0 || exists(store.switching()) {
			t.Errorf("%s: found %v", name, got)
		}
		fatal.If(t, keeper.Close())
	}
}

func TestKeeper_AFailedSwitchKeepsTheLastTask(t *testing.T) {
	store := newState(t)
	keeper, err := store.Lock()
	fatal.If(t, err)
	defer keeper.Close()
	fatal.If(t, os.Mkdir(unfinished(store.Path(Last)), 0o700)) // blocks the new file
	keeper.Switch()
	errtest.NotNil(t, keeper.Save(newTask(t, Last, true)))
	if got, err := store.Load(Last); err != nil || got.Belief.Labels() != 1 {
		t.Errorf("after a failed switch: %v", err)
	}
	fatal.If(t, os.Remove(unfinished(store.Path(Last))))
	fatal.If(t, keeper.Save(newTask(t, Last, true)))
	if got, err := store.Load(Previous); err != nil || got.Note != "one" || got.Belief.Labels() != 1 {
		t.Errorf("after a switch: %q, %v", got.Note, err)
	}
	fatal.If(t, store.Delete(Last))
	errtest.Is(t, errtest.Of(store.Load(Last)), fs.ErrNotExist, "after its removal")
}

func TestKeeper_ADamagedTaskDoesNotReplacePrevious(t *testing.T) {
	store := newState(t)
	keeper, err := store.Lock()
	fatal.If(t, err)
	defer keeper.Close()
	good, err := os.ReadFile(store.Path(Last))
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(store.Path(Previous), good, 0o600))
	damaged := []byte("damaged")
	fatal.If(t, os.WriteFile(store.Path(Last), damaged, 0o600))
	keeper.Switch()
	fatal.If(t, keeper.Save(newTask(t, Last, true)))
	if got, err := store.Load(Previous); err != nil || got.Note != "one" {
		t.Errorf("the previous task: %q, %v", got.Note, err)
	}
	if got, err := os.ReadFile(store.Path(Last) + ".damaged"); err != nil || !bytes.Equal(got, damaged) {
		t.Errorf("the damaged file: %q, %v", got, err)
	}
}

func TestKeeper_KeepsPreviousForABeliefWithoutLabels(t *testing.T) {
	store := Store{State: t.TempDir()}
	keeper, err := store.Lock()
	fatal.If(t, err)
	defer keeper.Close()
	save := func(note string, labelled bool) {
		task := newTask(t, Last, true)
		task.Note = note
		if !labelled {
			task.Belief.Belief.Reset()
		}
		keeper.Switch()
		fatal.If(t, keeper.Save(task))
	}
	for _, run := range []struct {
		note     string
		labelled bool
		previous string // after it
	}{
		{"taught", true, ""}, {"fresh", false, "taught"}, {"fresh again", false, "taught"},
		{"new task", true, "taught"}, {"third", false, "new task"},
	} {
		save(run.note, run.labelled)
		previous, err := store.Load(Previous)
		if run.previous == "" && !errors.Is(err, fs.ErrNotExist) || previous.Note != run.previous {
			t.Errorf("%s: previous is %q, %v; want %q", run.note, previous.Note, err, run.previous)
		}
		if last, err := store.Load(Last); err != nil || last.Note != run.note {
			t.Errorf("%s: last is %q, %v", run.note, last.Note, err)
		}
	}
}

func TestKeeper_FailedSaveKeepsTheOldTask(t *testing.T) {
	store := newState(t)
	keeper, err := store.Lock()
	fatal.If(t, err)
	defer keeper.Close()
	fatal.If(t, os.Mkdir(unfinished(store.Path(Last)), 0o700)) // blocks the new file
	errtest.NotNil(t, keeper.Save(newTask(t, Last, true)))
	if got := labels(t, store); got["one"] != 1 || got["two"] != 1 {
		t.Errorf("found %v", got)
	}
}

func TestKeeper_SavesABeliefWithoutADirection(t *testing.T) {
	store := newState(t)
	keeper, err := store.Lock()
	fatal.If(t, err)
	defer keeper.Close()
	task := newTask(t, Last, true)
	task.Z = nil
	fatal.If(t, keeper.Save(task))
	if got, err := store.Load(Last); err != nil || got.Z != nil || got.Belief == nil {
		t.Errorf("%+v, %v", got, err)
	}
	task.Belief = nil
	errtest.NotNil(t, keeper.Save(task), "saves a task with neither z nor belief")
}

func TestStore_LocksTheFolderOfARun(t *testing.T) {
	store := Store{State: filepath.Join(t.TempDir(), "state")}
	first, err := store.Lock()
	fatal.If(t, err)
	errtest.Is(t, errtest.Of(store.Lock()), ErrLocked, "the second lock")
	fatal.If(t, first.Close())
	third, err := store.Lock()
	fatal.If(t, err)
	fatal.If(t, third.Close())
}

func TestKeeper_OthersCannotReadTheBelief(t *testing.T) {
	defer unix.Umask(unix.Umask(0o022))
	store := Store{State: filepath.Join(t.TempDir(), "state")}
	save(t, store, "", 1, false)
	for _, path := range []string{store.State, store.Path(Last)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o007 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}
