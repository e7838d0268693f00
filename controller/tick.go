package controller

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// Tick is the record of one control period. Agent.Step fills it; the log stores
// it, the screen shows it and replay compares it. Its memory may lie in a ring
// shared with another process: Header points into it, the slices are views of
// it. Step works in private memory and writes the record last, so no foreign
// write to it can reach the actuators.
type Tick struct {
	*Header
	Obs    []float32 // observation as sensed or assembled, [O]; not valid with FlagBadObs
	Phi    []float64 // features φ(s) of Obs, [d]
	Z      []float64 // task embedding that chose the action, [d]; 0 in a tick without a valid plan
	Action []float32 // sent to the actuators, or computed if the robot is not armed, [A]
}

// MaxLabels is the number of labels that one tick can apply. Further labels wait
// for the next tick.
const MaxLabels = 8

// Header is the part of a Tick that has a fixed size. It has no pointers.
// LayoutVersion is the version of its memory layout.
type Header struct {
	Index   uint64 // periods since the start of the run; skipped periods count
	Elapsed uint64 // periods since the previous tick: 1 + skipped ones; 0 for the first

	// Times are CLOCK_MONOTONIC nanoseconds; in lockstep, simulated time.
	Deadline int64 // when the tick was due
	Wake     int64 // when the control thread woke for it
	SenseAt  int64 // when the observation was taken
	Done     int64 // when the tick was complete, after the action

	Episode uint32 // 0 for robots without episodes
	Step    uint32 // steps taken in the episode; its return is the sum of Reward over Step >= 1

	Flags Flags
	Fault Fault // first cause of the latched stop, or FaultNone

	Reward  float64 // the simulator's, valid with FlagReward
	NormSq  float64 // ‖φ‖²_{V⁻¹} before this tick's labels; see Learner.Gain
	DGap    float64 // log(1 + w NormSq), nats; for display: the gate compares NormSq
	Kappa   float64 // κ in this tick, nats: the smallest D-gap of a request
	LogDet  float64 // log det V after this tick's labels
	Sigma   float64 // σ of a label's noise after this tick's labels, in their unit
	Zero    float64 // mean of the operator's zero after this tick's labels, in their unit; 0 without an offset
	Request uint64  // ID of the request that is open after this tick, or 0
	Hash    uint64  // posterior.Belief.Hash after this tick's labels
	Counted uint64  // labels in the belief after this tick's labels

	PlanTick      uint64  // the tick of the state and belief that Z was planned for
	PlanConfirmed uint64  // the newest tick for which the planner kept Z; Index minus this is the age of z
	PlanScore     float64 // the score of Z, or 0 if the strategy has none

	Labels    [MaxLabels]AppliedLabel
	NumLabels uint64 // number of valid Labels
	Revised   Revision

	Known Interval // Plan.Known

	// After this tick's labels.
	Predicted Predicted
	Reaction  ReactionState
	Evidence  Evidence
}

// AppliedLabel is the effect of a label on the belief.
type AppliedLabel struct {
	ID         uint64  // of the label
	Request    uint64  // that it answered, or 0
	From, To   uint64  // credited ticks (Index), inclusive
	About      uint64  // the tick that sets the label's age
	At         int64   // the moment of the press, ns, if the credited ticks were estimated; else 0
	Asked      uint64  // the tick of the request, or NoTick; 0 if the credited ticks were not estimated
	Undoes     uint64  // ID of the label that an Undo removed
	Value      float64 // the reward, as the operator gave it
	Confidence float64 // of the label, in (0, 1]
	Weight     float64 // with which φ̄φ̄ᵀ entered V, or left it for an Undo: confidence · ρ^age / σ²
	Kind       rewardsrc.Kind
	Outcome    Outcome
	_          [6]byte
}

// Outcome states whether a label counted, or why not.
type Outcome uint8

// The outcomes of a label.
const (
	Applied        Outcome = iota + 1 // entered the belief, or an undo left it
	ClosedRequest                     // "can't tell": the request was closed, the belief is unchanged
	TooOld                            // refused: the features are not in the history, or the weight is 0
	UnknownRequest                    // refused: no such request, or a forgotten one
	NothingToUndo                     // refused: no such label, or it is not in the belief
	BadLabel                          // refused: reward not finite or beyond ±1e9, weight outside (0, 1], unknown kind
	Duplicate                         // refused: the request is answered, or the ID is known
	RobotStopped                      // refused: about a moment at which the robot was stopped, starting or resting
)

// String describes the outcome.
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
		return "nothing to undo or keep"
	case BadLabel:
		return "bad label"
	case Duplicate:
		return "duplicate"
	case RobotStopped:
		return "the robot was stopped or starting"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Flags is a set of facts about a tick.
type Flags uint32

// The flags of a tick.
const (
	// FlagArmed: the robot was armed when the tick began. The period counts for
	// forgetting, and the action went to the actuators unless FlagEpisodeEnd or
	// FlagStopped is set.
	FlagArmed         Flags = 1 << iota
	FlagEpisodeStart        // the first tick of an episode
	FlagReward              // Reward is valid
	FlagGateOpen            // the D-gap was at least κ
	FlagAsked               // a request was opened in this tick
	FlagRequestClosed       // a request was answered or expired in this tick
	FlagReplanned           // Z is a new plan
	FlagFallbackZ           // no plan yet, or ‖z‖ < 1e-9: Z is a seeded direction
	FlagBadObs              // no valid observation or features: Phi is zero and the last good action was repeated
	FlagBadAction           // the policy's action failed the guard
	FlagLimited             // a value or rate limit changed the action
	FlagEpisodeEnd          // the state after an episode's last step: labelled, but without an action
	FlagUnreachable         // the operator could not be reached: no request was opened
	FlagStopped             // a stop is latched, see Fault; with FlagArmed: since this tick
	FlagExplore             // Config.Explore changed Z
	_                       // unused
	FlagLearnt              // the task is learnt, see Proficiency: from the next tick on the robot does not ask
	FlagSwitched            // Agent.SwitchTask replaced the belief before this tick
	FlagHeld                // an earlier request is open and Config.Gate.Pause holds the robot: its state teaches nothing
	FlagUncounted           // with FlagAsked: no label has counted yet, so the request does not count for κ
	FlagStarting            // the robot moved to its start pose, or from there to the policy: its state teaches nothing
	FlagResting             // the robot moved to its rest pose: its state teaches nothing
	FlagChanged             // the task has changed, see Evidence: the next tick calls Learner.Relearn
	FlagKeepable            // a rewardsrc.Keep would restore the task before the newest change
)

// Has reports whether all of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Moving returns the periods since the previous tick that count for what the robot does: Elapsed,
// or 0 if it was held.
func (t *Tick) Moving() uint64 {
	if t.Flags.Has(FlagHeld) {
		return 0
	}
	return t.Elapsed
}

// Excluded reports whether the robot was stopped, starting or resting when the state was sensed.
// Labels about such a moment do not count.
func (t *Tick) Excluded() bool {
	return t.Flags.Has(FlagStopped) && !t.Flags.Has(FlagArmed) || t.ToPose()
}

// ToPose reports whether the robot moved to its start or rest pose.
func (t *Tick) ToPose() bool { return t.Flags&(FlagStarting|FlagResting) != 0 }

// Teaches reports whether the learner stores the state for labels.
func (t *Tick) Teaches() bool { return !t.Flags.Has(FlagHeld) && !t.ToPose() }

// Taught reports whether a label's value entered the belief in this tick.
func (t *Tick) Taught() bool {
	for i := range min(t.NumLabels, MaxLabels) {
		if l := &t.Labels[i]; l.Outcome == Applied && l.Kind.Teaches() {
			return true
		}
	}
	return false
}

// Mode returns the mode of the robot in the tick, or Stopped from the tick of a stop on.
func (t *Tick) Mode() Mode {
	switch {
	case t.Flags.Has(FlagStopped):
		return Stopped
	case t.Flags.Has(FlagArmed):
		return Armed
	case t.Flags.Has(FlagStarting):
		return Starting
	case t.Flags.Has(FlagResting):
		return Resting
	}
	return Disarmed
}

// Fault is the cause of a stop. Its numbers are in logs.
type Fault uint32

// The faults.
const (
	FaultNone        Fault = iota
	FaultSense             // Sense failed too often in a row
	FaultObs               // too many bad observations in a row
	FaultModel             // the model failed too often in a row
	FaultAct               // Act failed
	FaultStalePlan         // z was older than its limit
	FaultHost              // the host process was silent or sent invalid data, or the planner failed in lockstep
	FaultOverrun           // too many missed deadlines in a row
	FaultBelief            // the precision lost its positive definiteness
	FaultStuck             // the control thread hung and the watchdog halted the robot
	FaultPanic             // a panic
	FaultEStop             // the emergency stop was pressed, or its line was lost
	FaultLimit             // an observation left its range in Safety.Limits
	FaultStaleSample       // the newest sample was too old
	FaultFrozen            // a sensor value did not change for too long
	FaultOperator          // an operator stopped the robot
	FaultFollow            // an actuator did not follow the motion to the start or rest pose
)

var faultNames = [...]string{
	"none", "sensing failed", "bad observations", "model failed", "actuation failed",
	"plan too old", "host failed", "deadlines missed", "belief broken",
	"control thread stuck", "panic",
	"emergency stop", "beyond a limit", "sample too old", "sensor frozen", "operator's stop",
	"actuator does not follow",
}

// String describes the fault.
func (f Fault) String() string {
	if int(f) < len(faultNames) {
		return faultNames[f]
	}
	return fmt.Sprintf("Fault(%d)", uint32(f))
}

// FaultNamed returns the fault that String describes so, FaultNone for none.
func FaultNamed(name string) Fault { return Fault(max(0, slices.Index(faultNames[:], name))) }

// LayoutVersion is the version of the memory layout of Tick, State and Plan.
const LayoutVersion = 12

// Shape determines the size of a Tick, a State and a Plan.
type Shape struct {
	Obs      int // O
	Action   int // A
	Latent   int // d
	Nuisance int // dimensions of the belief that are not of the task
}

// StateLen returns the length of the state of the belief.
func (s Shape) StateLen() int { return posterior.StateLen(s.Latent + s.Nuisance) }

// ErrRegion is wrapped by the errors of Bind, BindState and BindPlan.
var ErrRegion = errors.New("controller: memory region does not fit")

const headerSize = int(unsafe.Sizeof(Header{}))

// TickSize returns the size in bytes of a Tick of this shape: the header, Phi, Z
// (float64), Obs, Action (float32), rounded up to a multiple of 64.
func TickSize(s Shape) int {
	n := headerSize + 16*s.Latent + 4*(s.Obs+s.Action)
	return (n + 63) &^ 63
}

// NewTick allocates a Tick.
func NewTick(s Shape) *Tick {
	t, err := Bind(aligned(TickSize(s)), s)
	if err != nil {
		panic(err) // the region has the right size
	}
	return &t
}

// Bind returns a Tick in the memory of region, which must have at least
// TickSize(s) bytes and be aligned to 8. The Tick is valid as long as region is.
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
