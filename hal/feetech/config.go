package feetech

import (
	"fmt"
	"time"

	"optibfm/hal"
	"optibfm/hal/serial"
	"optibfm/hal/servobus"
	"optibfm/internal/keys"
)

// Config describes a chain of servos on one port.
type Config struct {
	// Port. An adapter that receives what it sends needs echo.
	Port serial.Config `yaml:"port"`
	// Servos lists the servos in the order of the signals.
	Servos []Servo `yaml:"servos"`
	// TimeoutMs limits one transaction with all servos. Default: its time on the line plus 5.
	TimeoutMs float64 `yaml:"timeout_ms" rule:"[0, 1000]"`
	// HaltTorqueOff makes Halt switch the torque off: the robot goes limp.
	HaltTorqueOff bool `yaml:"halt_torque_off"`
}

// Servo is one servo of a chain.
type Servo struct {
	Name string `yaml:"name"`
	ID   int    `yaml:"id" rule:"[0, 253]"`
	// Mode is position (default) or velocity. The servo must be set to it.
	Mode string `yaml:"mode" rule:"position|velocity|"`
}

// The names of the modes.
const (
	Position = "position"
	Velocity = "velocity"
)

const maxServos = 32 // a sync write of six bytes each fits into a packet

// Validate returns an error that names the invalid keys.
func (c Config) Validate() error {
	if err := keys.Check("feetech", c); err != nil {
		return err
	}
	if err := c.Port.Validate(); err != nil {
		return fmt.Errorf("feetech: port: %w", err)
	}
	servo := func(i int) (string, int) { return c.Servos[i].Name, c.Servos[i].ID }
	return servobus.CheckServos("feetech", len(c.Servos), maxServos, servo)
}

// Inputs returns the signals of Read: three for each servo, in their order.
func (c Config) Inputs() (signals []hal.Signal) {
	for _, s := range c.Servos {
		signals = append(signals,
			hal.Signal{Name: s.Name + "_position", Unit: "rad"},
			hal.Signal{Name: s.Name + "_velocity", Unit: "rad/s"},
			hal.Signal{Name: s.Name + "_current", Unit: "A"})
	}
	return signals
}

// Outputs returns the signals of Write: the goal of each servo, in their order.
func (c Config) Outputs() []hal.Signal {
	signals := make([]hal.Signal, len(c.Servos))
	for i, s := range c.Servos {
		signals[i] = hal.Signal{Name: s.Name + "_goal", Unit: "rad", Measured: s.Name + "_position", Holds: true}
		if s.mode() == Velocity {
			signals[i] = hal.Signal{Name: s.Name + "_goal", Unit: "rad/s"}
		}
	}
	return signals
}

// Place returns the place of the device. Two devices cannot have the same place.
func (c Config) Place() string { return c.Port.Path }

func (s Servo) mode() string {
	if s.Mode == "" {
		return Position
	}
	return s.Mode
}

// timeout returns the time limit of one transaction.
func (c Config) timeout(returnDelay time.Duration) (time.Duration, error) {
	n := len(c.Servos)
	answer := minPacket + stopSize + servobus.MaxExtra
	onLine := c.Port.WireTime(minPacket+2+n+n*answer) + time.Duration(n)*returnDelay
	return servobus.Timeout("feetech", c.TimeoutMs, onLine, regReturnDelay)
}

// Bounds returns the longest times of calls for servos whose return delay is 0. They are zero,
// unknown, where timeout_ms is too short for the answers, which Open refuses. The argument is for
// I²C devices.
func (c Config) Bounds(time.Duration) hal.Bounds {
	t, _ := c.timeout(0)
	return boundsOf(t)
}
