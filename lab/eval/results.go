package eval

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"optibfm/internal/safefile"

	"golang.org/x/sys/unix"
)

// ErrOtherProtocol marks a results file of another experiment or another version of it.
var ErrOtherProtocol = errors.New("the results are of another protocol")

// ErrOtherModel marks trials of one bundle with different weights.
var ErrOtherModel = errors.New("the weights of the bundle differ from those in the trials of the file")

var header = strings.Join(Columns, ",") + "\n"

// trialID returns the Trial.ID of the row's trial.
func (r Row) trialID() string {
	return strings.Join([]string{r.Env, r.Task, r.Bundle, r.Method, r.Params, fmt.Sprint(r.Trial)}, " ")
}

// Results is an open results file: complete trials, each ending with a row of MeasureHz. Several
// goroutines may use it.
type Results struct {
	mu   sync.Mutex
	path string
	file resultsFile
	end  int64             // of the last complete trial, bytes
	done map[string]bool   // trials by ID
	hash map[string]string // of the model's weights, by bundle
	run  string            // hash of the experiment, see Runner.Hash
	// Dropped describes the incomplete part that OpenResults removed, "" if none.
	Dropped string
	// Version is that of the program that wrote the existing rows, "" without rows.
	Version string
}

// resultsFile is implemented by *os.File.
type resultsFile interface {
	io.Writer
	io.Closer
	Truncate(size int64) error
	Seek(offset int64, whence int) (int64, error)
	Sync() error
}

// OpenResults opens or creates a results file and locks it. It removes an incomplete trial at the
// end, which a kill or a full disk left. Any other damage is an error that wraps ErrResults. hash is
// that of the experiment, see Runner.Hash: rows with another one give an error that wraps
// ErrOtherProtocol, one bundle with two hashes one that wraps ErrOtherModel.
func OpenResults(path, hash string) (*Results, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrResults, err)
	}
	f, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	r := &Results{path: path, file: f, done: map[string]bool{}, hash: map[string]string{}, run: hash}
	if err := r.resume(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// openLocked opens the file at path with an exclusive lock. WriteFile replaces the file: if that
// happened between open and lock, openLocked opens the new one.
func openLocked(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrResults, err)
		}
		if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
			return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrResults, path, safefile.ErrNotRegular), f.Close())
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			err = fmt.Errorf("%w: %s: another run writes to it (%w); wait for its end, or give another file with --out",
				ErrResults, path, err)
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

// resume reads the existing rows, cuts the file behind the last complete trial and writes a missing
// header.
func (r *Results) resume(f io.Reader) error {
	content, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrResults, err)
	}
	whole, err := r.readTrials(content)
	if err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	if cut := len(content) - whole; cut > 0 {
		r.Dropped = fmt.Sprintf("%s: the last trial was incomplete: removed its %d bytes", r.path, cut)
	}
	r.end = int64(whole)
	if err := r.rewind(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrResults, r.path, err)
	}
	if whole > 0 {
		return nil
	}
	return r.write([]byte(header))
}

// readTrials notes the complete trials of a file and returns the number of bytes up to the end of
// the last.
func (r *Results) readTrials(content []byte) (whole int, err error) {
	if len(content) < len(header) && strings.HasPrefix(header, string(content)) {
		return 0, nil
	}
	lines := content[:bytes.LastIndexByte(content, '\n')+1] // half a line is never a row
	whole = len(header)
	for row, err := range rowsOf(bytes.NewReader(lines)) {
		if err != nil {
			return 0, err
		}
		if row.ProtocolHash != r.run {
			return 0, fmt.Errorf("%w (experiment %s: hash %.12s, want %.12s); choose another file with --out",
				ErrOtherProtocol, row.Experiment, row.ProtocolHash, r.run)
		}
		r.Version = row.Version
		if err := checkModelHash(r.hash, row.Bundle, row.ModelHash); err != nil {
			return 0, err
		}
		if row.Measure == MeasureHz {
			r.done[row.trialID()] = true
			whole = row.end
		}
	}
	return whole, nil
}

// checkModelHash notes the hash of a bundle's weights and refuses a second, different one.
func checkModelHash(hashes map[string]string, bundle, hash string) error {
	before, known := hashes[bundle]
	if known && before != hash {
		return fmt.Errorf("%w (%s: hash %.12s, and %.12s in earlier trials); "+
			"restore the weights of the earlier trials, or run everything again with another file",
			ErrOtherModel, bundle, hash, before)
	}
	hashes[bundle] = hash
	return nil
}

// checkModel refuses a bundle whose weights differ from those of the trials in the file.
func (r *Results) checkModel(bundle, hash string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := checkModelHash(r.hash, bundle, hash); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrResults, r.path, err)
	}
	return nil
}

// Done reports whether the file has a trial.
func (r *Results) Done(t Trial) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done[t.ID()]
}

// Append writes the rows of a trial in one write. They are on disk when it returns. After an error
// the file is as before.
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
	if err != nil { // remove the incomplete trial
		return fmt.Errorf("%w: %s: %w", ErrResults, r.path, errors.Join(err, r.rewind()))
	}
	r.end += int64(len(text))
	return nil
}

// rewind cuts the file to its complete trials and seeks to the end.
func (r *Results) rewind() error {
	_, err := r.file.Seek(r.end, io.SeekStart)
	return errors.Join(r.file.Truncate(r.end), err)
}

// Close closes the file.
func (r *Results) Close() error { return r.file.Close() }

// Finish sorts the trials and closes the file, which stays locked until then.
func (r *Results) Finish() error {
	rows, err := ReadFile(r.path)
	if err == nil {
		err = WriteFile(r.path, rows)
	}
	return errors.Join(err, r.Close())
}

// ReadFile reads the rows of the named file.
func ReadFile(path string) ([]Row, error) {
	f, _, err := safefile.Open(path)
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

// WriteFile writes a results file with sorted trials. It replaces path in one step or not at all.
func WriteFile(path string, rows []Row) error {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, compareTrials)
	err := safefile.Replace(path, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, header)
		return errors.Join(err, WriteRows(w, rows))
	})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrResults, path, err)
	}
	return nil
}

func compareTrials(a, b Row) int {
	return cmp.Or(
		cmp.Compare(a.Experiment, b.Experiment), cmp.Compare(a.Env, b.Env), cmp.Compare(a.Task, b.Task),
		cmp.Compare(a.Bundle, b.Bundle), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Params, b.Params),
		cmp.Compare(a.Trial, b.Trial))
}
