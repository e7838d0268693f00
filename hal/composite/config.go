package composite

import (
	"time"

	"optibfm/hal"
)

// Config says how devices become a robot.
type Config struct {
	Name        string        // of the robot
	Period      time.Duration // of control
	History     int           // ticks in an observation; 0 is 1
	Odometry    Odometry
	StopInput   string // a device's input, above 0.5 while the emergency stop's normally closed circuit is closed; "": none
	Observation []Observation
	Action      []Action
}

// Observation is an element of the observation. Its value is
//
//	scale * (what the source gives, in Unit) + offset
//
// A source is DEVICE.INPUT; odometry.SIGNAL, see [Odometry]; or action.NAME,
// the previous action.
type Observation struct {
	// Name as the model has it.
	Name string `yaml:"name"`
	// Unit as the model has it: SI, or one that is known by name, such as deg,
	// rpm or g. Empty: dimensionless; a source with a unit then needs a scale.
	Unit string `yaml:"unit"`
	// From is the source.
	From string `yaml:"from"`
	// PreviousAction, instead of from, is the name of an action: its value as
	// it was commanded last, after all limits.
	PreviousAction string `yaml:"previous_action"`
	// Scale multiplies. 0: 1.
	Scale float64 `yaml:"scale"`
	// Offset is added after scale.
	Offset float64 `yaml:"offset"`
	// Invert changes the sign of what the source gives.
	Invert bool `yaml:"invert"`
	// Min and max are the plausible values; others are a fault. Both 0: all.
	Min float64 `yaml:"min"`
	// Max is the largest plausible value.
	Max float64 `yaml:"max"`
}

// Action is an element of the action. What the output gets is
//
//	scale * (the value, in the output's unit) + offset
type Action struct {
	// Name as the model has it.
	Name string `yaml:"name"`
	// Unit as the model has it. Empty: dimensionless; an output with a unit
	// then needs a scale.
	Unit string `yaml:"unit"`
	// To is the output, DEVICE.OUTPUT. Every output of a device has an action.
	To string `yaml:"to"`
	// Scale multiplies. 0: 1.
	Scale float64 `yaml:"scale"`
	// Offset is added after scale; it has the output's unit.
	Offset float64 `yaml:"offset"`
	// Invert changes the sign of the value, not of the offset.
	Invert bool `yaml:"invert"`
	// Min and max are the limits of the value; the policy's -1 and 1 are
	// mapped to them.
	Min float64 `yaml:"min"`
	// Max is the upper limit.
	Max float64 `yaml:"max"`
	// MaxRate limits the change, in the unit per second. 0: no limit.
	MaxRate float64 `yaml:"max_rate"`
	// Default is what previous_action tells from arming until the first
	// action, within the limits.
	Default float64 `yaml:"default"`
	// Failsafe is the value that Halt commands, within the limits.
	Failsafe float64 `yaml:"failsafe"`
	// Disarmed is the value that is commanded when the robot is opened,
	// disarmed and about to be armed, within the limits.
	Disarmed float64 `yaml:"disarmed"`
}

// Odometry reckons where a robot on two driven wheels (or tracks) is, from the
// speeds of its wheels. Its signals can be sources of an observation:
//
//	odometry.x, odometry.y                        m, from the start
//	odometry.heading                              rad in [-π, π], counter-clockwise
//	odometry.heading_cos, odometry.heading_sin
//	odometry.speed                                m/s, forward
//	odometry.yaw_rate                             rad/s, counter-clockwise
//
// Errors add up: wheels slip, and the commanded speed (left: action.NAME) is
// not the one that is driven.
type Odometry struct {
	// Left is the source of the left wheel's speed. Empty: no odometry.
	Left string `yaml:"left"`
	// Right is the source of the right wheel's speed.
	Right string `yaml:"right"`
	// Scale is the speed in m/s of a unit of left and right: the wheel's
	// radius where they are rad/s, the top speed where they are actions from
	// -1 to 1. 0: they are speeds.
	Scale float64 `yaml:"scale"`
	// TrackM is the distance between the wheels, which turns the difference of
	// their speeds into a turn rate. It is not needed with yaw_rate.
	TrackM float64 `yaml:"track_m"`
	// YawRate is the source of the turn rate, such as imu.gyro_z. Empty: from
	// the wheels.
	YawRate string `yaml:"yaw_rate"`
	// Heading is the source of the heading, such as imu.heading. Empty: the
	// sum of the turn rate.
	Heading string `yaml:"heading"`
	// StartXM is where the robot stands at the start.
	StartXM float64 `yaml:"start_x_m"`
	// StartYM is where the robot stands at the start.
	StartYM float64 `yaml:"start_y_m"`
}

// Part is what a device has, as far as it is known without the device.
type Part struct {
	Name            string
	Inputs, Outputs []hal.Signal
}

// Device is a device of a robot.
type Device struct {
	Name string // unique; not action or odometry
	hal.Device
	// Stale is the age at which a sample is refused. 0: three periods.
	Stale time.Duration
	// FrozenTicks is the number of new samples in a row with the same bits in
	// all inputs at which the device is taken for frozen. 0: never; for what
	// may stand still, such as encoders.
	FrozenTicks int
}
