package hal

import (
	"errors"
	"math"
	"time"
)

// ErrHalted is the error of Act after Halt, until Arm.
var ErrHalted = errors.New("hal: the robot is halted: arm it before acting")

// Robot senses, acts and stops. One goroutine, the control thread, calls every
// method. Each returns within a bounded time that is small against the period.
//
// A robot starts halted. Arm is an explicit act of the operator; no reward
// device can cause it. Arm makes measured outputs effective where the
// actuators are, so that it moves nothing.
type Robot interface {
	// Spec describes the channels. It does not change during a run and
	// callers must not modify the slices in it.
	Spec() Spec

	// Sense fills obs, of length len(Spec().Obs), with the newest sample
	// and returns when it was taken, in CLOCK_MONOTONIC nanoseconds
	// (simulators in lockstep: simulated time). Times never decrease, not even
	// at the start of an episode. After an error the content of obs is
	// unspecified.
	Sense(obs []float32) (at int64, err error)

	// Act commands the actuators; action has length len(Spec().Action), in
	// the units of the channels. It returns ErrHalted while halted. It does
	// not keep the slice.
	Act(action []float32) error

	// Arm ends the halted state. It may take some periods (torque on, set a
	// deadman and read it back), but less than the loop's watchdog.
	Arm() error

	// Halt sets the actuators to their failsafe output. It is idempotent,
	// works on a partly broken robot, and latches: Act returns ErrHalted until
	// Arm.
	Halt() error
}

// Disarmer is implemented by robots with a disarmed output that differs from the
// failsafe one: servos without torque, an ESC without pulses. Disarm is an
// orderly stop, and Arm begins with the disarmed output. The control thread calls it. It is
// idempotent and latches like Halt: Act returns ErrHalted until Arm. A robot without it is halted
// instead. Disarm never replaces Halt in a dangerous situation.
type Disarmer interface {
	Disarm() error
}

// Limper is implemented by robots whose actuators can go limp: servos without torque, motors
// without current. Limp is the end of an orderly stop in a rest pose. The control thread calls it;
// it latches like Halt. A robot without it is disarmed instead.
type Limper interface {
	Limp() error
}

// Meter is implemented by robots that measure their actuators beside the observation. A robot whose
// observation has the measured values names them in [Channel.Measured] instead.
type Meter interface {
	// Positions fills dst, [len(Spec().Action)], with the values that the actuators had at the last
	// Sense, in the units of the action channels. It writes NaN for a channel that is not measured
	// or not known. It takes no time and allocates nothing.
	Positions(dst []float32)
}

// StopInput is implemented by robots and devices with an input for an emergency stop.
// StopPressed returns the finding of the last Sense, even of a failed one; it
// takes no time. The input is normally closed: an open, lost, unreadable or
// never read input counts as pressed. It informs the program and is not a safety
// function: the button itself cuts the power of the actuators.
type StopInput interface {
	StopPressed() bool
}

// ArmInput is implemented by robots and devices with an input by which an operator arms the robot,
// such as a button of a remote control that is held. ArmRequested reports once that the robot
// should be armed, as of the last Sense; it takes no time. The control process then arms as for
// `optibfm arm`.
type ArmInput interface {
	ArmRequested() bool
}

// Warner is implemented by robots and devices that report what may soon be a fault, such as a low
// battery. Warning returns it, nil for none. Any goroutine may call it.
type Warner interface {
	Warning() error
}

// LabelInput is implemented by robots and devices with buttons for labels. Presses moves the
// presses up to the last Sense to dst and returns their number; it takes no time. The control
// process passes them to the operator's device in the host process, and does nothing else with
// them.
type LabelInput interface {
	Presses(dst []Press) int
}

// Press is a press of a button of the robot. It is plain data: it travels through shared memory.
type Press struct {
	At     int64  // CLOCK_MONOTONIC ns
	Button uint64 // the letter on the button, such as 'A'
}

// Backstop is implemented by drivers with a second path to the failsafe output,
// such as an output-enable line or a connection that can be cut. HaltBeside uses
// that path. Another thread calls it while the control thread may be stuck in any
// other method. It does not wait.
type Backstop interface {
	HaltBeside()
}

// Viewer is implemented by drivers with pictures of the robot. View returns where
// the console receives them, a value of operator.view.url; "" for none.
type Viewer interface {
	View() string
}

// SlowResetter is implemented by simulators whose Reset may take longer than a period.
type SlowResetter interface {
	ResetTimeout() time.Duration
}

// Resetter is implemented by simulators, never by physical robots: one that can be
// reset is armed without an operator and has deadlines of a minute. Reset starts a new
// episode. The same seed gives the same initial state. It neither arms nor halts.
type Resetter interface {
	Reset(seed uint64) error
}

// Rewarder is implemented by simulators: Reward is the task's reward of the
// state that the last Sense returned, for a scripted operator. ok is false when
// there is none.
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
	// Failsafe is the output of Halt on an action channel.
	Failsafe float64
	// Disarmed is the output of Disarm on an action channel of a Disarmer. It
	// may be outside of Min and Max, such as no pulses for an ESC; rate limits
	// then start from the nearer limit.
	Disarmed float64
	// Measured is the channel that measures the actuator of an action channel.
	Measured Measured `json:",omitzero"`
}

// Measured maps an observation to an action channel that commands a position: the actuator is at
// Scale · observation + Offset, in the channel's unit. The zero value means that nothing measures
// it.
type Measured struct {
	Obs    string  // name of the observation channel; of a [Meter], the name of its sensor
	Scale  float64 // 0: 1
	Offset float64
}

// IsPosition reports whether an action channel commands a position: it is measured, or its unit is
// one of a position. A position that begins elsewhere than the actuator is makes it jump; a speed,
// a torque or a duty cycle does not.
func (c *Channel) IsPosition() bool { return c.Measured.Obs != "" || isPositionUnit(c.Unit) }

// Nearest returns the command of an action channel that is nearest to a measured position x. ok is
// false if x is farther outside the limits than MaxRate allows in a period: that command is a jump.
func (c *Channel) Nearest(x float64, period time.Duration) (command float64, ok bool) {
	const rounding = 1e-6 // of a float32, as a share of the range
	command = min(max(x, c.Min), c.Max)
	return command, math.Abs(x-command) <= max(c.MaxRate*period.Seconds(), rounding*(c.Max-c.Min))
}

func isPositionUnit(unit string) bool {
	switch unit {
	case "rad", "mrad", "deg", "rev", "m", "cm", "mm":
		return true
	}
	return false
}
