package taskstore

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"optibfm/controller"
	"optibfm/internal/plaintext"
	"optibfm/posterior"
)

// The names of the tasks that a run writes itself.
const (
	Last     = "last"     // the newest belief: the next run starts from it
	Previous = "previous" // the last one with labels before a switch of the task, a new task or a fresh run
)

// Task is a task embedding with its origin.
type Task struct {
	Name      string       `json:"-"`
	Note      string       `json:"note,omitempty"`
	ModelHash string       `json:"model_hash"`  // of the model whose z this is
	Z         []float64    `json:"z,omitempty"` // [d], finite, not all 0; nil: the belief has no direction yet
	Origin    Origin       `json:"origin"`
	Belief    *SavedBelief `json:"-"`                  // nil: a z without labels
	Exported  *Exported    `json:"exported,omitempty"` // of a file on its way to another robot
}

// Exported holds the parts of an exported file besides the task.
type Exported struct {
	Name        string    `json:"name"`
	Observation []Channel `json:"observation"` // of the model
	Action      []Channel `json:"action"`
}

// Channel is the name and unit of a channel.
type Channel struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
}

// Origin is how a task was made: from the belief of a run or at the end of a log, or from a part of
// a log.
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

// SavedBelief is a belief with the settings of its controller.
type SavedBelief struct {
	Belief      *posterior.Belief     `json:"-"`               // with its λ, its ρ and the age of its labels
	Basis       string                `json:"basis,omitempty"` // controller.Basis.Hash; "" for coordinates of z
	Offset      float64               `json:"offset,omitempty"`
	Sigma       float64               `json:"sigma"`                 // σ: a label has the weight 1/σ²
	Estimate    bool                  `json:"estimate,omitempty"`    // Sigma is the first guess: a label has the weight 1
	LearntScale controller.LabelRange `json:"learnt_scale,omitzero"` // see controller.Config.LearntScale
	Noise       controller.NoiseState `json:"noise"`
	SavedAt     time.Time             `json:"saved_at"`           // wall clock
	Sessions    []Session             `json:"sessions,omitempty"` // whose labels it has; nil: unknown
}

// Labels returns the number of labels in the belief.
func (b SavedBelief) Labels() uint64 { return b.Noise.Labels }

// Unlabelled reports whether a belief has no label, so that nothing is lost with it.
func (t Task) Unlabelled() bool { return t.Belief != nil && t.Belief.Belief.Weight() == 0 }

const maxNote = 1000 // bytes

// CheckName refuses a name that is not safe as a file name and as an argument of a command.
func CheckName(name string) error {
	if name == "" || plaintext.FileName(name) != name || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") {
		return fmt.Errorf("not a name of a task (%.120q); use up to 100 letters, digits, '.', '_' and '-', "+
			"and begin with a letter or digit", name)
	}
	return nil
}

// check reports the reason why a task cannot be kept. It does not check the name.
func (t Task) check() error {
	if len(t.Note) > maxNote || !utf8.ValidString(t.Note) {
		return fmt.Errorf("note: %d bytes; use up to %d bytes of text", len(t.Note), maxNote)
	}
	if t.Belief != nil {
		if err := checkSessions(t.Belief.Sessions); err != nil {
			return fmt.Errorf("belief: %w", err)
		}
		if len(t.Z) == 0 {
			return nil
		}
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
		return errNoDirection
	}
	return nil
}

var errNoDirection = errors.New("z is 0: the labels or states give no direction; " +
	"give labels other than 0, or other states")
