package flightlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Limits of what a chunkIndex holds in memory, bytes.
const (
	indexPiece = 64 << 10 // above it, add writes to the file
	indexMost  = 1 << 20  // above it, add gives up if the file cannot be written
)

// errNoIndex means that the index could not be stored.
var errNoIndex = errors.New("the index of the chunks did not fit on the disk; " +
	"`optibfm log recover FILE -o COPY` makes a copy with an index")

// chunkIndex collects the chunk index records of the summary, about 100 bytes for each
// chunk. All but the newest are in an unnamed file beside the log, so that memory does
// not grow with the run.
type chunkIndex struct {
	dir   string
	fresh []byte
	file  *os.File // nil until the first spill
	size  int64    // of the file
	lost  error
}

// add appends an encoded record.
func (x *chunkIndex) add(record []byte) {
	if x.lost != nil {
		return
	}
	x.fresh = append(x.fresh, record...)
	if len(x.fresh) < indexPiece {
		return
	}
	if err := x.spill(); err != nil && len(x.fresh) > indexMost {
		x.lost, x.fresh = fmt.Errorf("%w (%w)", errNoIndex, err), nil
	}
}

// spill moves the records from memory to the file.
func (x *chunkIndex) spill() error {
	if x.file == nil {
		f, err := os.CreateTemp(x.dir, ".chunks-*")
		if err != nil {
			return err
		}
		if err := os.Remove(f.Name()); err != nil {
			return errors.Join(err, f.Close())
		}
		x.file = f
	}
	n, err := x.file.WriteAt(x.fresh, x.size)
	if err != nil {
		return err
	}
	x.size += int64(n)
	x.fresh = x.fresh[:0]
	return nil
}

// pieces calls f with all records, in pieces.
func (x *chunkIndex) pieces(f func([]byte) error) error {
	if x.lost != nil {
		return x.lost
	}
	piece := make([]byte, min(x.size, summaryPiece))
	for at := int64(0); at < x.size; at += int64(len(piece)) {
		piece = piece[:min(int64(len(piece)), x.size-at)]
		if _, err := x.file.ReadAt(piece, at); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading the index of the chunks: %w", err)
		}
		if err := f(piece); err != nil {
			return err
		}
	}
	return f(x.fresh)
}

func (x *chunkIndex) close() error {
	if x.file == nil {
		return nil
	}
	return x.file.Close()
}

// newChunkIndex returns the empty index of a log.
func newChunkIndex(log string) chunkIndex { return chunkIndex{dir: filepath.Dir(log)} }
