package configs

import (
	"fmt"
	"reflect"
	"time"

	"optibfm/hal"
	"optibfm/hal/bno055"
	"optibfm/hal/composite"
	"optibfm/hal/dynamixel"
	"optibfm/hal/feetech"
	"optibfm/hal/i2cbus"
	"optibfm/hal/mcu"
	"optibfm/hal/mit"
	"optibfm/hal/mpu6050"
	"optibfm/hal/pca9685"
)

// Composite is a robot made of devices; package hal/composite explains it. Its
// period is that of the loop.
type Composite struct {
	// Name of the robot.
	Name string `yaml:"name"`
	// I2CTimeoutMS is the time after which the adapters of all I²C buses give
	// a transfer up, rounded up to 10 ms.
	I2CTimeoutMS float64 `yaml:"i2c_timeout_ms"`
	// Devices are read, written and halted in this order.
	Devices []Device `yaml:"devices"`
	// Odometry reckons where a robot on two wheels is.
	Odometry composite.Odometry `yaml:"odometry"`
	// StopInput is the device's input, such as base.estop_closed, that is 1 while
	// the circuit of the emergency stop is closed: 0, or not to be read, is
	// pressed. Empty: none.
	StopInput string `yaml:"stop_input"`
	// History is the number of ticks in an observation, the oldest first.
	// 0: 1.
	History int `yaml:"history"`
	// Observation lists what fills the model's observation, in its order.
	Observation []composite.Observation `yaml:"observation"`
	// Action lists what the model's action drives, in its order.
	Action []composite.Action `yaml:"action"`
}

// Device is a device of a composite robot; only the chosen driver's section
// counts.
type Device struct {
	// Name by which observation and action mean the device.
	Name string `yaml:"name"`
	// Driver is the name of a section below.
	Driver string `yaml:"driver"`
	// StaleMS is the age at which a sample is refused. 0: three periods.
	StaleMS float64 `yaml:"stale_ms"`
	// FrozenTicks is the number of new samples without a bit of change after
	// which the device is taken for frozen. 0: never.
	FrozenTicks int `yaml:"frozen_ticks"`

	// BNO055 is Bosch's IMU with fusion.
	BNO055 bno055.Config `yaml:"bno055,omitempty"`
	// MPU6050 is InvenSense's IMU.
	MPU6050 mpu6050.Config `yaml:"mpu6050,omitempty"`
	// PCA9685 is NXP's PWM for servos, speed controllers and motor drivers.
	PCA9685 pca9685.Config `yaml:"pca9685,omitempty"`
	// MCU is a microcontroller that speaks the protocol of hal/mcu/PROTOCOL.md.
	MCU mcu.Config `yaml:"mcu,omitempty"`
	// Dynamixel is a chain of ROBOTIS X series servos.
	Dynamixel dynamixel.Config `yaml:"dynamixel,omitempty"`
	// Feetech is a chain of Feetech STS servos.
	Feetech feetech.Config `yaml:"feetech,omitempty"`
	// MIT is the motors of a CAN interface that take mini cheetah frames.
	MIT mit.Config `yaml:"mit,omitempty"`
}

// DeviceConfig is what the section of a driver can do.
type DeviceConfig interface {
	Validate() error
	Inputs() []hal.Signal
	Outputs() []hal.Signal
	// Bounds are those of the device, as far as the configuration tells.
	// transaction is the limit of one on its I²C bus, where it is on one.
	Bounds(transaction time.Duration) hal.Bounds
}

// placed is a section that says where its device is, such as a bus and an
// address.
type placed interface{ Place() string }

// guarded is a section of a device that stops by itself after a silence, if it
// is configured so.
type guarded interface{ Deadman() time.Duration }

// Unguarded names the devices with outputs that nothing stops when the control
// process dies, as the configuration has them.
func (c Composite) Unguarded() (names []string) {
	for _, d := range c.Devices {
		section := d.Section()
		if len(section.Outputs()) == 0 {
			continue
		}
		if g, ok := section.(guarded); !ok || g.Deadman() == 0 {
			names = append(names, d.Name)
		}
	}
	return names
}

// Shares are the devices' parts of the time that the robot's calls take at most, as far
// as the configuration tells.
func (c Composite) Shares() []composite.Share {
	shares := make([]composite.Share, len(c.Devices))
	for i, d := range c.Devices {
		shares[i] = d.Part().Share(d.Section().Bounds(i2cbus.TransactionTimeout(i2cbus.Granted(c.I2CTimeout()))))
	}
	return shares
}

// Section is the section of the device's driver; nil where there is no such
// driver.
func (d Device) Section() DeviceConfig {
	if field, ok := fieldOf(reflect.ValueOf(d), d.Driver); ok {
		section, _ := field.Interface().(DeviceConfig)
		return section
	}
	return nil
}

// deviceDrivers are the keys of the sections.
func deviceDrivers() (names []string) {
	for _, key := range keysOf(reflect.TypeFor[Device]()) {
		if (Device{Driver: key}).Section() != nil {
			names = append(names, key)
		}
	}
	return names
}

// Part is what is known of a device without it.
func (d Device) Part() composite.Part {
	s := d.Section()
	return composite.Part{Name: d.Name, Inputs: s.Inputs(), Outputs: s.Outputs()}
}

// Config is the robot's description without its devices, for a period of
// control.
func (c Composite) Config(period time.Duration) composite.Config {
	return composite.Config{
		Name: c.Name, Period: period, History: c.History, Odometry: c.Odometry, StopInput: c.StopInput, Observation: c.Observation, Action: c.Action,
	}
}

// I2CTimeout is I2CTimeoutMS.
func (c Composite) I2CTimeout() time.Duration { return milliseconds(c.I2CTimeoutMS) }

// Stale is StaleMS.
func (d Device) Stale() time.Duration { return milliseconds(d.StaleMS) }

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// Spec describes the robot, without opening anything. The configuration has to
// be valid.
func (c Composite) Spec(period time.Duration) (hal.Spec, error) {
	return c.Config(period).Spec(c.parts())
}

// Failsafe is what a Halt commands: the outputs of each device, in its order. The
// configuration has to be valid.
func (c Composite) Failsafe(period time.Duration) ([][]float64, error) {
	return c.Config(period).Failsafe(c.parts())
}

func (c Composite) parts() []composite.Part {
	parts := make([]composite.Part, len(c.Devices))
	for i, d := range c.Devices {
		parts[i] = d.Part()
	}
	return parts
}

// composite checks a robot made of devices, first each device, then what is
// connected to them.
func (c *checker) composite(f File) {
	const section = "robot.composite"
	r := f.Robot.Composite
	places := map[string]int{}
	c.within(section+".i2c_timeout_ms", r.I2CTimeoutMS, 10, 1000)
	for i, d := range r.Devices {
		key := fmt.Sprintf("%s.devices[%d]", section, i)
		c.within(key+".stale_ms", d.StaleMS, 0, 60_000)
		c.within(key+".frozen_ticks", float64(d.FrozenTicks), 0, 1e6)
		options := d.Section()
		if options == nil {
			c.add(key+".driver", " is unknown (%q): %s", shorten(d.Driver), suggest(d.Driver, deviceDrivers()))
			continue
		}
		c.takeOver(key+"."+d.Driver, options.Validate())
		if p, ok := options.(placed); ok {
			if first, taken := places[p.Place()]; taken {
				c.add(key+"."+d.Driver, " is where devices[%d] is (%s): give every device its own place", first, p.Place())
			}
			places[p.Place()] = i
		}
	}
	if c.sound(section, "loop.period_ms") {
		_, err := r.Spec(f.Loop.Period())
		c.takeOver(section, err)
	}
}
