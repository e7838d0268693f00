package dynamixel

import (
	"fmt"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/hal/serial"
	"optibfm/hal/servobus"
	"optibfm/internal/keys"
)

// Config describes a chain of servos on one port.
type Config struct {
	Port serial.Config `yaml:"port"`
	// Servos lists the servos in the order of the signals.
	Servos []Servo `yaml:"servos"`
	// TimeoutMs limits one transaction with all servos. Default: its time on the line plus 5.
	TimeoutMs float64 `yaml:"timeout_ms" rule:"[0, 1000]"`
	// DeadmanMs is the silence after which the servos stop, a multiple of 20 up to 2540. 0: they do
	// not stop.
	DeadmanMs float64 `yaml:"deadman_ms" rule:"[0, 2540]"`
	// HaltTorqueOff makes Halt switch the torque off: the robot goes limp.
	HaltTorqueOff bool `yaml:"halt_torque_off"`
}

// Servo is one servo of a chain.
type Servo struct {
	Name string `yaml:"name"`
	ID   int    `yaml:"id" rule:"[0, 252]"`
	// Mode is position (default), extended_position, velocity, current or pwm. The servo must be
	// set to it.
	Mode string `yaml:"mode"`
	// Model is the required model, such as XL430-W250. Empty: any supported one. A model without a
	// current sensor gives its load; name it if an observation uses the load.
	Model string `yaml:"model"`
}

// Choices lists the values of a key that has choices. "" is the default.
func (Servo) Choices(key string) []string {
	return map[string][]string{"mode": append(Modes(), ""), "model": append(Models(), "")}[key]
}

const (
	maxServos    = 64
	watchdogUnit = 20 * time.Millisecond
	openingSlack = 20 * time.Millisecond
)

// Validate returns an error that names the invalid keys.
func (c Config) Validate() error {
	if err := keys.Check("dynamixel", c); err != nil {
		return err
	}
	if err := c.Port.Validate(); err != nil {
		return fmt.Errorf("dynamixel: port: %w", err)
	}
	servo := func(i int) (string, int) { return c.Servos[i].Name, c.Servos[i].ID }
	if err := servobus.CheckServos("dynamixel", len(c.Servos), maxServos, servo); err != nil {
		return err
	}
	for i, s := range c.Servos {
		if m, ok := modelByName(s.Model); ok && s.mode() == Current && m.ampere == 0 {
			return fmt.Errorf("dynamixel: servos[%d] %q: mode: a %s has no current mode", i, s.Name, m.name)
		}
	}
	_, err := c.watchdog()
	return err
}

// watchdog returns the value of register 98, 0 to 127.
func (c Config) watchdog() (byte, error) {
	steps := c.DeadmanMs / float64(watchdogUnit.Milliseconds())
	if steps == math.Trunc(steps) {
		return byte(steps), nil
	}
	return 0, fmt.Errorf("dynamixel: deadman_ms: not a multiple of 20 (%v)", c.DeadmanMs)
}

// Inputs returns the signals of Read: three for each servo, in their order.
func (c Config) Inputs() (signals []hal.Signal) {
	for _, s := range c.Servos {
		m, ok := modelByName(s.Model)
		signals = append(signals, s.inputs(!ok || m.ampere > 0)...)
	}
	return signals
}

// Outputs returns the signals of Write: the goal of each servo, in their order.
func (c Config) Outputs() []hal.Signal {
	signals := make([]hal.Signal, len(c.Servos))
	for i, s := range c.Servos {
		m, _ := modeByName(s.mode()) // checked by Validate
		signals[i] = hal.Signal{Name: s.Name + "_goal", Unit: m.unit}
		if m.goal == regGoalPosition {
			signals[i].Measured, signals[i].Holds = s.Name+"_position", true
		}
	}
	return signals
}

// Deadman returns the silence after which the servos stop; 0: they do not stop.
func (c Config) Deadman() time.Duration { return servobus.Milliseconds(c.DeadmanMs) }

// Place returns the place of the device. Two devices cannot have the same place.
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

// onTheLine returns the longest time of a sync read of size bytes, without slack.
func (c Config) onTheLine(size int, returnDelay time.Duration) time.Duration {
	n := len(c.Servos)
	size += servobus.MaxExtra
	request := headerSize + 5 + n + crcSize
	answer := headerSize + 2 + size + size/3 + crcSize // at most a third is stuffing
	return c.Port.WireTime(request+n*answer) + time.Duration(n)*returnDelay
}

// timeout returns the time limit of one transaction.
func (c Config) timeout(returnDelay time.Duration) (time.Duration, error) {
	return servobus.Timeout("dynamixel", c.TimeoutMs, c.onTheLine(goalsSize, returnDelay), regReturnDelay)
}

// Bounds returns the longest times of calls for servos whose return delay is 0. They are zero,
// unknown, where timeout_ms is too short for the answers, which Open refuses. The argument is for
// I²C devices.
func (c Config) Bounds(time.Duration) hal.Bounds {
	t, _ := c.timeout(0)
	return boundsOf(t)
}
