package flightlog

import (
	"errors"
	"fmt"
	"os"
)

// ErrLost is wrapped by the errors of a Writer whose file is no longer the log: it, its folder or
// some of its bytes are gone. Nobody could read what it writes there.
var ErrLost = errors.New("the log is lost, so no label counts: end the run and start another")

// file holds the methods that a Writer needs.
type file interface {
	WriteAt(p []byte, off int64) (int, error)
	Sync() error
	Close() error
	// Intact cuts the file to a size. It returns an error that wraps ErrLost if the file is shorter, or is
	// no longer at its path.
	Intact(size int64) error
}

// namedFile is a file with the path of its creation.
type namedFile struct {
	*os.File
	path string
}

// Intact implements file. It compares device and inode, so that a removed, renamed, replaced or
// hidden file is lost.
func (f namedFile) Intact(size int64) error {
	open, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(f.path)
	switch {
	case err != nil:
		return fmt.Errorf("%w: its name is gone: %w", ErrLost, err)
	case !os.SameFile(open, named):
		return fmt.Errorf("%w: another file has its name", ErrLost)
	case open.Size() < size:
		return fmt.Errorf("%w: it was truncated (%d of %d bytes)", ErrLost, open.Size(), size)
	case open.Size() > size: // an unfinished write, or another program's
		return f.Truncate(size)
	}
	return nil
}
