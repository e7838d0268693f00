package web

import (
	"math"
	"strconv"
)

// Number is a number of a [View]. The page shows a dash if it is not finite.
type Number float64

// MarshalJSON implements json.Marshaler; JSON has no NaN and no infinities.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 6, 64), nil
}

// About is the constant data of a run.
type About struct {
	Robot       string   `json:"robot"`
	Task        string   `json:"task,omitempty"` // of a simulator
	Strategy    string   `json:"strategy"`
	Program     string   `json:"program"` // its version
	PeriodMS    Number   `json:"period_ms"`
	MaxAgeMS    Number   `json:"max_z_age_ms"`       // an older z halts the robot
	Missing     []string `json:"missing,omitempty"`  // of the requested real-time posture
	Record      bool     `json:"record"`             // labels are written to disk
	RecordView  bool     `json:"record_view"`        // pictures are written to disk
	Source      string   `json:"operator,omitempty"` // the label source of a console that only watches
	Credit      Credit   `json:"credit"`
	Suggestions []string `json:"suggestions,omitempty"` // tasks, each with a rule
	StopEndsRun bool     `json:"stop_ends_run"`         // a stop ends the run; else an operator resets it
}

// Credit is the stretch that a label is about, see controller.credit.
type Credit struct {
	DelayMS    Number `json:"delay_ms"`    // an unasked press is about the time from delay + width...
	WidthMS    Number `json:"width_ms"`    // ...to delay before it
	UntilPress bool   `json:"until_press"` // an answer is about what was seen until the press
	ClipMS     Number `json:"clip_ms"`     // the page repeats so much before and after a question
}

// View is the data of the live view, renewed several times a second
// ([Server.Show]).
type View struct {
	Tick     uint64 `json:"tick"`
	ElapsedS Number `json:"elapsed_s"`
	Mode     string `json:"mode"`            // of the robot: disarmed, starting, armed, resting or stopped
	Waiting  bool   `json:"waiting"`         // the robot starts with the first press, which labels nothing
	Fault    string `json:"fault,omitempty"` // why the robot was halted

	// Pose is the position and the heading of a robot in a square arena: x and y in [-1, 1],
	// cosine, sine. nil: unknown.
	Pose *[4]Number `json:"pose,omitempty"`

	Known     string `json:"known"`      // how well the robot knows the task, in a sentence or two
	KnownPart Number `json:"known_part"` // the filled part of its bar, in [0, 1]
	Learnt    bool   `json:"learnt"`     // the task is learnt
	Keepable  bool   `json:"keepable"`   // the task seems to have changed: a press of kind keep takes that back

	Follows string `json:"follows,omitempty"` // the saved task that the robot follows, in words

	DGap        Number `json:"dgap"`        // of the newest state, nats
	Kappa       Number `json:"kappa"`       // the least D-gap that asks for a label, nats; NaN without a gate
	Information Number `json:"information"` // log det V less that of the prior, nats
	BeliefNorm  Number `json:"belief_norm"` // ‖ẑ‖
	Estimate    Number `json:"estimate"`    // φᵀẑ: the expected reward of this state
	Uncertainty Number `json:"uncertainty"` // √(φᵀV⁻¹φ): its standard deviation, in σ
	Reward      Number `json:"reward"`      // a simulator's; NaN if there is none
	Return      Number `json:"return"`      // of the episode so far: of Reward, or else of Estimate

	Labels    uint64 `json:"labels"` // in the belief of this task
	PerMinute Number `json:"per_minute"`
	Undone    uint64 `json:"undone"`
	Refused   uint64 `json:"refused"`
	Asked     uint64 `json:"asked"`
	Answered  uint64 `json:"answered"`
	Expired   uint64 `json:"expired"`

	LateMS    Number `json:"late_ms"`     // the worst wake-up since the view before
	LateP99MS Number `json:"late_p99_ms"` // of the run
	LateMaxMS Number `json:"late_max_ms"`
	BusyP99MS Number `json:"busy_p99_ms"` // a tick's work
	Skipped   uint64 `json:"skipped"`     // periods
	Dropped   uint64 `json:"dropped"`     // records
	BadObs    uint64 `json:"bad_obs"`
	Limited   uint64 `json:"limited"`
	ZAgeMS    Number `json:"z_age_ms"`
	HasZ      bool   `json:"has_z"`
}

// Level is the severity of an event.
type Level string

// The levels.
const (
	Info  Level = "info"
	Warn  Level = "warn"
	Error Level = "error"
)

// snapshot is the data that the goroutine of the source publishes to the
// browsers, besides the view. A published snapshot never changes.
type snapshot struct {
	request  openRequest
	outcomes []outcome // the newest, oldest first
	events   []event   // the newest, oldest first
	ended    Ending    // no more labels are accepted
}

// Ending is the end of a run.
type Ending struct {
	Why    string // "": the run is not over
	Failed bool   // it is an alarm
	Keep   string // the command that saves the task; "": there is nothing to save
}

const (
	maxOutcomes = 24
	maxEvents   = 12
)

type openRequest struct {
	id      uint64 // 0: none
	at      int64  // when the state was sensed
	asked   int64
	expires int64
	dgap    float64
}

type outcome struct {
	Press  uint64 `json:"press"`
	Status status `json:"status"`
	Label  uint64 `json:"label,omitempty"`
	Text   string `json:"text,omitempty"`
}

// status is the progress of a press.
type status string

const (
	statusSaved   status = "saved"   // the label is on disk and on its way
	statusCounted status = "counted" // it is in the belief
	statusRefused status = "refused" // it does not count
	statusUndone  status = "undone"  // an undo removed it from the belief
)

type event struct {
	at    int64
	level Level
	text  string
}

// with returns a copy of list with v at its end, at most limit long.
func with[T any](list []T, v T, limit int) []T {
	if len(list) >= limit {
		list = list[len(list)-limit+1:]
	}
	fresh := make([]T, len(list), len(list)+1)
	copy(fresh, list)
	return append(fresh, v)
}
