package beliefstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The files in a folder.
const (
	name     = "belief"      // the record
	newName  = "belief.new"  // one that is being written
	oldName  = "belief.old"  // one that was set aside
	lockName = "belief.lock" // whoever has it locked, writes
)

// maxFile bounds what Load reads: a belief of the largest dimension.
const maxFile = 80 << 20

// ErrLocked is returned by Open where another process writes to the folder.
var ErrLocked = errors.New("another run keeps its belief there: end it, or give another folder")

// Path is the file of a folder's record.
func Path(dir string) string { return filepath.Join(dir, name) }

// Load reads the record of a folder. Where there is none, the error wraps
// fs.ErrNotExist; where it is damaged, ErrDamaged.
func Load(dir string) (Record, error) {
	info, err := os.Stat(Path(dir))
	if err != nil {
		return Record{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return Record{}, fmt.Errorf("%s: %w: it is no file, or too large (%d bytes)", Path(dir), ErrDamaged, info.Size())
	}
	data, err := os.ReadFile(Path(dir))
	if err != nil {
		return Record{}, err
	}
	r, err := parse(data)
	if err != nil {
		return Record{}, fmt.Errorf("%s: %w", Path(dir), err)
	}
	return r, nil
}

// SetAside renames the record of a folder, so that the next run starts from
// nothing and nothing is lost. It returns the new name, "" where there was no
// record.
func SetAside(dir string) (string, error) {
	old := filepath.Join(dir, oldName)
	switch err := os.Rename(Path(dir), old); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	return old, syncDir(dir)
}

// Store writes the record of a folder. It belongs to one goroutine.
type Store struct {
	dir  string
	lock *os.File
	data []byte // scratch
}

// Open makes the folder where it is missing, and locks it. A run that is just
// ending is waited for, a moment.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	const tries, pause = 40, 50 * time.Millisecond
	for range tries {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return &Store{dir: dir, lock: lock}, nil
		}
		time.Sleep(pause)
	}
	return nil, errors.Join(fmt.Errorf("%s: %w (%w)", dir, ErrLocked, err), lock.Close())
}

// Save replaces the record. When it returns nil the new one is on disk; with an
// error the old one still is, or the new one.
func (s *Store) Save(r Record) error {
	var err error
	if s.data, err = r.appendTo(s.data[:0]); err != nil {
		return err
	}
	fresh := filepath.Join(s.dir, newName)
	if err := writeDurably(fresh, s.data); err != nil {
		return err
	}
	if err := os.Rename(fresh, Path(s.dir)); err != nil {
		return err
	}
	return syncDir(s.dir)
}

// Close unlocks the folder.
func (s *Store) Close() error { return s.lock.Close() }

func writeDurably(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
