package dynamixel

import (
	"fmt"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/hal/serial"
	"optibfm/hal/servobus"
)

// Config describes a chain of servos on one port.
type Config struct {
	Port serial.Config `yaml:"port"`
	// Servos are those that are sensed and commanded, in the order of the
	// signals.
	Servos []Servo `yaml:"servos"`
	// TimeoutMs limits one transaction with all servos. Default: its time on
	// the line plus 5.
	TimeoutMs float64 `yaml:"timeout_ms"`
	// DeadmanMs is the silence after which the servos stop by themselves, a
	// multiple of 20 up to 2540. 0: they do not.
	DeadmanMs float64 `yaml:"deadman_ms"`
	// HaltTorqueOff lets Halt switch the torque off: the robot goes limp.
	HaltTorqueOff bool `yaml:"halt_torque_off"`
}

// Servo is one servo of a chain.
type Servo struct {
	Name string `yaml:"name"`
	ID   int    `yaml:"id"`
	// Mode is position (default), extended_position, velocity, current or
	// pwm. The servo must be set to it.
	Mode string `yaml:"mode"`
	// Model is what it must be, such as XL430-W250. Empty: any that is known
	// here; one without a current sensor gives its load, and has to be named
	// where an observation uses that.
	Model string `yaml:"model"`
}

const (
	maxServos    = 64
	watchdogUnit = 20 * time.Millisecond
	maxWatchdog  = 127
	defaultSlack = 5 * time.Millisecond // the adapter and the scheduler
	openingSlack = 20 * time.Millisecond
	leastSlack   = time.Millisecond
	maxTimeoutMs = 1000
)

// Validate reports the first setting that is wrong.
func (c Config) Validate() error {
	if err := c.Port.Validate(); err != nil {
		return fmt.Errorf("dynamixel: port: %w", err)
	}
	member := func(i int) (string, int) { return c.Servos[i].Name, c.Servos[i].ID }
	if err := servobus.CheckMembers("dynamixel", len(c.Servos), maxServos, MaxID, member); err != nil {
		return err
	}
	for i, s := range c.Servos {
		if _, err := modeByName(s.mode()); err != nil {
			return fmt.Errorf("dynamixel: servos[%d] %q: %w", i, s.Name, err)
		}
		if err := s.checkModel(); err != nil {
			return fmt.Errorf("dynamixel: servos[%d] %q: %w", i, s.Name, err)
		}
	}
	if !(c.TimeoutMs >= 0 && c.TimeoutMs <= maxTimeoutMs) {
		return fmt.Errorf("dynamixel: timeout_ms: not between 0 and %d (%v): give milliseconds, or 0 for the default", maxTimeoutMs, c.TimeoutMs)
	}
	_, err := c.watchdog()
	return err
}

// watchdog is the value of register 98.
func (c Config) watchdog() (byte, error) {
	steps := c.DeadmanMs / float64(watchdogUnit.Milliseconds())
	if steps >= 0 && steps <= maxWatchdog && steps == math.Trunc(steps) {
		return byte(steps), nil
	}
	return 0, fmt.Errorf("dynamixel: deadman_ms: not a multiple of 20 up to %d (%v): the servos count in steps of 20 ms", maxWatchdog*20, c.DeadmanMs)
}

func (s Servo) checkModel() error {
	if s.Model == "" {
		return nil
	}
	m, err := modelByName(s.Model)
	if err == nil && s.mode() == Current && m.ampere == 0 {
		return fmt.Errorf("mode: a %s has no current mode: choose another", m.name)
	}
	return err
}

// Inputs lists what Read gives: three for each servo, in their order.
func (c Config) Inputs() (signals []hal.Signal) {
	for _, s := range c.Servos {
		m, err := modelByName(s.Model)
		signals = append(signals, s.inputs(err != nil || m.ampere > 0)...)
	}
	return signals
}

// Outputs lists what Write takes: the goal of each servo, in their order.
func (c Config) Outputs() []hal.Signal {
	signals := make([]hal.Signal, len(c.Servos))
	for i, s := range c.Servos {
		m, _ := modeByName(s.mode()) // Validate has found it
		signals[i] = hal.Signal{Name: s.Name + "_goal", Unit: m.unit}
	}
	return signals
}

// Deadman is the silence after which the servos will stop by themselves; 0: they
// will not.
func (c Config) Deadman() time.Duration {
	return time.Duration(c.DeadmanMs * float64(time.Millisecond))
}

// Place says where the device is: no two can be in one place.
func (c Config) Place() string { return c.Port.Path }

func (s Servo) inputs(current bool) []hal.Signal {
	effort := hal.Signal{Name: s.Name + "_load"}
	if current {
		effort = hal.Signal{Name: s.Name + "_current", Unit: "A"}
	}
	return []hal.Signal{{Name: s.Name + "_position", Unit: "rad"}, {Name: s.Name + "_velocity", Unit: "rad/s"}, effort}
}

func (s Servo) mode() string {
	if s.Mode == "" {
		return Position
	}
	return s.Mode
}

// onTheLine is how long a sync read of size bytes takes without slack.
func (c Config) onTheLine(size int, returnDelay time.Duration) time.Duration {
	n := len(c.Servos)
	request := headerSize + 5 + n + crcSize
	answer := headerSize + 2 + size + size/3 + crcSize // at most a third is stuffing
	return c.Port.WireTime(request+n*answer) + time.Duration(n)*returnDelay
}

// Bounds is what calls take at most, of servos whose return delay is 0; not known where
// timeout_ms leaves the answers no room, which Open refuses. No I²C bus is used.
func (c Config) Bounds(time.Duration) hal.Bounds {
	t, _ := c.timeout(0)
	return boundsOf(t)
}
