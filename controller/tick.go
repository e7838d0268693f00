package controller

import (
	"errors"
	"fmt"
	"unsafe"

	"optibfm/rewardsrc"
)

// Tick is the record of one control period. It is filled from left to right
// by Agent.Step and is the same record that the log stores, the screen shows
// and replay compares. Its memory may lie in a ring that is shared with
// another process: Header points into it, the slices are views of it. Step
// decides in memory of its own and writes the record last, so nothing that is
// written there from elsewhere can reach the actuators.
type Tick struct {
	*Header
	Obs    []float32 // observation as sensed, [O]; not valid with FlagBadObs
	Phi    []float64 // features φ(s) of Obs, [d]
	Z      []float64 // task embedding that chose the action, [d]
	Action []float32 // what was sent to the actuators, or would have been were the robot armed, [A]
}

// MaxLabels is the number of labels that one tick can apply; what does not
// fit waits for the next tick.
const MaxLabels = 8

// Header is the part of a Tick that has a fixed size. It holds no pointers:
// its memory layout is part of the shared memory's version (LayoutVersion).
type Header struct {
	Index   uint64 // periods since the start of the run; skipped periods count
	Elapsed uint64 // periods since the previous tick: 1 + skipped ones; 0 for the first

	// Times are CLOCK_MONOTONIC nanoseconds; in lockstep, simulated time.
	Deadline int64 // when the tick was due
	Wake     int64 // when the control thread woke for it
	SenseAt  int64 // when the observation was taken
	Done     int64 // when the action was out and the tick complete

	Episode uint32 // 0 for robots without episodes
	Step    uint32 // steps taken in the episode; its return is the sum of Reward over Step >= 1

	Flags Flags
	Fault Fault // why the robot is stopped: the first cause, latched until a reset; else FaultNone

	Reward  float64 // the simulator's, valid with FlagReward
	NormSq  float64 // ‖φ‖²_{V⁻¹} before this tick's labels
	DGap    float64 // log(1 + w NormSq), nats; the gate compares NormSq, this is for people
	Kappa   float64 // κ in this tick, nats: a label was worth a request from this D-gap on
	LogDet  float64 // log det V after this tick's labels
	Request uint64  // ID of the request that is open after this tick, 0 for none
	Hash    uint64  // posterior.Belief.Hash after this tick's labels

	PlanTick      uint64  // the tick whose state and belief Z was planned for
	PlanConfirmed uint64  // the newest tick at which the planner was content with Z; its distance to Index is z's age
	PlanScore     float64 // the score of Z where the strategy has one, else 0

	Labels    [MaxLabels]AppliedLabel
	NumLabels uint64 // how many of Labels are valid
}

// AppliedLabel says what a label did to the belief.
type AppliedLabel struct {
	ID         uint64  // of the label
	Request    uint64  // that it answered, 0 for none
	From, To   uint64  // ticks (Index) whose features were credited, inclusive
	About      uint64  // the tick that sets the label's age
	Undoes     uint64  // ID of the label that an Undo took back
	Value      float64 // the reward
	Confidence float64 // of the label, in (0, 1]
	// Share is the part of its weight that Config.Robust left to the label, in
	// (0, 1]. It is 0 for anything but an applied value.
	Share   float64
	Weight  float64 // with which φ̄φ̄ᵀ entered V, or left it for an Undo: share · confidence · ρ^age / σ²
	Kind    rewardsrc.Kind
	Outcome Outcome
	_       [6]byte
}

// FullShare is the share from which a label counts as undiminished: it is
// displayed as 1.00.
const FullShare = 0.995

// Downweighted reports whether an applied label entered the belief with less
// than its weight because it contradicted the belief.
func (a *AppliedLabel) Downweighted() bool { return a.Share > 0 && a.Share < FullShare }

// Outcome says whether a label counted, and if not, why.
type Outcome uint8

// The outcomes of a label.
const (
	Applied        Outcome = iota + 1 // entered the belief, or an undo left it
	ClosedRequest                     // "can't tell": the request was closed, the belief is unchanged
	TooOld                            // refused: the features of that moment are not held (any more), or weigh nothing by now
	UnknownRequest                    // refused: no such request, or one long gone
	NothingToUndo                     // refused: no such label, or it no longer counts
	BadLabel                          // refused: a reward that is not finite or beyond ±1e9, a weight outside (0, 1], an unknown kind
	Duplicate                         // refused: the request was answered before, or a label of this ID came before
	RobotStopped                      // refused: about a moment at which the robot was stopped
)

// String names the outcome in words for people.
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case ClosedRequest:
		return "closed the request"
	case TooOld:
		return "too old"
	case UnknownRequest:
		return "unknown request"
	case NothingToUndo:
		return "nothing to undo"
	case BadLabel:
		return "bad label"
	case Duplicate:
		return "duplicate"
	case RobotStopped:
		return "the robot was stopped"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Flags are facts about a tick.
type Flags uint32

// The flags of a tick.
const (
	FlagArmed         Flags = 1 << iota // the robot was armed when the tick began: time counted for forgetting, and but for FlagEpisodeEnd and FlagStopped the action went to the actuators
	FlagEpisodeStart                    // the first tick of an episode
	FlagReward                          // Reward is valid
	FlagGateOpen                        // the D-gap was at least κ
	FlagAsked                           // a request was opened in this tick
	FlagRequestClosed                   // a request was answered or expired in this tick
	FlagReplanned                       // Z is a new plan
	FlagFallbackZ                       // no plan yet, or ‖z‖ < 1e-9: a seeded direction stands in
	FlagBadObs                          // no good observation or no features of it: Phi is zero and the last good action was repeated
	FlagBadAction                       // the policy's action failed the guard
	FlagLimited                         // a value or rate limit changed the action
	FlagEpisodeEnd                      // the state after an episode's last step: rewarded and labelled, not acted on
	FlagUnreachable                     // the operator could not be reached, so that nothing was asked
	FlagStopped                         // a stop is latched, by Fault; with FlagArmed: since this tick
)

// Has reports whether all of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Mode is whether the robot might move when the tick ended.
func (t *Tick) Mode() Mode {
	switch {
	case t.Flags.Has(FlagStopped):
		return Stopped
	case t.Flags.Has(FlagArmed):
		return Armed
	}
	return Disarmed
}

// Fault says why the robot was stopped. Its numbers are in logs.
type Fault uint32

// The faults.
const (
	FaultNone        Fault = iota
	FaultSense             // Sense failed too often in a row
	FaultObs               // too many bad observations in a row
	FaultModel             // the model failed too often in a row
	FaultAct               // Act failed
	FaultStalePlan         // z was older than its limit
	FaultHost              // the host process fell silent or sent garbage, or the planner failed in lockstep
	FaultOverrun           // too many missed deadlines in a row
	FaultBelief            // the belief lost its positive definiteness
	FaultStuck             // the control thread hung and the watchdog halted the robot
	FaultPanic             // a panic
	FaultEStop             // the emergency stop was pressed, or its line was lost
	FaultLimit             // an observation left the range that Safety.Limits gives it
	FaultStaleSample       // the newest sample was too old
	FaultFrozen            // a sensor gave the same value for too long
	FaultOperator          // an operator said stop
)

var faultNames = [...]string{
	"none", "sensing failed", "bad observations", "model failed", "actuation failed",
	"plan too old", "host failed", "deadlines missed", "belief broken",
	"control thread stuck", "panic",
	"emergency stop", "beyond a limit", "sample too old", "sensor frozen", "operator's stop",
}

// String names the fault in words for people.
func (f Fault) String() string {
	if int(f) < len(faultNames) {
		return faultNames[f]
	}
	return fmt.Sprintf("Fault(%d)", uint32(f))
}

// LayoutVersion changes with every change to the memory layout of a Tick, a
// State or a Plan.
const LayoutVersion = 3

// Shape is what the size of a Tick depends on.
type Shape struct {
	Obs    int // O
	Action int // A
	Latent int // d
}

// ErrRegion is returned by Bind, BindState and BindPlan for memory that does not fit.
var ErrRegion = errors.New("controller: memory region does not fit")

const headerSize = int(unsafe.Sizeof(Header{}))

// TickSize returns the bytes of a Tick of this shape: the header, then Phi, Z
// (float64), Obs, Action (float32), rounded up to 64 bytes.
func TickSize(s Shape) int {
	n := headerSize + 16*s.Latent + 4*(s.Obs+s.Action)
	return (n + 63) &^ 63
}

// NewTick returns a Tick in memory of its own.
func NewTick(s Shape) *Tick {
	t, err := Bind(aligned(TickSize(s)), s)
	if err != nil {
		panic(err) // the region was made to measure
	}
	return &t
}

// Bind returns a Tick whose memory is region, which must hold at least
// TickSize(s) bytes and be aligned to 8. Nothing is copied; the Tick is valid
// while region is.
func Bind(region []byte, s Shape) (Tick, error) {
	base, err := regionStart(region, TickSize(s), s)
	if err != nil {
		return Tick{}, err
	}
	phi := unsafe.Add(base, headerSize)
	z := unsafe.Add(phi, 8*s.Latent)
	obs := unsafe.Add(z, 8*s.Latent)
	action := unsafe.Add(obs, 4*s.Obs)
	return Tick{
		Header: (*Header)(base),
		Phi:    unsafe.Slice((*float64)(phi), s.Latent),
		Z:      unsafe.Slice((*float64)(z), s.Latent),
		Obs:    unsafe.Slice((*float32)(obs), s.Obs),
		Action: unsafe.Slice((*float32)(action), s.Action),
	}, nil
}

// CopyFrom copies all of src, which must have the same shape, into t's memory.
func (t *Tick) CopyFrom(src *Tick) {
	*t.Header = *src.Header
	copy(t.Obs, src.Obs)
	copy(t.Phi, src.Phi)
	copy(t.Z, src.Z)
	copy(t.Action, src.Action)
}
