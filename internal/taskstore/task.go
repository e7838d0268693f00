package taskstore

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"optibfm/internal/beliefstore"
	"optibfm/internal/plaintext"
	"optibfm/internal/sealed"
	"optibfm/posterior"
)

// Task is a task embedding with its origin.
type Task struct {
	Name      string              `json:"-"`
	Note      string              `json:"note,omitempty"`
	ModelHash string              `json:"model_hash"` // of the model whose z this is
	Z         []float64           `json:"z"`          // [d], finite, not all 0
	Origin    Origin              `json:"origin"`
	Belief    *beliefstore.Record `json:"-"` // nil: a z without labels
}

// Origin is how a task was made: from the belief in a folder or at the end of a log, or from a part of a log.
type Origin struct {
	At      time.Time `json:"at"` // wall clock
	Program string    `json:"program"`
	Robot   string    `json:"robot"`

	StateDir string `json:"state_dir,omitempty"` // the folder of the belief

	Log    string  `json:"log,omitempty"` // the log's path
	FromS  float64 `json:"from_s,omitempty"`
	ToS    float64 `json:"to_s,omitempty"`   // s since the first tick of the log, inclusive
	States int     `json:"states,omitempty"` // whose features were averaged

	Afterwards int `json:"labels_afterwards,omitempty"` // labels given to the log afterwards
}

// header is the first line of a file.
type header struct {
	Format string `json:"format"`
	Task
}

const (
	format  = "optibfm task 1"
	maxNote = 1000 // bytes
)

// CheckName refuses a name that is not safe as a file name and as an argument of a command.
func CheckName(name string) error {
	if name == "" || plaintext.FileName(name) != name || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") {
		return fmt.Errorf("not a name of a task (%.120q); use up to 100 letters, digits, '.', '_' and '-', "+
			"and begin with a letter or digit", name)
	}
	return nil
}

// check reports why a task cannot be kept. It does not check the name.
func (t Task) check() error {
	if len(t.Note) > maxNote || !utf8.ValidString(t.Note) {
		return fmt.Errorf("note: %d bytes; use up to %d bytes of text", len(t.Note), maxNote)
	}
	if d := len(t.Z); d < 1 || d > posterior.MaxDim {
		return fmt.Errorf("z has %d numbers, want 1 to %d", d, posterior.MaxDim)
	}
	zero := true
	for i, v := range t.Z {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("element %d of z is not finite (%g)", i, v)
		}
		zero = zero && v == 0
	}
	if zero {
		return errors.New("z is 0: the labels or states give no direction")
	}
	if b := t.Belief; b != nil && b.ModelHash != t.ModelHash {
		return fmt.Errorf("the belief belongs to another model (%s, not %s)",
			plaintext.ShortHash(b.ModelHash), plaintext.ShortHash(t.ModelHash))
	}
	return nil
}

// appendTo appends the bytes of the task's file.
func (t Task) appendTo(dst []byte) ([]byte, error) {
	if t.Belief == nil {
		return sealed.Append(dst, header{format, t}, nil)
	}
	return sealed.Append(dst, header{format, t}, t.Belief.AppendBinary)
}

// Parse reads the bytes of the file of a task. Its errors wrap sealed.ErrDamaged.
func Parse(name string, data []byte) (Task, error) {
	var h header
	body, err := sealed.Parse(data, &h, format)
	if err != nil {
		return Task{}, err
	}
	if len(body) > 0 {
		record, err := beliefstore.Parse(body)
		if err != nil {
			return Task{}, fmt.Errorf("belief: %w", err)
		}
		h.Belief = &record
	}
	if err := h.check(); err != nil {
		return Task{}, fmt.Errorf("%w: %w", sealed.ErrDamaged, err)
	}
	h.Task.Name = name
	return h.Task, nil
}
