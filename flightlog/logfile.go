package flightlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// ErrLost is wrapped by the errors of a Writer whose file is no longer the log: it, its folder or
// some of its bytes are gone. A reader would miss later records.
var ErrLost = errors.New("the log is lost, so no label counts: end the run and start another")

// file holds the methods that a Writer needs.
type file interface {
	WriteAt(p []byte, off int64) (int, error)
	Sync() error
	Close() error
	// Intact cuts the file to a size. It returns an error that wraps ErrLost if the file is
	// shorter, if another file or none has its path, or if the bytes before the offset at differ
	// from tail.
	Intact(at int64, tail string, size int64) error
}

// extent is the valid part of a file.
type extent struct {
	size int64
	crc  uint32
	tail string // its last bytes, at most maxTail
}

// maxTail is the length of an extent's tail. A file that was truncated and extended has zeros
// there.
const maxTail = 64

// with returns the extent of a file after p was appended.
func (e extent) with(p []byte) extent {
	tail := e.tail + string(p[max(0, len(p)-maxTail):])
	return extent{
		size: e.size + int64(len(p)), crc: crc32.Update(e.crc, crc32.IEEETable, p),
		tail: tail[max(0, len(tail)-maxTail):],
	}
}

// namedFile is a file with the path of its creation.
type namedFile struct {
	*os.File
	path string
}

// Intact implements file. It compares device and inode, so that a removed, renamed, replaced or
// hidden file is lost.
func (f namedFile) Intact(at int64, tail string, size int64) error {
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
		if err := f.Truncate(size); err != nil {
			return err
		}
	}
	found := make([]byte, len(tail))
	if _, err := f.ReadAt(found, at-int64(len(tail))); err != nil {
		return err
	}
	if string(found) != tail {
		return fmt.Errorf("%w: another program wrote to it", ErrLost)
	}
	return nil
}
