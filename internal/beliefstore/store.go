package beliefstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/sealed"
)

// The files in a folder.
const (
	name     = "belief"      // the record
	oldName  = "belief.old"  // the record that SetAside renamed
	lockName = "belief.lock" // locked by the writer
)

// maxFile is the size of a belief of the largest dimension.
const maxFile = 80 << 20

// ErrLocked is wrapped by the error of Open if another process has locked the folder.
var ErrLocked = errors.New("another run uses this folder; end it, or set run.state_dir to another folder")

// Path returns the path of the record in a folder.
func Path(dir string) string { return filepath.Join(dir, name) }

// Load reads the record of a folder. The error wraps fs.ErrNotExist for a folder
// without a record, and ErrDamaged for a damaged one.
func Load(dir string) (Record, error) {
	data, err := sealed.Read(Path(dir), maxFile)
	if err != nil {
		return Record{}, fmt.Errorf("beliefstore: %s: %w", dir, err)
	}
	r, err := Parse(data)
	if err != nil {
		return Record{}, fmt.Errorf("beliefstore: %s: %w", Path(dir), err)
	}
	return r, nil
}

// SetAside renames the record of a folder, so that the next run starts from the
// prior. It returns the new name, "" if there was no record.
func SetAside(dir string) (string, error) {
	old := filepath.Join(dir, oldName)
	switch err := os.Rename(Path(dir), old); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	return old, sealed.SyncDir(dir)
}

// Store writes the record of a folder. One goroutine may use it.
type Store struct {
	dir  string
	lock *os.File
	data []byte // scratch
}

// Open creates and locks the folder. It waits up to 2 s for a run that is ending.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
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
	return nil, errors.Join(fmt.Errorf("beliefstore: %s: %w (%w)", dir, ErrLocked, err), lock.Close())
}

// Save replaces the record. If it returns nil, the new one is on disk; after an
// error it is the old or the new one.
func (s *Store) Save(r Record) error {
	var err error
	if s.data, err = r.AppendBinary(s.data[:0]); err != nil {
		return err
	}
	return sealed.Replace(Path(s.dir), s.data)
}

// SetAside is SetAside for the locked folder.
func (s *Store) SetAside() error {
	_, err := SetAside(s.dir)
	return err
}

// Close unlocks the folder.
func (s *Store) Close() error { return s.lock.Close() }
