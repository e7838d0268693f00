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
	indexPiece = 64 << 10 // written to its file from here on
	indexMost  = 1 << 20  // given up beyond, where the file cannot be written
)

// errNoIndex is an index that was given up.
var errNoIndex = errors.New("the index of the chunks did not fit on the disk: copy the log with `optibfm log recover`, which adds one")

// chunkIndex collects the chunk index records of the summary, which grow with the
// run: some 100 bytes for each chunk. All but the newest are in a file without a name
// beside the log, so that memory does not grow.
type chunkIndex struct {
	dir   string
	fresh []byte
	file  *os.File // nil until fresh was full for the first time
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

// spill moves what is in memory to the file.
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

// pieces calls f with all records, a piece after the other.
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

// newChunkIndex returns the index of a log.
func newChunkIndex(log string) chunkIndex { return chunkIndex{dir: filepath.Dir(log)} }
