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

	"optibfm/internal/safefile"
)

const suffix = ".task"

// ErrExists is wrapped by the error of Save for a name that a task has already.
var ErrExists = errors.New("a task of this name exists")

// Store is where tasks are.
type Store struct {
	Dir   string // of the saved tasks
	State string // of Last and Previous; "": the robot has none
}

// ownedByRun reports whether a run writes the task of this name.
func (s Store) ownedByRun(name string) bool {
	return s.State != "" && (name == Last || name == Previous)
}

// Path returns the path of the file of a task.
func (s Store) Path(name string) string {
	if s.ownedByRun(name) {
		return filepath.Join(s.State, name+suffix)
	}
	return filepath.Join(s.Dir, name+suffix)
}

// paths returns the paths that the file of a task can have, the newest first.
func (s Store) paths(name string) []string {
	paths := []string{s.Path(name)}
	if name == Last && s.ownedByRun(name) {
		paths = append(paths, s.switching())
	}
	return paths
}

// switching is the path of Last while a switch makes it Previous.
func (s Store) switching() string { return unfinished(s.Path(Previous)) }

// find returns the path of the newest file of a task.
func (s Store) find(name string) string {
	paths := s.paths(name)
	if i := slices.IndexFunc(paths, exists); i >= 0 {
		return paths[i]
	}
	return paths[0]
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Load reads a task. The error wraps fs.ErrNotExist for an unknown name, and ErrDamaged or
// ErrVersion for a file that is not a task of this version.
func (s Store) Load(name string) (Task, error) {
	t, _, err := s.Read(name)
	return t, err
}

// Read is Load and also returns the bytes of the file, for Parse.
func (s Store) Read(name string) (t Task, data []byte, err error) {
	if err := CheckName(name); err != nil {
		return Task{}, nil, err
	}
	path := s.find(name)
	data, err = read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Task{}, nil, s.missing(name)
	}
	if err == nil {
		t, err = Parse(name, data)
	}
	if err != nil {
		return Task{}, nil, fmt.Errorf("taskstore: %s: %w%s", path, err, fixOf(err))
	}
	return t, data, nil
}

// fixOf returns the fix for a file that cannot be read. Only a damaged one may be removed: others
// may be good.
func fixOf(err error) string {
	switch {
	case errors.Is(err, ErrDamaged):
		return "; copy it again, or remove it"
	case errors.Is(err, ErrVersion): // the error has one
		return ""
	}
	return "; check its owner and permissions, and the disk"
}

// folderError adds the fix to the error of a folder of tasks, and of a file that cannot be written
// there.
func folderError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("taskstore: %w; check the owner and permissions of the folder, and the disk", err)
}

// Entry is a file of a store: a task, or the error of a file that cannot be read.
type Entry struct {
	Name string
	Task Task
	Err  error
}

// List reads all tasks, in the order of their names. If the folder of the saved tasks cannot be
// read, it returns an error and the other tasks.
func (s Store) List() ([]Entry, error) { return s.entries(s.Load) }

// Heads is List without beliefs. It reads only the first line of each file, and does not check the
// others.
func (s Store) Heads() ([]Entry, error) {
	return s.entries(func(name string) (Task, error) { return readHead(name, s.find(name)) })
}

func (s Store) entries(load func(name string) (Task, error)) (entries []Entry, err error) {
	files, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	add := func(name string) {
		if task, err := load(name); err == nil || exists(s.find(name)) { // or another process has deleted it
			entries = append(entries, Entry{name, task, err})
		}
	}
	for _, file := range files {
		name, isTask := strings.CutSuffix(file.Name(), suffix)
		path := filepath.Join(s.Dir, file.Name())
		switch misnamed := s.checkSaved(name); {
		case !isTask || path == s.Path(name) && s.ownedByRun(name):
		case misnamed != nil:
			entries = append(entries, Entry{Name: name, Err: fmt.Errorf("taskstore: %q: rename it: %w", path, misnamed)})
		default:
			add(name)
		}
	}
	for _, name := range []string{Last, Previous} {
		if s.ownedByRun(name) && exists(s.find(name)) {
			add(name)
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries, folderError(err)
}

// checkSaved refuses a name that no saved task can have.
func (s Store) checkSaved(name string) error {
	if s.ownedByRun(name) {
		return fmt.Errorf("%s is the name of a task that a run writes itself; choose another name", name)
	}
	return CheckName(name)
}

// ByModel sorts entries: those of a model first, then the others by robot and model, then files
// without a readable header. The order of names stays within each.
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

// Save writes a task that is not the run's own under its name. Without replacing, the error for a
// name in use wraps ErrExists.
func (s Store) Save(t Task, replacing bool) error {
	err := cmp.Or(s.checkSaved(t.Name), t.check())
	if err == nil && len(t.Z) == 0 {
		err = errNoDirection
	}
	if err != nil {
		return err
	}
	data, err := t.append(nil)
	if err != nil {
		return fmt.Errorf("taskstore: %s: %w", t.Name, err)
	}
	if err := os.MkdirAll(s.Dir, 0o750); err != nil {
		return folderError(err)
	}
	path := s.Path(t.Name)
	err = locked(s.Dir, func() error {
		if exists(path) && !replacing {
			return fmt.Errorf("%s: %w", path, ErrExists)
		}
		return replace(path, data)
	})
	if errors.Is(err, ErrExists) {
		return fmt.Errorf("taskstore: %w", err)
	}
	return folderError(err)
}

// Export writes a task to a new file for another robot, under any path.
func Export(path string, t Task) error {
	data, err := t.append(nil)
	if err == nil && len(t.Z) == 0 {
		err = errNoDirection
	}
	if err == nil {
		err = safefile.WriteNew(path, 0o640, data)
	}
	if err != nil {
		return fmt.Errorf("taskstore: %s: %w", path, err)
	}
	return nil
}

// ReadExported reads a file of Export, or one that was copied from the folder of a store.
func ReadExported(path string) (t Task, err error) {
	data, err := read(path)
	if err == nil {
		name, _ := strings.CutSuffix(filepath.Base(path), suffix)
		t, err = Parse(name, data)
	}
	if err != nil {
		return Task{}, fmt.Errorf("taskstore: %s: %w", path, err)
	}
	if t.Exported != nil {
		t.Name = t.Exported.Name
	}
	return t, nil
}

// Delete removes a task, also a damaged one.
func (s Store) Delete(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	dir := filepath.Dir(s.Path(name))
	err := locked(dir, func() error {
		err := os.Remove(s.find(name))
		for _, path := range s.paths(name) {
			err = cmp.Or(err, remove(path))
		}
		return errors.Join(err, safefile.SyncDir(dir))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return s.missing(name)
	}
	return folderError(err)
}

func (s Store) missing(name string) error {
	return fmt.Errorf("taskstore: no task %s in %s (%w); `optibfm task list`, with the same --config, lists the tasks",
		name, filepath.Dir(s.Path(name)), fs.ErrNotExist)
}

// locked calls change while no other process changes the saved tasks of a folder.
func locked(path string, change func() error) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return errors.Join(fmt.Errorf("lock %s: %w", path, err), dir.Close())
	}
	return errors.Join(change(), dir.Close())
}
