package taskstore

import (
	"bytes"
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

	"optibfm/controller"
	"optibfm/internal/beliefstore"
	"optibfm/internal/sealed"
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
	if err != nil {
		t.Fatal(err)
	}
	task.Belief = &beliefstore.Record{
		ModelHash: "abc", Sigma: 0.5, Noise: controller.NoiseState{Labels: 1}, Program: "test", Robot: "fake",
		SavedAt: time.Unix(2e9, 0).UTC(), Belief: b,
	}
	return task
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFolder_LoadsWhatItSaved(t *testing.T) {
	folder := Folder(filepath.Join(t.TempDir(), "a", "b"))
	for _, learnt := range []bool{false, true} {
		want := newTask(t, fmt.Sprintf("learnt-%t", learnt), learnt)
		must(t, folder.Save(want, false))
		got, err := folder.Load(want.Name)
		must(t, err)
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

func TestFolder_SaveReplacesOnlyIfAsked(t *testing.T) {
	folder := Folder(t.TempDir())
	first, second := newTask(t, "turn", false), newTask(t, "turn", true)
	must(t, folder.Save(first, false))
	if err := folder.Save(second, false); !errors.Is(err, ErrExists) {
		t.Errorf("the second: %v", err)
	}
	if got, err := folder.Load("turn"); err != nil || got.Belief != nil {
		t.Errorf("after a refused save: %+v, %v", got, err)
	}
	must(t, folder.Save(second, true))
	if got, err := folder.Load("turn"); err != nil || got.Belief == nil {
		t.Errorf("after a replacement: %+v, %v", got, err)
	}
}

func TestFolder_TheNameIsThatOfTheFile(t *testing.T) {
	folder := Folder(t.TempDir())
	must(t, folder.Save(newTask(t, "turn", false), false))
	must(t, os.Rename(folder.Path("turn"), folder.Path("spin")))
	if got, err := folder.Load("spin"); err != nil || got.Name != "spin" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFolder_ListNamesDamagedFilesBesideTheOthers(t *testing.T) {
	folder := Folder(t.TempDir())
	if entries, err := Folder(folder.Path("none")).List(); err != nil || len(entries) != 0 {
		t.Errorf("a missing folder: %v, %v", entries, err)
	}
	for _, name := range []string{"b", "b-2", "d"} {
		must(t, folder.Save(newTask(t, name, true), false))
	}
	must(t, os.WriteFile(folder.Path("a"), []byte("cut"), 0o600))
	must(t, os.Mkdir(folder.Path("c"), 0o700))
	must(t, os.Rename(folder.Path("d"), folder.Path("d e")))
	must(t, os.WriteFile(sealed.Unfinished(folder.Path("b")), nil, 0o600))
	entries, err := folder.List()
	must(t, err)
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

func TestFolder_HeadsByModel(t *testing.T) {
	folder := Folder(t.TempDir())
	for name, of := range map[string]struct{ model, robot string }{
		"z": {"abc", "fake"}, "a": {"old", "walker"}, "c": {"abc", "fake"}, "d": {"old", "cheetah"}, "b": {"new", "walker"},
	} {
		task := newTask(t, name, true)
		task.ModelHash, task.Origin.Robot, task.Belief.ModelHash = of.model, of.robot, of.model
		must(t, folder.Save(task, false))
	}
	must(t, os.WriteFile(folder.Path("0"), []byte("cut"), 0o600))
	entries, err := folder.Heads()
	must(t, err)
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

func TestFolder_DeletesAlsoADamagedTask(t *testing.T) {
	folder := Folder(t.TempDir())
	must(t, folder.Save(newTask(t, "turn", false), false))
	must(t, os.WriteFile(folder.Path("cut"), []byte("cut"), 0o600))
	for _, name := range []string{"turn", "cut"} {
		must(t, folder.Delete(name))
		if err := folder.Delete(name); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is deleted twice: %v", name, err)
		}
	}
	if names, err := folder.Names(); err != nil || len(names) != 0 {
		t.Errorf("%q, %v", names, err)
	}
}

func TestFolder_RefusesUnsafeNames(t *testing.T) {
	parent := t.TempDir()
	folder := Folder(filepath.Join(parent, "tasks"))
	must(t, Folder(parent).Save(newTask(t, "outside", false), false))
	must(t, folder.Save(newTask(t, "inside", false), false))
	for _, name := range []string{
		"", ".", "..", "../outside", "a/b", "-rf", ".hidden", "a b", "é", "a\x00", "$(id)", strings.Repeat("a", 101),
	} {
		if err := folder.Save(newTask(t, name, false), false); err == nil {
			t.Errorf("Save accepts %q", name)
		}
		if _, err := folder.Load(name); err == nil {
			t.Errorf("Load accepts %q", name)
		}
		if err := folder.Delete(name); err == nil {
			t.Errorf("Delete accepts %q", name)
		}
	}
	if _, err := Folder(parent).Load("outside"); err != nil {
		t.Error(err)
	}
}

func TestFolder_SaveRefusesTasksThatNoRunCanFollow(t *testing.T) {
	folder := Folder(t.TempDir())
	for name, change := range map[string]func(*Task){
		"no z":           func(t *Task) { t.Z = nil },
		"zero":           func(t *Task) { t.Z = make([]float64, 3) },
		"nan":            func(t *Task) { t.Z[1] = math.NaN() },
		"infinite":       func(t *Task) { t.Z[2] = math.Inf(-1) },
		"too many":       func(t *Task) { t.Z = slices.Repeat([]float64{1}, posterior.MaxDim+1) },
		"note":           func(t *Task) { t.Note = strings.Repeat("a", maxNote+1) },
		"note, not text": func(t *Task) { t.Note = "\xff" },
		"another model":  func(t *Task) { t.Belief.ModelHash = "def" },
	} {
		task := newTask(t, "task", true)
		change(&task)
		if err := folder.Save(task, false); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if names, _ := folder.Names(); len(names) != 0 {
		t.Errorf("files %q", names)
	}
}

func TestParse_RefusesDamagedTasks(t *testing.T) {
	whole, err := newTask(t, "turn", true).appendTo(nil)
	must(t, err)
	check := func(what string, data []byte) {
		t.Helper()
		if _, err := Parse("x", data); !errors.Is(err, sealed.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := 0; n < len(whole); n += 3 {
		check(fmt.Sprintf("cut at %d", n), whole[:n])
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x10
		check(fmt.Sprintf("bit of byte %d", n), flipped)
	}
	other := newTask(t, "turn", true)
	other.Belief.ModelHash = "def"
	data, err := other.appendTo(nil)
	must(t, err)
	check("a belief of another model", data)
	data, err = sealed.Append(nil, header{"optibfm task 2", newTask(t, "turn", false)}, nil)
	must(t, err)
	check("another version", data)
	data, err = sealed.Append(nil, header{format, Task{}}, nil)
	must(t, err)
	check("no z", data)
}

func FuzzParse(f *testing.F) {
	for _, learnt := range []bool{false, true} {
		whole, err := newTask(f, "turn", learnt).appendTo(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(whole)
		f.Add(whole[:len(whole)-9])
	}
	f.Add([]byte("{\"format\":\"" + format + "\"}\n12345678"))
	f.Fuzz(func(t *testing.T, data []byte) {
		task, err := Parse("x", data)
		if err != nil {
			if !errors.Is(err, sealed.ErrDamaged) {
				t.Fatalf("not ErrDamaged: %v", err)
			}
			return
		}
		again, err := task.appendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("x", again); err != nil {
			t.Fatalf("cannot read it back: %v", err)
		}
	})
}
