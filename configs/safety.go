package configs

import (
	"fmt"
	"reflect"
	"time"

	"optibfm/controller"
	"optibfm/internal/keys"
	"optibfm/internal/registry"
	"optibfm/rtloop"
)

// The values of safety.arm.
const (
	ArmAutomatic = "automatic" // once, at the first plan without a fault
	ArmOperator  = "operator"  // by a person: `optibfm arm` or the robot's remote control
)

// The values of safety.after_stop.
const (
	AfterStopEnd  = "end"  // the run ends
	AfterStopHold = "hold" // the loop continues with the robot halted, until it is reset and armed
)

// Safety sets arming, stop conditions and the reaction to a stop.
type Safety struct {
	// Arm is automatic or operator. automatic arms once, at the first plan without a fault; a person
	// arms after a refusal, a disarm or a stop. operator: a person arms (`optibfm arm` or a remote
	// control). With loop.posture strict, automatic needs a simulator or a shadow run.
	Arm string `yaml:"arm" rule:"automatic|operator"`
	// AfterStop is the reaction to a stop. end: the run ends. hold: the loop continues with the
	// robot halted; it senses, learns and records. Then a person may reset and arm the robot.
	AfterStop string `yaml:"after_stop" rule:"end|hold"`
	// Socket is the Unix socket for `optibfm arm`, disarm, stop, reset and
	// status. Empty: none.
	Socket string `yaml:"socket"`
	// Group is a group of users who may use the socket, in addition to root
	// and the user of the control process. Empty: none.
	Group string `yaml:"group"`
	// ExternalDeadman describes the device that stops the robot when this
	// computer fails, such as "relay K2, 200 ms, on the OE line of the PWM
	// board". With loop.posture strict, a robot is armed only if its driver has
	// a deadman or this is not empty.
	ExternalDeadman string `yaml:"external_deadman"`
	// MaxSampleAgeMS is the age of a sample that stops the robot; 0: no limit.
	MaxSampleAgeMS float64 `yaml:"max_sample_age_ms" rule:"[0, 60000]"`
	// FrozenTicks is the number of ticks with bit-identical observations that
	// stops the robot; 0: no limit.
	FrozenTicks uint64 `yaml:"frozen_ticks" rule:"[0, 1e9]"`
	// FrozenChannels are the observation channels that frozen_ticks checks one
	// by one. Empty: it checks only the whole observation.
	FrozenChannels []string `yaml:"frozen_channels"`
	// Limits are the ranges of observation channels, such as a tilt:
	// {channel: pitch, min: -0.5, max: 0.5}. A value outside stops the robot
	// at once.
	Limits []controller.StopLimit `yaml:"limits"`
	// Start is the motion from the measured position to a start pose after arming. Without a pose,
	// the robot follows the policy at once.
	Start controller.Motion `yaml:"start"`
	// Rest is the motion to a rest pose when an operator disarms the robot. Then the robot goes
	// limp or, if it cannot, gets its disarmed output. Without a pose it gets its disarmed output
	// at once. A stop does not move the robot to the rest pose.
	Rest controller.Motion `yaml:"rest"`
}

// Attended reports whether a person arms the robot, at the start or after a stop.
func (s Safety) Attended() bool { return s.Arm == ArmOperator || s.AfterStop == AfterStopHold }

// Rules returns the safety rules of the controller. simulatedOrShadow: the run moves no actuators,
// so the robot needs no deadman.
func (f File) Rules(simulatedOrShadow bool) controller.Safety {
	s := f.Safety
	rules := controller.Safety{
		Limits: s.Limits, FrozenTicks: s.FrozenTicks, FrozenChannels: s.FrozenChannels,
		MaxSampleAge:   milliseconds(s.MaxSampleAgeMS),
		RequireDeadman: f.Loop.Posture == rtloop.Strict && !simulatedOrShadow && s.ExternalDeadman == "",
		Start:          s.Start, Rest: s.Rest, Simulated: simulatedOrShadow,
	}
	rules.MaxPositionAge = positionPeriods * f.Loop.Period()
	if rules.MaxSampleAge > 0 {
		// Arm runs before the tick takes its sample: the newest one may be a period older.
		rules.MaxPositionAge = rules.MaxSampleAge + f.Loop.Period()
	}
	if f.SimulatedTime() { // the time of a sample counts from the start of the simulation
		rules.MaxSampleAge, rules.MaxPositionAge = 0, 0
	}
	return rules
}

// positionPeriods is the largest age of a measured position at which Arm begins a motion, in
// periods. It applies if safety.max_sample_age_ms is 0.
const positionPeriods = 5

// SimulatedTime reports whether the time of a sample is not CLOCK_MONOTONIC.
func (f File) SimulatedTime() bool {
	return f.Run.Lockstep || registry.HasOwnTime(f.Robot.Chosen())
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// robotKeys returns the keys that decide whether the robot and its time are simulated.
func robotKeys(f File) []string {
	if f.Robot.HasKey("mode") {
		return []string{"robot.driver", "robot." + f.Robot.Driver + ".mode"}
	}
	return []string{"robot.driver"}
}

// robotMode returns the driver or its mode as "key: value", for an error.
func robotMode(f File) string {
	if !f.Robot.HasKey("mode") {
		return "robot.driver: " + f.Robot.Driver
	}
	mode, _ := keys.Find(reflect.ValueOf(f.Robot.Chosen()), "mode")
	return fmt.Sprintf("robot.%s.mode: %v", f.Robot.Driver, mode.Value)
}

// maxSocketPath is the size of sun_path in sockaddr_un, less its final zero.
const maxSocketPath = 107

func (c *checker) checkSafety(f File) {
	s := f.Safety
	if len(s.Socket) > maxSocketPath {
		c.add("safety.socket", " is too long (%d bytes); use at most %d bytes", len(s.Socket), maxSocketPath)
	}
	if s.Arm == ArmOperator && s.Socket == "" {
		c.add("safety.socket", " is empty, but safety.arm is operator; give the path for `optibfm arm`")
	}
	if s.AfterStop == AfterStopHold && s.Socket == "" {
		c.add("safety.socket", " is empty, but safety.after_stop is hold; give the path for `optibfm reset`")
	}
	if len(s.FrozenChannels) > 0 && s.FrozenTicks == 0 {
		c.add("safety.frozen_channels", " is given, but safety.frozen_ticks is 0; set safety.frozen_ticks")
	}
	for _, l := range s.Limits {
		if l.Channel == "" || l.Min >= l.Max {
			c.add("safety.limits", ": found {channel: %q, min: %g, max: %g}; "+
				"name an observation channel, with min below max", l.Channel, l.Min, l.Max)
		}
	}
}

// checkSafetyConflicts checks safety against the other sections.
func (c *checker) checkSafetyConflicts(f File) {
	c.addConflict(f.Safety.MaxSampleAgeMS > 0 && registry.HasOwnTime(f.Robot.Chosen()),
		append([]string{"safety.max_sample_age_ms"}, robotKeys(f)...),
		" is given, but the robot's time is simulated (%s); set it to 0, or robot.%s.mode to free", robotMode(f),
		f.Robot.Driver)
	c.addConflict(f.Run.Lockstep && f.Safety.Arm == ArmOperator, []string{"safety.arm", "run.lockstep"},
		" is operator, but run.lockstep does not wait for a person; use automatic")
	c.addConflict(f.Run.Lockstep && f.Safety.AfterStop == AfterStopHold, []string{"safety.after_stop", "run.lockstep"},
		" is hold, but run.lockstep does not wait for a person; use end")
}
