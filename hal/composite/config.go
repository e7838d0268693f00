package composite

import (
	"time"

	"optibfm/hal"
)

// Config describes how devices form a robot.
type Config struct {
	Name     string // of the robot
	Period   time.Duration
	Odometry Odometry
	// StopInput is a device's input, above 0.5 while the emergency stop's normally closed circuit
	// is closed. Empty: none.
	StopInput   string
	Observation []Observation
	Action      []Action
}

// Observation is an element of the observation. Its value is
//
//	scale * (the source, in Unit) + offset
//
// A source is DEVICE.INPUT; odometry.SIGNAL, see [Odometry]; or action.NAME,
// the latest command of an action, after all limits.
type Observation struct {
	// Name in the model.
	Name string `yaml:"name"`
	// Unit in the model: SI, or a known one such as deg, rpm or g. Empty: dimensionless; a source
	// with a unit then needs scale.
	Unit string `yaml:"unit"`
	// From is the source.
	From string `yaml:"from"`
	// Scale multiplies. 0: 1.
	Scale float64 `yaml:"scale" rule:"finite"`
	// Offset is added after scale.
	Offset float64 `yaml:"offset" rule:"finite"`
	// Invert changes the sign of the source.
	Invert bool `yaml:"invert"`
	// Min and max limit the plausible values; others are a fault. Both 0: no limits.
	Min float64 `yaml:"min" rule:"finite"`
	// Max is the largest plausible value.
	Max float64 `yaml:"max" rule:"finite"`
}

// The values of Action.Halt.
const (
	HaltHold     = "hold"
	HaltFailsafe = "failsafe"
)

// Action is an element of the action. The output is
//
//	scale * (the value, in the output's unit) + offset
type Action struct {
	// Name in the model.
	Name string `yaml:"name"`
	// Unit in the model. Empty: dimensionless; an output with a unit then needs scale.
	Unit string `yaml:"unit"`
	// To is the output, DEVICE.OUTPUT. Every output of a device has an action.
	To string `yaml:"to"`
	// Scale multiplies. 0: 1.
	Scale float64 `yaml:"scale" rule:"finite"`
	// Offset is added after scale; it has the output's unit.
	Offset float64 `yaml:"offset" rule:"finite"`
	// Invert changes the sign of the value, not of the offset.
	Invert bool `yaml:"invert"`
	// Min and max are the limits of the value. The policy's -1 and 1 are mapped to them.
	Min float64 `yaml:"min" rule:"finite"`
	// Max is the upper limit.
	Max float64 `yaml:"max" rule:"finite"`
	// MaxRate limits the change, in the unit per second. 0: no limit.
	MaxRate float64 `yaml:"max_rate" rule:"[0, inf)"`
	// Measured is the source that measures the position which the action commands: where motion
	// begins when the robot is armed. Empty: the input that the output's driver names, as those of
	// servos and motors do.
	Measured string `yaml:"measured"`
	// MeasuredScale multiplies the source, in the action's unit. 0: 1.
	MeasuredScale float64 `yaml:"measured_scale" rule:"finite"`
	// MeasuredOffset is added after measured_scale.
	MeasuredOffset float64 `yaml:"measured_offset" rule:"finite"`
	// Default is a typical value, within the limits. It is the failsafe value of an action that a
	// stop holds.
	Default float64 `yaml:"default" rule:"finite"`
	// Halt is the reaction to a stop. hold: the actuator stays where it is; its driver must be able
	// to hold it, as those of servos and CAN motors that follow positions. failsafe: Halt commands
	// failsafe. Empty: hold where the driver can, else failsafe.
	Halt string `yaml:"halt" rule:"hold|failsafe|"`
	// Failsafe is the value that Halt commands, within the limits. It needs halt: failsafe where
	// the driver can hold.
	Failsafe float64 `yaml:"failsafe" rule:"finite"`
	// Disarmed is the value that is commanded when the robot is opened and disarmed, and before it
	// is armed, within the limits. A measured action stays where it is instead.
	Disarmed float64 `yaml:"disarmed" rule:"finite"`
}

// Odometry computes the position of a robot with two driven wheels (or tracks) from the speeds of
// the wheels. Its signals can be sources of an observation:
//
//	odometry.x, odometry.y                        m, from the start
//	odometry.heading                              rad in [-π, π], counter-clockwise
//	odometry.heading_cos, odometry.heading_sin
//	odometry.speed                                m/s, forward
//	odometry.yaw_rate                             rad/s, counter-clockwise
//
// Errors accumulate: wheels slip, and the commanded speed (left: action.NAME) is not the actual
// one.
type Odometry struct {
	// Left is the source of the left wheel's speed. Empty: no odometry.
	Left string `yaml:"left"`
	// Right is the source of the right wheel's speed.
	Right string `yaml:"right"`
	// Scale is the speed in m/s of a unit of left and right: the wheel's radius for rad/s, the top
	// speed for actions from -1 to 1. 0: they are speeds.
	Scale float64 `yaml:"scale" rule:"finite"`
	// TrackM is the distance between the wheels, which relates the difference of their speeds to
	// the turn rate. It is not needed with yaw_rate.
	TrackM float64 `yaml:"track_m" rule:"[0, inf)"`
	// YawRate is the source of the turn rate, such as imu.gyro_z. Empty: from the wheels.
	YawRate string `yaml:"yaw_rate"`
	// Heading is the source of the heading, such as imu.heading. Empty: the integral of the turn
	// rate.
	Heading string `yaml:"heading"`
	// StartXM is the x position at the start.
	StartXM float64 `yaml:"start_x_m" rule:"finite"`
	// StartYM is the y position at the start.
	StartYM float64 `yaml:"start_y_m" rule:"finite"`
}

// Part describes a device by its configuration.
type Part struct {
	Name            string
	Inputs, Outputs []hal.Signal
}

// Device is a device of a robot.
type Device struct {
	Name string // unique; not action or odometry
	hal.Device
	// Stale is the largest age of a sample. 0: three periods.
	Stale time.Duration
	// FrozenTicks is the number of consecutive new samples with the same bits in all inputs after
	// which the device is frozen. 0: never, for sensors that may not change, such as encoders.
	FrozenTicks int
}
