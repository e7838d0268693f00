package taskstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"optibfm/internal/sealed"
)

const (
	suffix  = ".task"
	maxFile = 81 << 20 // bytes, with a belief of the largest dimension
)

// ErrExists is wrapped by the error of Save for a name that a task has already.
var ErrExists = errors.New("a task of this name exists")

// Folder is the path of a folder of tasks.
type Folder string

// Path returns the path of the file of a task.
func (f Folder) Path(name string) string { return filepath.Join(string(f), name+suffix) }

// Load reads a task. The error wraps fs.ErrNotExist for an unknown name, and sealed.ErrDamaged for a damaged file.
func (f Folder) Load(name string) (Task, error) {
	t, _, err := f.Read(name)
	return t, err
}

// Read is Load and also returns the bytes of the file, for Parse.
func (f Folder) Read(name string) (t Task, data []byte, err error) {
	if err := CheckName(name); err != nil {
		return Task{}, nil, err
	}
	data, err = sealed.Read(f.Path(name), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Task{}, nil, f.missing(name)
	}
	if err == nil {
		t, err = Parse(name, data)
	}
	if err != nil {
		return Task{}, nil, fmt.Errorf("taskstore: %s: %w; copy it again, or remove it with `optibfm task delete %s`",
			f.Path(name), err, name)
	}
	return t, data, nil
}

// Entry is a file of a folder: a task, or the error of a file that cannot be read.
type Entry struct {
	Name string
	Task Task
	Err  error
}

// Names lists the names of the files of tasks, sorted. A missing folder has none.
func (f Folder) Names() (names []string, err error) {
	files, err := os.ReadDir(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("taskstore: %w", err)
	}
	for _, file := range files {
		name, isTask := strings.CutSuffix(file.Name(), suffix)
		if isTask {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// List reads all tasks, in the order of their names.
func (f Folder) List() (entries []Entry, err error) {
	names, err := f.Names()
	for _, name := range names {
		task, err := f.Load(name)
		if CheckName(name) != nil {
			err = fmt.Errorf("taskstore: %q: rename it: %w", f.Path(name), err)
		}
		entries = append(entries, Entry{name, task, err})
	}
	return entries, err
}

// Heads is List without beliefs. It reads only the first line of each file, and does not check the others.
func (f Folder) Heads() (entries []Entry, err error) {
	names, err := f.Names()
	for _, name := range names {
		var h header
		err := CheckName(name)
		if err == nil {
			err = sealed.ReadHeader(f.Path(name), &h, format)
		}
		h.Task.Name = name
		entries = append(entries, Entry{name, h.Task, err})
	}
	return entries, err
}

// ByModel sorts entries: those of a model first, then the others by robot and model, then files without a readable
// header. The order of names stays within each.
func ByModel(entries []Entry, hash string) {
	rank := func(e Entry) int {
		switch {
		case e.Err != nil:
			return 2
		case e.Task.ModelHash == hash:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(entries, func(a, b Entry) int {
		if r := cmp.Compare(rank(a), rank(b)); r != 0 || rank(a) != 1 {
			return r
		}
		return cmp.Or(cmp.Compare(a.Task.Origin.Robot, b.Task.Origin.Robot),
			cmp.Compare(a.Task.ModelHash, b.Task.ModelHash))
	})
}

// Save writes a task under its name. Without replace, the error for a name in use wraps ErrExists.
func (f Folder) Save(t Task, replace bool) error {
	if err := errors.Join(CheckName(t.Name), t.check()); err != nil {
		return err
	}
	data, err := t.appendTo(nil)
	if err != nil {
		return fmt.Errorf("taskstore: %s: %w", t.Name, err)
	}
	if err := os.MkdirAll(string(f), 0o750); err != nil {
		return fmt.Errorf("taskstore: %w", err)
	}
	return f.locked(func() error {
		_, err := os.Lstat(f.Path(t.Name))
		if err == nil && !replace {
			return fmt.Errorf("taskstore: %s: %w", f.Path(t.Name), ErrExists)
		}
		if err := sealed.Replace(f.Path(t.Name), data); err != nil {
			return fmt.Errorf("taskstore: %w", err)
		}
		return nil
	})
}

// Delete removes a task, also a damaged one.
func (f Folder) Delete(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	err := f.locked(func() error {
		return errors.Join(os.Remove(f.Path(name)), sealed.SyncDir(string(f)))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return f.missing(name)
	}
	return err
}

func (f Folder) missing(name string) error {
	return fmt.Errorf("taskstore: no task %s in %s (%w); `optibfm task list` lists the tasks",
		name, string(f), fs.ErrNotExist)
}

// locked calls change while no other process changes the folder.
func (f Folder) locked(change func() error) error {
	dir, err := os.Open(string(f))
	if err != nil {
		return fmt.Errorf("taskstore: %w", err)
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return errors.Join(fmt.Errorf("taskstore: lock %s: %w", string(f), err), dir.Close())
	}
	return errors.Join(change(), dir.Close())
}
