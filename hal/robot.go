package hal

import (
	"errors"
	"time"
)

// ErrHalted is what Act returns after Halt, until Arm.
var ErrHalted = errors.New("hal: the robot is halted: arm it before acting")

// Robot is a body: it senses, acts and stops. Every method is called by one
// goroutine, the control thread, and returns within a bounded time that is
// small against the period.
//
// A robot starts halted. Arm is an operator's explicit act; nothing in a
// reward device can cause it.
type Robot interface {
	// Spec describes the channels. It does not change during a run and
	// callers must not modify the slices in it.
	Spec() Spec

	// Sense fills obs, of length len(Spec().Obs), with the newest sample
	// and returns when it was taken, in CLOCK_MONOTONIC nanoseconds
	// (simulators in lockstep: simulated time). Times never go back, also not
	// at the start of an episode. After an error the content of obs is
	// unspecified and must not be used.
	Sense(obs []float32) (at int64, err error)

	// Act commands the actuators; action has length len(Spec().Action), in
	// the units of the channels. It returns ErrHalted while halted. The
	// slice is not kept.
	Act(action []float32) error

	// Arm ends the halted state. It may take some periods (torque on, a
	// deadman set and read back), but less than the loop's watchdog.
	Arm() error

	// Halt brings the actuators to their failsafe output. It is idempotent,
	// works with the robot half broken, and latches: Act returns ErrHalted
	// until Arm.
	Halt() error
}

// Disarmer is implemented by robots whose actuators have a disarmed output that
// is not the failsafe one: servos that go limp, an ESC without pulses. Disarm is
// an orderly stop, called by the control thread; it is idempotent and latches as
// Halt does: Act returns ErrHalted until Arm. A robot without it is halted
// instead. It never stands in for Halt: what ends in danger ends in Halt.
type Disarmer interface {
	Disarm() error
}

// StopInput is implemented by robots with an input for an emergency stop.
// StopPressed tells what the last Sense found, also where that Sense failed; it
// takes no time. The input is normally closed: one that is open, lost, cannot
// be read or was never read is pressed. It is a way to tell the program, and
// no safety function: the button itself cuts the power of the actuators.
type StopInput interface {
	StopPressed() bool
}

// Backstop is implemented by drivers that have a second path to the failsafe
// output, such as an output-enable line or a connection that can be cut.
// HaltBeside takes it, and is called by another thread while the control thread
// may be stuck inside any other method. It does not wait.
type Backstop interface {
	HaltBeside()
}

// Resetter is implemented by simulators: Reset starts a new episode. The same
// seed gives the same initial state. It neither arms nor halts.
type Resetter interface {
	Reset(seed uint64) error
}

// Rewarder is implemented by simulators: Reward is the task's reward of the
// state that the last Sense returned, which is what a scripted operator looks
// at. ok is false when there is none.
type Rewarder interface {
	Reward() (reward float64, ok bool)
}

// Spec describes a robot's channels.
type Spec struct {
	Name   string        // of the robot, for messages and logs
	Obs    []Channel     // observation, in the model's order
	Action []Channel     // action, in the model's order
	Period time.Duration // nominal control period
}

// Channel is one element of an observation or of an action.
type Channel struct {
	Name string // unique in its list, such as "left_wheel"
	Unit string // SI, such as "m/s"; empty for dimensionless
	// Min and Max bound the values, in Unit. For observations they are
	// plausibility limits: both 0 means none. For actions they are
	// mandatory: Min < Max.
	Min, Max float64
	// MaxRate limits the change of an action in Unit per second; 0 means
	// no limit. Observations ignore it.
	MaxRate float64
	// Failsafe is what Halt commands on an action channel.
	Failsafe float64
	// Disarmed is what Disarm commands on an action channel of a Disarmer. It
	// may be outside of Min and Max, such as an ESC's silence; rate limits
	// start from the limit that is nearer.
	Disarmed float64
}
