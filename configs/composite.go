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
	"optibfm/internal/keys"
)

// Composite is a robot made of devices; see package hal/composite. Its period
// is that of the loop.
type Composite struct {
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
	// History is the number of ticks in an observation, the oldest first.
	// 0: 1.
	History int `yaml:"history" rule:"[0, inf)"`
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
	Driver string `yaml:"driver" rule:"bno055|mpu6050|pca9685|mcu|dynamixel|feetech|mit"`
	// StaleMS is the age at which a sample is refused. 0: three periods.
	StaleMS float64 `yaml:"stale_ms" rule:"[0, 60000]"`
	// FrozenTicks is the number of bit-identical new samples that make the
	// device count as frozen. 0: no limit.
	FrozenTicks int `yaml:"frozen_ticks" rule:"[0, 1e6]"`

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
	// MIT is the motors of a CAN interface with mini cheetah frames.
	MIT mit.Config `yaml:"mit,omitempty"`
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
func (c Composite) Unguarded(period time.Duration) (names []string) {
	for _, d := range c.Devices {
		section := d.Section()
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
func (c Composite) Shares() []composite.Share {
	shares := make([]composite.Share, len(c.Devices))
	transaction := i2cbus.TransactionTimeout(i2cbus.Granted(c.I2CTimeout()))
	for i, d := range c.Devices {
		shares[i] = d.Part().Share(d.Section().Bounds(transaction))
	}
	return shares
}

// Section returns the section of the device's driver, nil for an unknown driver.
func (d Device) Section() DeviceConfig {
	if field, ok := keys.Find(reflect.ValueOf(d), d.Driver); ok {
		section, _ := field.Value.Interface().(DeviceConfig)
		return section
	}
	return nil
}

// deviceDrivers lists the keys of the sections.
func deviceDrivers() (names []string) {
	for _, key := range keys.Of(reflect.ValueOf(Device{})) {
		if (Device{Driver: key}).Section() != nil {
			names = append(names, key)
		}
	}
	return names
}

// Part describes a device without opening it.
func (d Device) Part() composite.Part {
	s := d.Section()
	return composite.Part{Name: d.Name, Inputs: s.Inputs(), Outputs: s.Outputs()}
}

// Config returns the robot's description without its devices.
func (c Composite) Config(period time.Duration) composite.Config {
	return composite.Config{
		Name: c.Name, Period: period, History: c.History, Odometry: c.Odometry, StopInput: c.StopInput,
		Observation: c.Observation, Action: c.Action,
	}
}

// I2CTimeout returns I2CTimeoutMS.
func (c Composite) I2CTimeout() time.Duration { return milliseconds(c.I2CTimeoutMS) }

// Stale returns StaleMS.
func (d Device) Stale() time.Duration { return milliseconds(d.StaleMS) }

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// Spec describes the robot without opening a device. The configuration must be
// valid.
func (c Composite) Spec(period time.Duration) (hal.Spec, error) {
	return c.Config(period).Spec(c.parts())
}

// Failsafe returns the outputs of each device that Halt commands. The
// configuration must be valid.
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

// checkComposite checks first each device, then what is connected to them.
func (c *checker) checkComposite(f File) {
	const section = "robot.composite"
	r := f.Robot.Composite
	places := map[string]int{}
	for i, d := range r.Devices {
		options := d.Section()
		if options == nil {
			continue // the driver is unknown
		}
		key := fmt.Sprintf("%s.devices[%d].%s", section, i, d.Driver)
		c.addErrors(key, options.Validate())
		if p, ok := options.(placed); ok {
			if first, taken := places[p.Place()]; taken {
				c.add(key, " has the place of devices[%d] (%s); give every device its own", first, p.Place())
			}
			places[p.Place()] = i
		}
	}
	if c.sound(section, "loop.period_ms") {
		_, err := r.Spec(f.Loop.Period())
		c.addErrors(section, err)
	}
}
