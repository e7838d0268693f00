package feetech

import (
	"fmt"
	"time"

	"optibfm/hal"
	"optibfm/hal/serial"
	"optibfm/hal/servobus"
)

// Config describes a chain of servos on one port.
type Config struct {
	// Port. An adapter that echoes needs its echo option.
	Port serial.Config `yaml:"port"`
	// Servos are those that are sensed and commanded, in the order of the
	// signals.
	Servos []Servo `yaml:"servos"`
	// TimeoutMs limits one transaction with all servos. Default: its time on
	// the line plus 5.
	TimeoutMs float64 `yaml:"timeout_ms"`
	// HaltTorqueOff lets Halt switch the torque off: the robot goes limp.
	HaltTorqueOff bool `yaml:"halt_torque_off"`
}

// Servo is one servo of a chain.
type Servo struct {
	Name string `yaml:"name"`
	ID   int    `yaml:"id"`
	// Mode is position (default) or velocity. The servo must be set to it.
	Mode string `yaml:"mode"`
}

// The names of the modes.
const (
	Position = "position"
	Velocity = "velocity"
)

const (
	maxServos    = 32                   // a sync write of six bytes each fits into a packet
	defaultSlack = 5 * time.Millisecond // the adapter and the scheduler
	leastSlack   = time.Millisecond
	maxTimeoutMs = 1000
)

// Validate reports the first setting that is wrong.
func (c Config) Validate() error {
	if err := c.Port.Validate(); err != nil {
		return fmt.Errorf("feetech: port: %w", err)
	}
	member := func(i int) (string, int) { return c.Servos[i].Name, c.Servos[i].ID }
	if err := servobus.CheckMembers("feetech", len(c.Servos), maxServos, MaxID, member); err != nil {
		return err
	}
	for i, s := range c.Servos {
		if m := s.mode(); m != Position && m != Velocity {
			return fmt.Errorf("feetech: servos[%d] %q: mode: unknown (%q): choose position or velocity", i, s.Name, m)
		}
	}
	if !(c.TimeoutMs >= 0 && c.TimeoutMs <= maxTimeoutMs) {
		return fmt.Errorf("feetech: timeout_ms: not between 0 and %d (%v): give milliseconds, or 0 for the default", maxTimeoutMs, c.TimeoutMs)
	}
	return nil
}

// Inputs lists what Read gives: three for each servo, in their order.
func (c Config) Inputs() (signals []hal.Signal) {
	for _, s := range c.Servos {
		signals = append(signals, hal.Signal{Name: s.Name + "_position", Unit: "rad"}, hal.Signal{Name: s.Name + "_velocity", Unit: "rad/s"}, hal.Signal{Name: s.Name + "_current", Unit: "A"})
	}
	return signals
}

// Outputs lists what Write takes: the goal of each servo, in their order.
func (c Config) Outputs() []hal.Signal {
	signals := make([]hal.Signal, len(c.Servos))
	for i, s := range c.Servos {
		signals[i] = hal.Signal{Name: s.Name + "_goal", Unit: "rad"}
		if s.mode() == Velocity {
			signals[i].Unit = "rad/s"
		}
	}
	return signals
}

// Place says where the device is: no two can be in one place.
func (c Config) Place() string { return c.Port.Path }

func (s Servo) mode() string {
	if s.Mode == "" {
		return Position
	}
	return s.Mode
}

// wanted is the limit that the configuration gives, 0 where it gives none.
func (c Config) wanted() time.Duration { return time.Duration(c.TimeoutMs * float64(time.Millisecond)) }

// timeout is the limit of one transaction.
func (c Config) timeout(returnDelay time.Duration) (time.Duration, error) {
	n := len(c.Servos)
	line := c.Port.WireTime(leastSize+2+n+n*(leastSize+presentSize)) + time.Duration(n)*returnDelay
	if c.TimeoutMs == 0 {
		return line + defaultSlack, nil
	}
	wanted := c.wanted()
	if wanted < line+leastSlack {
		return 0, fmt.Errorf("feetech: timeout_ms: the answers do not fit (%v; on the line they take %v, of it %v return delay for each servo): raise it or baud, and set register 7 of the servos to 0",
			c.TimeoutMs, line, returnDelay)
	}
	return wanted, nil
}

// Bounds is what calls take at most, of servos whose return delay is 0; not known where
// timeout_ms leaves the answers no room, which Open refuses. No I²C bus is used.
func (c Config) Bounds(time.Duration) hal.Bounds {
	t, _ := c.timeout(0)
	return boundsOf(t)
}
