package eval

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrOtherProtocol is wrapped where a results file is of another experiment, or of
// another version of it.
var ErrOtherProtocol = errors.New("the results are of another protocol")

// trialID is Trial.ID of a row's trial.
func (r Row) trialID() string {
	return strings.Join([]string{r.Env, r.Task, r.Bundle, r.Method, r.Params, fmt.Sprint(r.Trial)}, " ")
}

// Results is a results file that is being written: whole trials, one after the
// other, each ending with a row of MeasureHz. It may be used by several
// goroutines.
type Results struct {
	mu   sync.Mutex
	path string
	file resultsFile
	end  int64             // of what is whole of the file, bytes
	done map[string]bool   // trials by ID
	hash map[string]string // of the model's weights, by bundle
	// Dropped says what of the file was not whole when it was opened, "" if
	// nothing.
	Dropped string
	// Version is the program's that wrote the rows that were there, "" where
	// there were none.
	Version string
}

// resultsFile is what is done with an *os.File.
type resultsFile interface {
	io.Writer
	io.Closer
	Truncate(size int64) error
	Seek(offset int64, whence int) (int64, error)
	Sync() error
}

// ErrOtherModel is wrapped where trials of one bundle were made with different
// weights.
var ErrOtherModel = errors.New("the bundle has other weights than in trials that are there")

// OpenResults opens a results file to go on with it, or makes it. A trial that was
// cut off at its end, by a kill or a full disk, is taken out; any other damage
// is an error that wraps ErrResults. Rows with another protocol's hash are an
// error that wraps ErrOtherProtocol, and those of one bundle with different weights
// one that wraps ErrOtherModel.
func OpenResults(path, protocolHash string) (*Results, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResults, err)
	}
	f, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	r := &Results{path: path, file: f, done: map[string]bool{}, hash: map[string]string{}}
	if err := r.resume(f, protocolHash); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// openLocked opens a file that nobody else writes to. A run that ends puts a
// sorted file in the place of the one that it had locked: that one is opened then.
func openLocked(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrResults, err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			err = fmt.Errorf("%w: %s: another run writes to it (%w): wait for its end, or give another file with --out", ErrResults, path, err)
			return nil, errors.Join(err, f.Close())
		}
		locked, errLocked := f.Stat()
		there, errThere := os.Stat(path)
		if errLocked == nil && errThere == nil && os.SameFile(locked, there) {
			return f, nil
		}
		err = errors.Join(errLocked, f.Close())
		if errThere != nil && !errors.Is(errThere, fs.ErrNotExist) {
			err = errors.Join(err, errThere)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrResults, err)
		}
	}
}

// resume takes the file over, as it was left.
func (r *Results) resume(f io.Reader, protocolHash string) error {
	content, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrResults, err)
	}
	whole, err := r.take(content, protocolHash)
	if err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	return r.begin(whole)
}

// begin cuts the file to what is whole of it and writes the header where there is
// none.
func (r *Results) begin(whole int) error {
	r.end = int64(whole)
	if err := r.rewind(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrResults, r.path, err)
	}
	if whole > 0 {
		return nil
	}
	return r.write([]byte(strings.Join(Columns, ",") + "\n"))
}

// take notes the trials that are in a file, and returns how many of its bytes are
// whole trials.
func (r *Results) take(content []byte, protocolHash string) (whole int, err error) {
	header := len(strings.Join(Columns, ",")) + 1
	if len(content) < header && strings.HasPrefix(strings.Join(Columns, ",")+"\n", string(content)) {
		r.dropped(len(content))
		return 0, nil
	}
	// Half a line is no row, whatever is in it.
	lines := content[:bytes.LastIndexByte(content, '\n')+1]
	rows, ends, err := readEnds(lines)
	if err != nil {
		return 0, err
	}
	whole = header
	for i, row := range rows {
		if row.ProtocolHash != protocolHash {
			return 0, fmt.Errorf("%w (experiment %s, hash %.12s, this one's is %.12s): write to another file with --out", ErrOtherProtocol, row.Experiment, row.ProtocolHash, protocolHash)
		}
		r.Version = row.Version
		if err := sameModel(r.hash, row.Bundle, row.ModelHash); err != nil {
			return 0, err
		}
		if row.Measure == MeasureHz {
			r.done[row.trialID()] = true
			whole = ends[i]
		}
	}
	r.dropped(len(content) - whole)
	return whole, nil
}

// sameModel notes the hash of a bundle's weights; another one than before is an
// error.
func sameModel(hashes map[string]string, bundle, hash string) error {
	before, known := hashes[bundle]
	if !known {
		hashes[bundle] = hash
		return nil
	}
	if before == hash {
		return nil
	}
	return fmt.Errorf("%w (%s: the hash is %.12s, and %.12s in trials before): put back the weights that those were made with, or run all of it anew into another file",
		ErrOtherModel, bundle, hash, before)
}

// checkModel refuses a bundle whose weights are not those of the trials that the
// file has.
func (r *Results) checkModel(bundle, hash string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := sameModel(r.hash, bundle, hash); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrResults, r.path, err)
	}
	return nil
}

func (r *Results) dropped(n int) {
	if n > 0 {
		r.Dropped = fmt.Sprintf("%s: the last trial was cut off: its %d bytes are taken out", r.path, n)
	}
}

// readEnds is ReadRows with the offset behind each row.
func readEnds(content []byte) (rows []Row, ends []int, err error) {
	rows, err = ReadRows(bytes.NewReader(content))
	if err != nil {
		return nil, nil, err
	}
	reader := csv.NewReader(bytes.NewReader(content))
	reader.ReuseRecord = true
	for n := -1; ; n++ {
		if _, err := reader.Read(); err != nil {
			return rows, ends, nil // ReadRows has read it all
		}
		if n >= 0 {
			ends = append(ends, int(reader.InputOffset()))
		}
	}
}

// Done tells whether the file has a trial.
func (r *Results) Done(t Trial) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done[t.ID()]
}

// Append writes a trial's rows, in one piece, and has them on the disk when it
// returns. Where it fails, the file is as it was.
func (r *Results) Append(rows []Row) error {
	var text bytes.Buffer
	if err := WriteRows(&text, rows); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.write(text.Bytes()); err != nil {
		return err
	}
	r.done[rows[0].trialID()] = true
	return nil
}

func (r *Results) write(text []byte) error {
	_, err := r.file.Write(text)
	if err == nil {
		err = r.file.Sync()
	}
	if err != nil { // nothing must come behind half a trial
		return fmt.Errorf("%w: %s: %w", ErrResults, r.path, errors.Join(err, r.rewind()))
	}
	r.end += int64(len(text))
	return nil
}

// rewind cuts the file to what is whole of it, and goes on there.
func (r *Results) rewind() error {
	_, err := r.file.Seek(r.end, io.SeekStart)
	return errors.Join(r.file.Truncate(r.end), err)
}

// Close closes the file.
func (r *Results) Close() error { return r.file.Close() }

// Finish puts the trials in their order, whatever order they were finished in, and
// closes the file. Nobody else can write to it meanwhile.
func (r *Results) Finish() error {
	rows, err := ReadFile(r.path)
	if err == nil {
		err = WriteFile(r.path, rows)
	}
	return errors.Join(err, r.Close())
}

// ReadFile is ReadRows of the named file.
func ReadFile(path string) ([]Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResults, err)
	}
	defer f.Close()
	rows, err := ReadRows(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// WriteFile writes a results file, the trials in their order. It appears whole or not
// at all.
func WriteFile(path string, rows []Row) (err error) {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, compareTrials)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrResults, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.WriteString(strings.Join(Columns, ",") + "\n")
	err = errors.Join(err, WriteRows(f, rows), f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrResults, path, err)
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("%w: %w", ErrResults, err)
	}
	return nil
}

func compareTrials(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Experiment, b.Experiment), cmp.Compare(a.Env, b.Env), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Bundle, b.Bundle),
		cmp.Compare(a.Method, b.Method), cmp.Compare(a.Params, b.Params), cmp.Compare(a.Trial, b.Trial))
}
