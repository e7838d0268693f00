package taskstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"optibfm/internal/safefile"
	"optibfm/posterior"
)

// ErrDamaged is wrapped by the error for a file that is not a complete task, ErrVersion by that for
// a file that another version of this program wrote.
var (
	ErrDamaged = errors.New("damaged file")
	ErrVersion = errors.New("file of another version of the program")
)

const (
	format    = "optibfm task 2"
	checkLen  = 8         // bytes of the checksum
	maxHeader = 256 << 10 // bytes of the first line
	maxFile   = 81 << 20  // bytes, with a belief of the largest dimension
)

// header is the first line of a file.
type header struct {
	Format string `json:"format"`
	Task
	Belief *beliefHeader `json:"belief,omitempty"`
}

// beliefHeader holds the parts of a belief in a file besides its state.
type beliefHeader struct {
	SavedBelief
	Dim          int     `json:"dim"`
	Nuisance     int     `json:"nuisance,omitempty"`
	Lambda       float64 `json:"lambda"`
	Rho          float64 `json:"rho"`
	ExactRestore bool    `json:"exact_restore,omitempty"`
	MovablePrior bool    `json:"movable_prior,omitempty"`
}

// append appends the bytes of the task's file.
func (t Task) append(dst []byte) ([]byte, error) {
	h := header{Format: format, Task: t}
	var state []float64
	if t.Belief != nil {
		b := t.Belief.Belief
		h.Belief = &beliefHeader{
			*t.Belief, b.Dim(), b.Dim() - b.TaskDim(), b.Lambda(), b.Rho(), b.ExactRestore(), b.MovablePrior(),
		}
		state = make([]float64, posterior.StateLen(b.Dim()))
		b.State(state)
	}
	line, err := json.Marshal(h)
	if err != nil {
		return dst, err
	}
	if len(line) > maxHeader-1 {
		return dst, fmt.Errorf("the header has %d bytes, at most %d", len(line), maxHeader-1)
	}
	start := len(dst)
	dst = append(append(dst, line...), '\n')
	if dst, err = binary.Append(dst, binary.LittleEndian, state); err != nil {
		return dst, err
	}
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:])), nil
}

// Parse reads the bytes of a file. Its errors wrap ErrDamaged or, for a file with a correct
// checksum, ErrVersion.
func Parse(name string, data []byte) (Task, error) {
	t, err := parse(data)
	if err != nil && (!errors.Is(err, ErrVersion) || checkSum(data) != nil) {
		return Task{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	t.Name = name
	return t, err
}

// checkSum checks a file of at least checkLen bytes.
func checkSum(data []byte) error {
	whole := data[:len(data)-checkLen]
	if got, want := xxhash.Sum64(whole), binary.LittleEndian.Uint64(data[len(whole):]); got != want {
		return fmt.Errorf("wrong checksum (%#x, want %#x)", got, want)
	}
	return nil
}

func parse(data []byte) (t Task, err error) {
	line, h, err := parseHeader(data)
	if err == nil {
		err = checkSum(data)
	}
	if err != nil {
		return t, err
	}
	t, body := h.Task, data[line+1:len(data)-checkLen]
	switch {
	case h.Belief != nil:
		t.Belief, err = h.Belief.restore(body)
	case len(body) > 0:
		err = fmt.Errorf("a body of %d bytes without a belief", len(body))
	}
	if err != nil {
		return t, err
	}
	return t, t.check()
}

// parseHeader returns the first line of a file and its length. It checks no checksum.
func parseHeader(data []byte) (line int, h header, err error) {
	line = bytes.IndexByte(data[:min(len(data), maxHeader)], '\n')
	if line < 0 || len(data) < line+1+checkLen {
		return 0, h, fmt.Errorf("incomplete header (%d bytes)", len(data))
	}
	if err := json.Unmarshal(data[:line], &struct {
		Format *string `json:"format"`
	}{&h.Format}); err != nil {
		return 0, h, fmt.Errorf("header: %w", err)
	}
	if h.Format != format {
		return 0, h, fmt.Errorf("header: %w: format %.40q, want %q; use the version that wrote it",
			ErrVersion, h.Format, format)
	}
	if err := json.Unmarshal(data[:line], &h); err != nil {
		return 0, h, fmt.Errorf("header: %w", err)
	}
	return line, h, nil
}

// restore returns the belief with a state.
func (h beliefHeader) restore(body []byte) (*SavedBelief, error) {
	if h.Dim < 1 || h.Dim > posterior.MaxDim || len(body) != 8*posterior.StateLen(h.Dim) {
		return nil, fmt.Errorf("belief: %d bytes for the dimension %d", len(body), h.Dim)
	}
	options := []posterior.Option{posterior.WithNuisance(h.Nuisance)}
	if h.ExactRestore {
		options = append(options, posterior.WithExactRestore())
	}
	if h.MovablePrior {
		options = append(options, posterior.WithMovablePrior())
	}
	belief, err := posterior.New(h.Dim, h.Lambda, h.Rho, options...)
	if err != nil {
		return nil, fmt.Errorf("belief: %w", err)
	}
	state := make([]float64, posterior.StateLen(h.Dim))
	if _, err := binary.Decode(body, binary.LittleEndian, state); err != nil {
		return nil, fmt.Errorf("belief: %w", err)
	}
	if err := belief.Restore(state); err != nil {
		return nil, fmt.Errorf("belief: %w", err)
	}
	h.SavedBelief.Belief = belief
	return &h.SavedBelief, nil
}

// readHead returns a task without its belief. It reads only the first line of the file.
func readHead(name, path string) (t Task, err error) {
	f, size, err := safefile.Open(path)
	if err != nil {
		return t, err
	}
	data := make([]byte, min(size, maxHeader+checkLen))
	_, err = io.ReadFull(f, data)
	if err = errors.Join(err, f.Close()); err != nil {
		return t, err
	}
	_, h, err := parseHeader(data)
	if err != nil {
		return t, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	h.Task.Name = name
	return h.Task, nil
}
