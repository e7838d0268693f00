package unitree

import (
	"errors"
	"fmt"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/hal/unitree/body"
	"optibfm/internal/keys"
)

// Config describes a robot. A list of numbers for joints has one element for all joints, or one for
// each in the order of the robot's messages.
type Config struct {
	// Model is go2 or g1 (29 joints).
	Model string `yaml:"model" rule:"go2|g1|"`
	// Interface is the network interface to the robot, such as eth0. lo is for
	// simulators.
	Interface string `yaml:"interface"`
	// PhysicalRobot must be true for every interface but lo: it states that a
	// robot hangs or stands behind it.
	PhysicalRobot bool `yaml:"physical_robot"`
	// Domain is the DDS domain: 0 on robots.
	Domain int `yaml:"domain" rule:"[0, 232]"`
	// Library is the file or folder of libddsc 0.10. Empty: that of
	// OPTIBFM_LIBDDSC, then what the system's loader finds.
	Library string `yaml:"library"`
	// Writer is the program optibfm-unitree. Empty: beside this program, then
	// in PATH.
	Writer string `yaml:"writer"`
	// Kp and Kd are the gains of the motors: N·m/rad, N·m·s/rad. They belong to
	// the model bundle.
	Kp []float64 `yaml:"kp" rule:"(0, 500]"`
	Kd []float64 `yaml:"kd" rule:"[0, 50]"`
	// DampingKd is the gain that damps the motors after a stop, with kp 0:
	// N·m·s/rad.
	DampingKd []float64 `yaml:"damping_kd" rule:"(0, 50]"`
	// Channels is absolute (positions and goals in rad) or relative (positions in
	// rad from the pose, goals from -1 to 1 times action_scale from it). It belongs
	// to the model bundle, as pose and action_scale do.
	Channels string `yaml:"channels" rule:"absolute|relative"`
	// Pose is the middle of the goals, rad. Empty: zeros.
	Pose []float64 `yaml:"pose" rule:"[-pi, pi]"`
	// ActionScale is the largest distance of goals from the pose, rad: the policy's actions
	// from -1 to 1 are goals in this range. Empty: the range of each joint.
	ActionScale []float64 `yaml:"action_scale" rule:"(0, 10]"`
	// MaxRate limits the speed of the goal of a joint, rad/s.
	MaxRate []float64 `yaml:"max_rate" rule:"(0, 50]"`
	// MaxTorque limits what a command may ask of a motor, kp Δq + kd Δq̇, N·m.
	// Empty: the limits of the motors.
	MaxTorque []float64 `yaml:"max_torque" rule:"(0, 200]"`
	// DeadmanMS is the silence of the control process after which the writer
	// damps the motors.
	DeadmanMS float64 `yaml:"deadman_ms" rule:"[40, 2000]"`
	// StandbyMS is the silence of the writer after which the standby writer damps
	// the motors, and that of the standby writer after which the robot does not
	// arm. The death of a process is found at once.
	StandbyMS float64 `yaml:"standby_ms" rule:"[10, 2000]"`
	// StandbyLateMS is the silence of the standby writer after which the writer
	// damps the motors: nothing could replace it. At least standby_ms.
	StandbyLateMS float64 `yaml:"standby_late_ms" rule:"[10, 2000]"`
	// StaleMS is the age of a state that stops the robot: at most 100 for a physical
	// robot.
	StaleMS float64 `yaml:"stale_ms" rule:"[6, 2000]"`
	// ModeMachine is the number of the G1's variant that its states must have.
	// 0: any, the first one counts.
	ModeMachine int `yaml:"mode_machine" rule:"[0, 255]"`
	// OtherWriters is refuse (another publisher of rt/lowcmd stops the robot) or
	// silent (only one that sends).
	OtherWriters string `yaml:"other_writers" rule:"refuse|silent"`
	// BodyEstimates adds readings that no sensor measures: base_velocity_* and
	// base_height of a Go2, body_* of a G1 (BFM-Zero's privileged_state). They are
	// estimated from joints, IMU and feet; see docs/estimator.md.
	BodyEstimates bool `yaml:"body_estimates"`
	// FootForce is the reading of a Go2's foot_force at which a foot carries the
	// robot, for body_estimates. At a third of it the foot counts as in the air: a
	// third must exceed the readings of feet in the air.
	FootForce float64 `yaml:"foot_force" rule:"[1, 30000]"`
	// Battery has the thresholds of the Go2's state of charge.
	Battery Battery `yaml:"battery"`
	// Temperature has the thresholds of the motors.
	Temperature Temperature `yaml:"temperature"`
	// MaxTiltDeg is the angle of the trunk or pelvis to the vertical beyond which
	// the robot has fallen. 0: none.
	MaxTiltDeg float64 `yaml:"max_tilt_deg" rule:"[0, 180]"`
	// Remote is the robot's remote control.
	Remote Remote `yaml:"remote"`
	// SimulatorQuirks accepts states whose crc and tick are 0, as unitree_mujoco
	// sends them. Only for lo.
	SimulatorQuirks bool `yaml:"simulator_quirks"`
	// RealTimePriority is the SCHED_FIFO priority of the writers' threads. 0: the
	// ordinary scheduler.
	RealTimePriority int `yaml:"fifo_priority" rule:"[0, 98]"`
}

// Battery has thresholds in percent. 0: none.
type Battery struct {
	// WarnPercent is the charge below which the program warns.
	WarnPercent float64 `yaml:"warn_percent" rule:"[0, 100]"`
	// RefusePercent is the charge below which the robot does not arm.
	RefusePercent float64 `yaml:"refuse_percent" rule:"[0, 100]"`
	// StopPercent is the charge below which an armed robot stops.
	StopPercent float64 `yaml:"stop_percent" rule:"[0, 100]"`
}

// Temperature has thresholds in °C. 0: none.
type Temperature struct {
	// WarnC is the temperature above which the program warns.
	WarnC float64 `yaml:"warn_c" rule:"[0, 150]"`
	// RefuseC is the temperature above which the robot does not arm.
	RefuseC float64 `yaml:"refuse_c" rule:"[0, 150]"`
	// StopC is the temperature above which an armed robot stops.
	StopC float64 `yaml:"stop_c" rule:"[0, 150]"`
}

// Remote describes what the remote control does. A combination is buttons with plus signs, such as
// L2+B.
type Remote struct {
	// Use is required (without the remote the robot does not arm, and an
	// armed one stops) or
	// optional.
	Use string `yaml:"use" rule:"required|optional"`
	// Stop are combinations, each of which stops the robot.
	Stop []string `yaml:"stop"`
	// Arm is the combination that arms the robot when it is held for a second.
	// Empty: none.
	Arm string `yaml:"arm"`
}

// The values of Remote.Use and Config.OtherWriters.
const (
	Required = "required"
	Optional = "optional"
	Refuse   = "refuse"
	Silent   = "silent"
)

// The values of Config.Channels.
const (
	Absolute = "absolute"
	Relative = "relative"
)

// Loopback is the interface of simulators.
const Loopback = "lo"

// DefaultConfig has no model and no gains.
func DefaultConfig() Config {
	return Config{
		Channels: Absolute, OtherWriters: Refuse,
		DeadmanMS: 60, StandbyMS: 40, StandbyLateMS: 300, StaleMS: 40,
		MaxTiltDeg: 60, RealTimePriority: 85, FootForce: 30,
		Battery:     Battery{WarnPercent: 30, RefusePercent: 20, StopPercent: 10},
		Temperature: Temperature{WarnC: 65, RefuseC: 70, StopC: 85},
		Remote:      Remote{Use: Required, Stop: []string{"L2+B"}, Arm: "L1+start"},
	}
}

// Validate returns an error for each invalid setting, "unitree: KEY ...", or only one for an
// unknown model.
func (c Config) Validate() error {
	joints := Joints(c.Model)
	if joints == nil {
		return fmt.Errorf("unitree: model: unknown (%q); set it to %s or %s", c.Model, Go2, G1)
	}
	errs := []error{keys.Check("unitree", c), c.checkInterface(), c.Remote.validate()}
	for _, l := range c.lists() {
		errs = append(errs, l.check(len(joints)))
	}
	if most := 100.0; c.PhysicalRobot && c.DeadmanMS+c.StandbyMS > most {
		errs = append(errs, fmt.Errorf("unitree: deadman_ms: %g, and standby_ms: %g, are more than %g ms together; "+
			"lower one of them", c.DeadmanMS, c.StandbyMS, most))
	}
	if c.StandbyLateMS < c.StandbyMS {
		errs = append(errs, fmt.Errorf("unitree: standby_late_ms: %g, but standby_ms is %g; raise it",
			c.StandbyLateMS, c.StandbyMS))
	}
	if most := 100.0; c.PhysicalRobot && c.StaleMS > most {
		errs = append(errs, fmt.Errorf("unitree: stale_ms: %g, but a robot sends a state every 2 ms; set it to %g or less",
			c.StaleMS, most))
	}
	if c.Channels == Relative && len(c.ActionScale) == 0 {
		errs = append(errs, errors.New("unitree: action_scale: empty, but channels is relative; give the scale of the model"))
	}
	if c.Model == Go2 && c.ModeMachine != 0 {
		errs = append(errs, fmt.Errorf("unitree: mode_machine: %d, but a Go2 has none; remove it", c.ModeMachine))
	}
	errs = append(errs, ordered("battery", -1, c.Battery.WarnPercent, c.Battery.RefusePercent, c.Battery.StopPercent),
		ordered("temperature", 1, c.Temperature.WarnC, c.Temperature.RefuseC, c.Temperature.StopC))
	return errors.Join(errs...)
}

func (c Config) checkInterface() error {
	switch {
	case c.Interface == "":
		return errors.New("unitree: interface: empty; set it to the network interface of the robot's cable, see `ip link`")
	case c.Interface != Loopback && !c.PhysicalRobot:
		return fmt.Errorf("unitree: physical_robot: false, but %s may lead to a robot: set it to true if the robot hangs "+
			"or stands free of people, or interface to lo for a simulator", c.Interface)
	case c.Interface == Loopback && c.PhysicalRobot:
		return errors.New("unitree: physical_robot: true, but no robot is behind lo; set interface to the robot's")
	case c.Interface != Loopback && c.SimulatorQuirks:
		return errors.New("unitree: simulator_quirks: true, but a robot has checksums and ticks; remove it")
	}
	return nil
}

// ordered checks thresholds that become more serious in the direction of sign. 0 is none.
func ordered(key string, sign float64, thresholds ...float64) error {
	last := math.Inf(-1)
	for _, t := range thresholds {
		if t == 0 {
			continue
		}
		if sign*t < last {
			return fmt.Errorf("unitree: %s: %g is less serious than the one before; order them: warn, refuse, stop", key, t)
		}
		last = sign * t
	}
	return nil
}

// list is a list of numbers for joints.
type list struct {
	key    string
	values []float64
	needed bool
}

func (c Config) lists() []list {
	return []list{
		{"kp", c.Kp, true}, {"kd", c.Kd, true}, {"damping_kd", c.DampingKd, true}, {"pose", c.Pose, false},
		{"action_scale", c.ActionScale, false}, {"max_rate", c.MaxRate, true}, {"max_torque", c.MaxTorque, false},
	}
}

// check returns an error if the list has neither one number nor one for each joint.
func (l list) check(joints int) error {
	n := len(l.values)
	switch {
	case n == 0 && l.needed:
		return fmt.Errorf("unitree: %s: empty; give one number for all joints, or %d", l.key, joints)
	case n > 1 && n != joints:
		return fmt.Errorf("unitree: %s: %d numbers; give one for all joints, or %d", l.key, n, joints)
	}
	return nil
}

// each returns a list with one number for each of n joints.
func each(values []float64, n int, otherwise float64) []float64 {
	all := make([]float64, n)
	for i := range all {
		switch len(values) {
		case 0:
			all[i] = otherwise
		case 1:
			all[i] = values[0]
		default:
			all[i] = values[i]
		}
	}
	return all
}

// Each returns a list of a configuration with one number for each of n joints: 0 for an empty list.
func Each(values []float64, n int) []float64 { return each(values, n, 0) }

func ms(v float64) time.Duration { return time.Duration(math.Round(v * float64(time.Millisecond))) }

// mapping converts between the units of the channels and those of the robot, for each joint.
type mapping struct {
	joints    []Joint
	origin    []float64 // of readings and goals, rad
	scale     []float64 // rad for one unit of a goal
	low, high []float64 // of goals, in their unit
	unit      string    // of goals
}

func (c Config) mapping() mapping {
	m := mapping{joints: Joints(c.Model), unit: "rad"}
	n := len(m.joints)
	m.origin, m.scale = make([]float64, n), each(nil, n, 1)
	m.low, m.high = each(nil, n, -1), each(nil, n, 1)
	pose, scale := each(c.Pose, n, 0), each(c.ActionScale, n, 0)
	if c.Channels == Relative {
		m.origin, m.scale, m.unit = pose, scale, ""
		return m
	}
	for i, j := range m.joints {
		m.low[i], m.high[i] = pose[i]-scale[i], pose[i]+scale[i]
		if scale[i] == 0 {
			m.low[i], m.high[i] = j.Min-Slack, j.Max+Slack
		}
	}
	return m
}

// goal returns the goal of joint i in rad, within its range.
func (m *mapping) goal(i int, action float32) float32 {
	j := &m.joints[i]
	q := m.origin[i] + float64(m.scale[i]*float64(action))
	return float32(min(max(q, j.Min-Slack), j.Max+Slack))
}

// estimates returns the readings that are estimated, nil for none.
func (c Config) estimates() *body.Estimates {
	switch {
	case !c.BodyEstimates:
		return nil
	case c.Model == G1:
		return body.NewG1()
	}
	return body.NewGo2(c.FootForce)
}

// Spec describes the channels of a robot. The period is that of the control loop.
func (c Config) Spec(period time.Duration) (hal.Spec, error) {
	if err := c.Validate(); err != nil {
		return hal.Spec{}, err
	}
	m := c.mapping()
	rate := each(c.MaxRate, len(m.joints), 0)
	spec := hal.Spec{Name: "unitree " + c.Model, Period: period}
	for _, kind := range []struct{ prefix, unit string }{{"position_", "rad"}, {"velocity_", "rad/s"}} {
		for _, j := range m.joints {
			spec.Obs = append(spec.Obs, hal.Channel{Name: kind.prefix + j.Name, Unit: kind.unit})
		}
	}
	for _, kind := range []struct{ prefix, unit string }{
		{"gravity_", ""}, {"gyro_", "rad/s"}, {"accelerometer_", "m/s^2"},
	} {
		for _, axis := range []string{"x", "y", "z"} {
			spec.Obs = append(spec.Obs, hal.Channel{Name: kind.prefix + axis, Unit: kind.unit})
		}
	}
	if c.Model == Go2 {
		for _, leg := range legs {
			spec.Obs = append(spec.Obs, hal.Channel{Name: "foot_force_" + leg})
		}
	}
	if e := c.estimates(); e != nil {
		spec.Obs = append(spec.Obs, e.Channels()...)
	}
	for i, j := range m.joints {
		spec.Action = append(spec.Action, hal.Channel{
			Name: j.Name, Unit: m.unit, Min: m.low[i], Max: m.high[i], MaxRate: rate[i] / m.scale[i],
			Failsafe: (m.low[i] + m.high[i]) / 2, // for the record: Halt damps, it does not move to a position
			Measured: hal.Measured{Obs: "position_" + j.Name, Scale: 1 / m.scale[i]},
		})
	}
	return spec, spec.Validate()
}
