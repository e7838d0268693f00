package controller

import (
	"errors"
	"fmt"
)

// Mode is whether a robot may move.
type Mode uint32

// The modes. A robot starts disarmed.
const (
	Disarmed Mode = iota // at rest, in order: an operator may arm it
	Armed                // actions go to the actuators
	Stopped              // at its failsafe output, by a cause that is latched until Reset
)

var modeNames = [...]string{"disarmed", "armed", "stopped"}

// String names the mode.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint32(m))
}

// Errors of an operator's act that is refused. They change nothing.
var (
	// ErrFaulted: a stopped robot is reset before it is armed.
	ErrFaulted = errors.New("the robot was stopped by a fault: find the cause, then reset")
	// ErrPresent: what would stop the robot is there now.
	ErrPresent = errors.New("what stops the robot is still there: mend it first")
)

// Lifecycle is the state machine of arming and stopping:
//
//	          Arm                    Stop
//	disarmed ─────> armed           any ─────> stopped (latched, first cause)
//	         <─────                 stopped ─────> disarmed
//	          Disarm                         Reset, the cause being gone
//
// Armed is reached by Arm alone, and not from stopped: a reset is no restart.
// It knows no clock, no robot and no operating system: whoever has one of these
// tells it what is present, which is the cause that would stop the robot now.
// The zero value is disarmed.
type Lifecycle struct {
	mode  Mode
	cause Fault // why it is stopped
}

// Mode is the present mode.
func (l *Lifecycle) Mode() Mode { return l.mode }

// Cause is the first cause of the stop that is latched; FaultNone where none is.
func (l *Lifecycle) Cause() Fault { return l.cause }

// Arm is an operator's explicit act. It is refused with ErrFaulted while a stop
// is latched, and with ErrPresent where something is present that would stop
// the robot at once. An armed robot stays as it is.
func (l *Lifecycle) Arm(present Fault) error {
	if l.mode == Stopped {
		return fmt.Errorf("%w (%s)", ErrFaulted, l.cause)
	}
	if present != FaultNone {
		return fmt.Errorf("%w (%s)", ErrPresent, present)
	}
	l.mode = Armed
	return nil
}

// Disarm is an orderly stop. A stop that is latched stays.
func (l *Lifecycle) Disarm() {
	if l.mode == Armed {
		l.mode = Disarmed
	}
}

// Stop latches. The first cause stays the reported one. A stop needs a cause:
// with FaultNone Stop disarms.
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

// Reset is an operator's explicit act: it clears a latched stop into disarmed.
// It is refused with ErrPresent while a cause is present. Where nothing is
// latched there is nothing to clear.
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
