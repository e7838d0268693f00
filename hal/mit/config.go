package mit

import (
	"cmp"
	"fmt"
	"time"

	"optibfm/hal"
	"optibfm/internal/keys"
)

// Config describes the motors of one CAN interface. Zero values select the defaults.
type Config struct {
	// Interface is a CAN interface such as can0, or unix:/path of a simulator.
	Interface string `yaml:"interface"`
	// Dialect is mit (default) or damiao.
	Dialect string  `yaml:"dialect" rule:"mit|damiao|"`
	Motors  []Motor `yaml:"motors"`
	// TimeoutMs limits one round with all motors. Default: 2 plus 0.3 for each motor.
	TimeoutMs float64 `yaml:"timeout_ms" rule:"[0, 1000]"`
	// DeadmanMs is the silence after which a damiao motor stops. 0: it does not stop.
	DeadmanMs float64 `yaml:"deadman_ms" rule:"[0, 10000]"`
	// HaltExit makes Halt leave motor mode: the motors turn freely.
	HaltExit bool `yaml:"halt_exit"`
}

// Motor is one motor.
type Motor struct {
	Name string `yaml:"name"`
	// ID is the CAN ID of the motor.
	ID int `yaml:"id" rule:"[1, 127]"`
	// ReplyID is the CAN ID of its answers, often called master ID.
	ReplyID int `yaml:"reply_id" rule:"[0, 2047]"`
	// Mode is position (default), velocity, torque or impedance.
	Mode string `yaml:"mode" rule:"position|velocity|torque|impedance|"`
	// Kp (N·m/rad) and Kd (N·m·s/rad) are the gains.
	Kp float64 `yaml:"kp" rule:"[0, inf)"`
	Kd float64 `yaml:"kd" rule:"[0, inf)"`
	// PMax (rad), VMax (rad/s) and TMax (N·m) are the ranges of the codes, as set in the motor. So
	// are KpMax (default: 500) and KdMax (default: 5).
	PMax  float64 `yaml:"p_max" rule:"(0, inf)"`
	VMax  float64 `yaml:"v_max" rule:"(0, inf)"`
	TMax  float64 `yaml:"t_max" rule:"(0, inf)"`
	KpMax float64 `yaml:"kp_max" rule:"[0, inf)"`
	KdMax float64 `yaml:"kd_max" rule:"[0, inf)"`
}

// The names of the dialects and modes.
const (
	Original  = "mit"
	Damiao    = "damiao"
	Position  = "position"
	Velocity  = "velocity"
	Torque    = "torque"
	Impedance = "impedance"
)

const (
	maxMotors    = 32
	defaultKpMax = 500
	defaultKdMax = 5
)

// Validate returns an error that names the invalid keys.
func (c Config) Validate() error {
	if err := keys.Check("mit", c); err != nil {
		return err
	}
	if c.Interface == "" {
		return fmt.Errorf("mit: interface: empty; set it to a CAN interface, such as can0")
	}
	if len(c.Motors) == 0 || len(c.Motors) > maxMotors {
		return fmt.Errorf("mit: motors: not between 1 and %d (%d)", maxMotors, len(c.Motors))
	}
	names, answers := map[string]bool{}, map[[2]int]bool{}
	for i, m := range c.Motors {
		if err := m.validate(); err != nil {
			return fmt.Errorf("mit: motors[%d] %q: %w", i, m.Name, err)
		}
		from := [2]int{m.ReplyID, c.firstByte(m.ID)}
		if names[m.Name] || answers[from] {
			return fmt.Errorf("mit: motors[%d] %q: another motor has the same name, "+
				"or the same reply_id and id (%d, %d)", i, m.Name, m.ReplyID, m.ID)
		}
		names[m.Name], answers[from] = true, true
		for _, other := range c.Motors {
			if other.ID == m.ReplyID && other.ID != m.ID {
				return fmt.Errorf("mit: motors[%d] %q: reply_id is the id of %q (%d), which would take the "+
					"answers for commands; set another in the motor", i, m.Name, other.Name, m.ReplyID)
			}
		}
	}
	if c.DeadmanMs > 0 && c.Dialect != Damiao {
		return fmt.Errorf("mit: deadman_ms: the mit dialect cannot set the motor's timeout; " +
			"set it on the motor, and remove the key")
	}
	return nil
}

// Inputs returns the signals of Read: three for each motor, in their order.
func (c Config) Inputs() (signals []hal.Signal) {
	for _, m := range c.Motors {
		signals = append(signals,
			hal.Signal{Name: m.Name + "_position", Unit: "rad"},
			hal.Signal{Name: m.Name + "_velocity", Unit: "rad/s"},
			hal.Signal{Name: m.Name + "_torque", Unit: "N·m"})
	}
	return signals
}

// Outputs returns the signals of Write: one or three for each motor, by its mode.
func (c Config) Outputs() (signals []hal.Signal) {
	for _, m := range c.Motors {
		signals = append(signals, m.outputs()...)
	}
	return signals
}

func (m Motor) outputs() (signals []hal.Signal) {
	for _, s := range []struct{ mode, unit, measured string }{
		{Position, "rad", m.Name + "_position"}, {Velocity, "rad/s", ""}, {Torque, "N·m", ""},
	} {
		if m.mode() == s.mode || m.mode() == Impedance {
			name := m.Name + "_" + s.mode + "_goal"
			signals = append(signals, hal.Signal{
				Name: name, Unit: s.unit, Measured: s.measured, Holds: s.measured != "",
			})
		}
	}
	return signals
}

// Deadman returns the silence after which a motor stops; 0: it does not stop, or the time is
// unknown.
func (c Config) Deadman() time.Duration {
	return time.Duration(c.DeadmanMs * float64(time.Millisecond))
}

// Place returns the interface: one device has all its motors.
func (c Config) Place() string { return c.Interface }

func (m Motor) validate() error {
	if m.Name == "" {
		return fmt.Errorf("name: empty")
	}
	r := m.span()
	if m.Kp > r.KpMax || m.Kd > r.KdMax {
		return fmt.Errorf("kp, kd: above the range (%v of %v, %v of %v)", m.Kp, r.KpMax, m.Kd, r.KdMax)
	}
	if m.mode() == Position && m.Kp == 0 {
		return fmt.Errorf("kp: a position goal has no effect (0); set it above 0")
	}
	if m.mode() == Velocity && m.Kd == 0 {
		return fmt.Errorf("kd: a velocity goal has no effect (0); set it above 0")
	}
	return nil
}

func (m Motor) mode() string {
	if m.Mode == "" {
		return Position
	}
	return m.Mode
}

// positions reports whether the motor follows positions.
func (m Motor) positions() bool { return m.mode() == Position || m.mode() == Impedance }

func (m Motor) span() Range {
	r := Range{m.PMax, m.VMax, m.TMax, m.KpMax, m.KdMax}
	r.KpMax = cmp.Or(r.KpMax, defaultKpMax)
	r.KdMax = cmp.Or(r.KdMax, defaultKdMax)
	return r
}

// firstByte distinguishes the answers of motors with the same reply ID.
func (c Config) firstByte(id int) int {
	if c.Dialect == Damiao {
		return id & 0x0F
	}
	return id
}

// Bounds returns the longest times of calls (see the package documentation). Only I²C devices use
// the argument.
func (c Config) Bounds(time.Duration) hal.Bounds {
	t := c.timeout()
	return hal.Bounds{Sense: 2 * t, Act: t, Arm: time.Duration(11*len(c.Motors)) * t, Halt: 4 * t}
}

func (c Config) timeout() time.Duration {
	if c.TimeoutMs == 0 {
		return 2*time.Millisecond + time.Duration(len(c.Motors))*300*time.Microsecond
	}
	return time.Duration(c.TimeoutMs * float64(time.Millisecond))
}
