package taskstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the file that a run locks.
const lockName = "belief.lock"

// ErrLocked is wrapped by the error of Lock if another process has locked the folder.
var ErrLocked = errors.New("another run uses this folder; end it, or set run.state_dir to another folder")

// Keeper writes Last and Previous. One goroutine may use it.
type Keeper struct {
	store    Store
	lock     *os.File
	data     []byte // scratch
	switched bool   // the task in Last is to become Previous
}

// Lock creates and locks the folder State. It waits up to 2 s for a run that is ending.
func (s Store) Lock() (*Keeper, error) {
	if err := os.MkdirAll(s.State, 0o750); err != nil {
		return nil, folderError(err)
	}
	lock, err := os.OpenFile(filepath.Join(s.State, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, folderError(err)
	}
	const tries, pause = 40, 50 * time.Millisecond
	for range tries {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(pause)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("taskstore: %s: %w", s.State, ErrLocked)
	case err != nil:
		err = folderError(fmt.Errorf("lock %s: %w", lock.Name(), err))
	default:
		err = folderError(s.finishSwitch())
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Keeper{store: s, lock: lock}, nil
}

// Switch makes the next Save keep the task in Last as Previous.
func (k *Keeper) Switch() { k.switched = true }

// Save replaces Last. If it returns nil, the new task is on disk; after an error Last is the old or
// the new task. After Switch it keeps the old task, and Previous until the new task is on disk.
func (k *Keeper) Save(t Task) (err error) {
	if err := t.check(); err != nil {
		return fmt.Errorf("taskstore: %s: %w", Last, err)
	}
	if k.data, err = t.append(k.data[:0]); err != nil {
		return fmt.Errorf("taskstore: %s: %w", Last, err)
	}
	if k.switched {
		if err := k.store.beginSwitch(); err != nil {
			return err
		}
	}
	err = replace(k.store.Path(Last), k.data)
	if exists(k.store.Path(Last)) { // also if only its sync failed: it must not become Previous
		k.switched = false
	}
	if err != nil {
		return err
	}
	return k.store.finishSwitch()
}

// beginSwitch renames the file of Last. Until there is another one, find returns the renamed file.
// A belief without labels does not replace Previous, which may be the only copy of many labels. A
// damaged file becomes last.task.damaged instead.
func (s Store) beginSwitch() error {
	if err := s.finishSwitch(); err != nil {
		return err
	}
	last, err := s.Load(Last)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && last.Unlabelled():
		return nil
	case errors.Is(err, ErrDamaged):
		return rename(s.Path(Last), s.Path(Last)+".damaged")
	}
	return rename(s.Path(Last), s.switching())
}

// finishSwitch makes the file of a begun switch Previous, or again Last if there is no other one.
func (s Store) finishSwitch() error {
	from := s.switching()
	if !exists(from) {
		return nil
	}
	if s.find(Last) == from {
		return rename(from, s.Path(Last))
	}
	return rename(from, s.Path(Previous))
}

// Close unlocks the folder.
func (k *Keeper) Close() error { return k.lock.Close() }
