package controller

import (
	"errors"
	"fmt"
)

// Mode states whether a robot may move.
type Mode uint32

// The modes. A robot starts disarmed.
const (
	Disarmed Mode = iota // does not move; an operator may arm it
	Armed                // actions go to the actuators
	Stopped              // at its failsafe output; the cause latches until Reset
	Starting             // moves to its start pose, then to the policy
	Resting              // moves to its rest pose, then disarms
)

var modeNames = [...]string{"disarmed", "armed", "stopped", "starting", "resting"}

// Moves reports whether commands go to the actuators.
func (m Mode) Moves() bool { return m == Armed || m == Starting || m == Resting }

// String returns the name of the mode.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint32(m))
}

// Errors of refused acts of the operator. The mode does not change.
var (
	// ErrFaulted means that a stopped robot must be reset before it is armed.
	ErrFaulted = errors.New("a fault stopped the robot; find the cause, then reset")
	// ErrPresent means that a cause for a stop is present.
	ErrPresent = errors.New("a cause for a stop is still present; remove it first")
)

// Lifecycle is the state machine of arming and stopping:
//
//	          Arm            Started         Stop
//	disarmed ─────> starting ───────> armed   any ─────> stopped (latched, first cause)
//	         <───── resting  <───────         stopped ─────> disarmed
//	         Disarm           Rest                     Reset, if no cause is present
//
// Starting and resting are optional. Only Arm leads to armed, and not from
// stopped: a reset is not a restart. The caller passes the present fault, if
// any. The zero value is disarmed.
type Lifecycle struct {
	mode  Mode
	cause Fault // of the latched stop
}

// Mode returns the present mode.
func (l *Lifecycle) Mode() Mode { return l.mode }

// Cause returns the first cause of the latched stop, or FaultNone.
func (l *Lifecycle) Cause() Fault { return l.cause }

// Arm is an operator's explicit act. It leads to next, Armed or Starting. It fails
// with ErrFaulted while a stop is latched, and with ErrPresent while a fault is
// present. Arm does not change a robot that moves.
func (l *Lifecycle) Arm(present Fault, next Mode) error {
	if l.mode == Stopped {
		return fmt.Errorf("%w (%s)", ErrFaulted, l.cause)
	}
	if present != FaultNone {
		return fmt.Errorf("%w (%s)", ErrPresent, present)
	}
	if !l.mode.Moves() {
		l.mode = next
	}
	return nil
}

// Started ends the motion to the start pose: the robot follows the policy.
func (l *Lifecycle) Started() {
	if l.mode == Starting {
		l.mode = Armed
	}
}

// Rest begins the motion to the rest pose.
func (l *Lifecycle) Rest() {
	if l.mode.Moves() {
		l.mode = Resting
	}
}

// Disarm is an orderly stop. A latched stop remains.
func (l *Lifecycle) Disarm() {
	if l.mode.Moves() {
		l.mode = Disarmed
	}
}

// Stop latches a stop. The first cause remains the reported one. With FaultNone
// Stop disarms.
func (l *Lifecycle) Stop(cause Fault) {
	if cause == FaultNone {
		l.Disarm()
		return
	}
	if l.mode == Stopped {
		return
	}
	l.mode, l.cause = Stopped, cause
}

// Reset is an operator's explicit act. It changes stopped to disarmed, and no
// other mode. It fails with ErrPresent while a fault is present.
func (l *Lifecycle) Reset(present Fault) error {
	if l.mode != Stopped {
		return nil
	}
	if present != FaultNone {
		return fmt.Errorf("%w (%s)", ErrPresent, present)
	}
	l.mode, l.cause = Disarmed, FaultNone
	return nil
}
