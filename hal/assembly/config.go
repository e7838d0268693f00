package assembly

import (
	"fmt"
	"time"

	"optibfm/hal"
	"optibfm/hal/composite"
	"optibfm/hal/i2cbus"
	"optibfm/internal/sections"
)

// Config is a robot made of devices; see package hal/composite. Its period is that of the loop.
type Config struct {
	// Name of the robot.
	Name string `yaml:"name"`
	// I2CTimeoutMS is the longest transfer on an I²C bus, rounded up to 10 ms.
	I2CTimeoutMS float64 `yaml:"i2c_timeout_ms" rule:"[10, 1000]"`
	// Devices are read, written and halted in this order.
	Devices []Device `yaml:"devices"`
	// Odometry computes the position of a robot on two wheels.
	Odometry composite.Odometry `yaml:"odometry"`
	// StopInput is a device's input, such as base.estop_closed, that is 1 while
	// the circuit of the emergency stop is closed. A 0 or an unreadable input
	// counts as pressed. Empty: none.
	StopInput string `yaml:"stop_input"`
	// Observation lists what fills the model's observation, in its order.
	Observation []composite.Observation `yaml:"observation"`
	// Action lists what the model's action drives, in its order.
	Action []composite.Action `yaml:"action"`
}

// Device is a device of a composite robot; only the chosen driver's section
// counts.
type Device struct {
	// Name of the device in observation and action.
	Name string `yaml:"name"`
	// Driver is the name of a section below.
	Driver string `yaml:"driver"`
	// StaleMS is the age at which a sample is refused. 0: three periods.
	StaleMS float64 `yaml:"stale_ms" rule:"[0, 60000]"`
	// FrozenTicks is the number of bit-identical new samples that make the
	// device count as frozen. 0: no limit.
	FrozenTicks int `yaml:"frozen_ticks" rule:"[0, 1e6]"`

	sections.Sections[DeviceKind] `yaml:",inline"`
}

// Choices lists the values of a key that has choices.
func (Device) Choices(key string) []string {
	return map[string][]string{"driver": deviceList.Names()}[key]
}

// DeviceConfig is the section of a driver.
type DeviceConfig interface {
	Validate() error
	Inputs() []hal.Signal
	Outputs() []hal.Signal
	// Bounds returns the longest durations of the device's calls.
	// transaction is the longest transaction on an I²C bus.
	Bounds(transaction time.Duration) hal.Bounds
}

// placed is a section with the place of its device, such as a bus and an
// address.
type placed interface{ Place() string }

// guarded is a section of a device with a deadman, which may be off (0).
type guarded interface{ Deadman() time.Duration }

// Unguarded names the devices with outputs and without a deadman longer than a
// period: if the control process dies, nothing stops them.
func (c Config) Unguarded(period time.Duration) (names []string) {
	for _, d := range c.Devices {
		section := d.Chosen()
		if len(section.Outputs()) == 0 {
			continue
		}
		if g, ok := section.(guarded); !ok || g.Deadman() <= period {
			names = append(names, d.Name)
		}
	}
	return names
}

// Shares returns each device's part of the longest duration of the robot's calls.
func (c Config) Shares() []hal.Share {
	shares := make([]hal.Share, len(c.Devices))
	transaction := i2cbus.TransactionTimeout(i2cbus.Granted(c.I2CTimeout()))
	for i, d := range c.Devices {
		shares[i] = d.Part().Share(d.Chosen().Bounds(transaction))
	}
	return shares
}

// Chosen returns the section of the device's driver, nil for an unknown driver.
func (d Device) Chosen() DeviceConfig {
	section, _ := d.Section(d.Driver).(DeviceConfig)
	return section
}

// Part describes a device without opening it.
func (d Device) Part() composite.Part {
	s := d.Chosen()
	return composite.Part{Name: d.Name, Inputs: s.Inputs(), Outputs: s.Outputs()}
}

// describe returns the robot's description without its devices.
func (c Config) describe(period time.Duration) composite.Config {
	return composite.Config{
		Name: c.Name, Period: period, Odometry: c.Odometry, StopInput: c.StopInput,
		Observation: c.Observation, Action: c.Action,
	}
}

// I2CTimeout returns I2CTimeoutMS.
func (c Config) I2CTimeout() time.Duration { return milliseconds(c.I2CTimeoutMS) }

// Stale returns StaleMS.
func (d Device) Stale() time.Duration { return milliseconds(d.StaleMS) }

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// Describe describes the robot without opening a device. The configuration must be
// valid.
func (c Config) Describe(period time.Duration) (hal.Spec, error) {
	return c.describe(period).Spec(c.parts())
}

// Failsafe returns the outputs of each device that Halt commands. The
// configuration must be valid.
func (c Config) Failsafe(period time.Duration) ([][]float64, error) {
	return c.describe(period).Failsafe(c.parts())
}

func (c Config) parts() []composite.Part {
	parts := make([]composite.Part, len(c.Devices))
	for i, d := range c.Devices {
		parts[i] = d.Part()
	}
	return parts
}

// CheckParts implements registry.PartChecker.
func (c Config) CheckParts(report func(key string, err error)) {
	places := map[string]int{}
	for i, d := range c.Devices {
		section := d.Chosen()
		if section == nil {
			continue // the driver is unknown
		}
		key := fmt.Sprintf("devices[%d].%s", i, d.Driver)
		report(key, section.Validate())
		if p, ok := section.(placed); ok {
			if first, taken := places[p.Place()]; taken {
				report(key, fmt.Errorf("assembly: has the place of devices[%d] (%s); give every device its own",
					first, p.Place()))
			}
			places[p.Place()] = i
		}
	}
}
