package configs

import (
	"math"
	"time"

	"optibfm/controller"
	"optibfm/hal/bridge"
	"optibfm/rtloop"
)

// The values of safety.arm.
const (
	ArmAutomatic = "automatic" // as soon as there is a plan
	ArmOperator  = "operator"  // when a person says `optibfm arm`
)

// The values of safety.after_stop.
const (
	AfterStopEnd  = "end"  // the run ends
	AfterStopHold = "hold" // the loop goes on, the robot halted, until it is reset and armed
)

// Safety says who arms the robot, what stops it and what happens then.
type Safety struct {
	// Arm is automatic (as soon as there is a plan) or operator (when a
	// person says `optibfm arm`). With loop.posture strict, automatic is for
	// simulators only.
	Arm string `yaml:"arm"`
	// AfterStop is what follows a stop: end (the run ends) or hold (the loop
	// goes on, the robot halted: it senses, learns and records until it is
	// reset and armed).
	AfterStop string `yaml:"after_stop"`
	// Socket is the Unix socket at which `optibfm arm`, disarm, stop, reset
	// and status reach the robot. Empty: none.
	Socket string `yaml:"socket"`
	// Group is the group whose members may use the socket, besides root and
	// the user that the program runs as. Empty: nobody else.
	Group string `yaml:"group"`
	// ExternalDeadman says in words what stops the robot when this computer
	// dies, where its driver has no deadman of its own, such as "relay K2,
	// 200 ms, on the PWM board's OE line". With loop.posture strict a robot
	// that has neither is not armed.
	ExternalDeadman string `yaml:"external_deadman"`
	// MaxSampleAgeMS is the age of a sample that stops the robot; 0: no limit.
	MaxSampleAgeMS float64 `yaml:"max_sample_age_ms"`
	// FrozenTicks is for how many ticks what is sensed may stand still, to
	// the last bit, before the robot is stopped; 0: for ever.
	FrozenTicks uint64 `yaml:"frozen_ticks"`
	// FrozenChannels are the observation channels that frozen_ticks looks at
	// one by one. Empty: only at all of them together.
	FrozenChannels []string `yaml:"frozen_channels"`
	// Limits are ranges that observation channels may not leave, such as a
	// tilt: {channel: pitch, min: -0.5, max: 0.5}. A value outside stops the
	// robot at once.
	Limits []controller.StopLimit `yaml:"limits"`
}

// Attended reports whether a person is to arm the robot, at the start or after
// a stop.
func (s Safety) Attended() bool { return s.Arm == ArmOperator || s.AfterStop == AfterStopHold }

// Rules are what the controller is told of f.Safety. What moves nothing, such as
// a simulator, needs no deadman.
func (f File) Rules(harmless bool) controller.Safety {
	s := f.Safety
	rules := controller.Safety{
		Limits: s.Limits, FrozenTicks: s.FrozenTicks, FrozenChannels: s.FrozenChannels,
		MaxSampleAge:   time.Duration(s.MaxSampleAgeMS * float64(time.Millisecond)),
		RequireDeadman: f.Loop.Posture == rtloop.Strict && !harmless && s.ExternalDeadman == "",
	}
	if f.simulatedTime() { // its samples are as old as the run
		rules.MaxSampleAge = 0
	}
	return rules
}

// simulatedTime reports whether a sample's time is not CLOCK_MONOTONIC's.
func (f File) simulatedTime() bool {
	return f.Run.Lockstep || f.Robot.Driver == DriverBridge && f.Robot.Bridge.Mode != bridge.Free
}

// checkSafety checks what is this package's own.
func (c *checker) checkSafety(f File) {
	s := f.Safety
	c.within("safety.max_sample_age_ms", s.MaxSampleAgeMS, 0, 60_000)
	c.within("safety.frozen_ticks", float64(s.FrozenTicks), 0, 1e9)
	if len(s.Socket) > maxSocketPath {
		c.add("safety.socket", " is too long (%d bytes): a socket's path has %d at most", len(s.Socket), maxSocketPath)
	}
	if s.Arm == ArmOperator && s.Socket == "" {
		c.add("safety.socket", " is empty, but safety.arm is operator: give the path at which `optibfm arm` reaches the robot")
	}
	if s.AfterStop == AfterStopHold && s.Socket == "" {
		c.add("safety.socket", " is empty, but safety.after_stop is hold: give the path at which `optibfm reset` reaches the robot")
	}
	if len(s.FrozenChannels) > 0 && s.FrozenTicks == 0 {
		c.add("safety.frozen_channels", " is given, but safety.frozen_ticks is 0: say for how long they may stand still")
	}
	for _, l := range s.Limits {
		if l.Channel == "" || !(l.Min < l.Max) || math.IsInf(l.Min, 0) || math.IsInf(l.Max, 0) {
			c.add("safety.limits", ": found {channel: %q, min: %g, max: %g}: name an observation channel and give finite numbers, min below max", l.Channel, l.Min, l.Max)
		}
	}
}

// maxSocketPath is what the kernel's sockaddr_un holds, less its last zero.
const maxSocketPath = 107

// checkSafetyTogether checks what safety and the rest ask of each other.
func (c *checker) checkSafetyTogether(f File) {
	c.conflict(f.Safety.MaxSampleAgeMS > 0 && f.Robot.Driver == DriverBridge && f.Robot.Bridge.Mode != bridge.Free,
		[]string{"safety.max_sample_age_ms", "robot.driver", "robot.bridge.mode"},
		" is given, but the robot's time is simulated (robot.bridge.mode: lockstep): set it to 0, or the mode to free")
	c.conflict(f.Run.Lockstep && f.Safety.Arm == ArmOperator, []string{"safety.arm", "run.lockstep"},
		" is operator, but run.lockstep does not wait for a person: use automatic")
	c.conflict(f.Run.Lockstep && f.Safety.AfterStop == AfterStopHold, []string{"safety.after_stop", "run.lockstep"},
		" is hold, but run.lockstep does not wait for a person: use end")
}
