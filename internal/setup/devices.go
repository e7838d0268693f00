package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"periph.io/x/conn/v3/gpio"
	"periph.io/x/conn/v3/i2c"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/hal/bno055"
	"optibfm/hal/composite"
	"optibfm/hal/dynamixel"
	"optibfm/hal/feetech"
	"optibfm/hal/gpioline"
	"optibfm/hal/i2cbus"
	"optibfm/hal/mcu"
	"optibfm/hal/mit"
	"optibfm/hal/mpu6050"
	"optibfm/hal/pca9685"
)

// Hardware opens buses and lines.
type Hardware struct {
	OpenI2C  func(path string, timeout time.Duration) (i2c.BusCloser, error)
	OpenLine func(name string, level gpio.Level) (OutputLine, error)
}

// OutputLine is a GPIO output.
type OutputLine interface {
	pca9685.Line
	io.Closer
}

// LocalHardware is the hardware of this computer. Tests replace it.
var LocalHardware = Hardware{
	OpenI2C:  func(path string, timeout time.Duration) (i2c.BusCloser, error) { return i2cbus.Open(path, timeout) },
	OpenLine: func(name string, level gpio.Level) (OutputLine, error) { return gpioline.Open(name, level) },
}

// CompositeRobot is a robot made of devices, with its buses and lines.
type CompositeRobot struct {
	*composite.Robot
	opener *DeviceOpener
}

// Close closes the devices, then the buses.
func (c *CompositeRobot) Close() error { return errors.Join(c.Robot.Close(), c.opener.Close()) }

// OpenDevices opens the devices of a configuration. Devices on one bus share it. After an error, also of
// ctx, it halts and closes the devices that are open. now is the clock of samples, in ns.
func OpenDevices(
	ctx context.Context, h Hardware, c configs.Composite, period time.Duration, now func() int64,
) (*CompositeRobot, error) {
	failsafe, err := c.Failsafe(period)
	if err != nil {
		return nil, err
	}
	o := NewDeviceOpener(h, c, now)
	var devices []composite.Device
	for i, d := range c.Devices {
		device, err := o.Open(ctx, d)
		if err != nil {
			err = fmt.Errorf("robot.composite.devices[%d] (%s): %w", i, d.Name, err)
			return nil, errors.Join(err, haltDevices(devices, failsafe), closeDevices(devices), o.Close())
		}
		devices = append(devices, composite.Device{
			Name: d.Name, Device: device, Stale: d.Stale(), FrozenTicks: d.FrozenTicks,
		})
	}
	robot, err := composite.New(c.Config(period), now, devices...)
	if err != nil {
		return nil, errors.Join(err, haltDevices(devices, failsafe), closeDevices(devices), o.Close())
	}
	return &CompositeRobot{robot, o}, nil
}

// haltDevices halts every device that has outputs, also after errors.
func haltDevices(devices []composite.Device, failsafe [][]float64) error {
	var errs []error
	for i, d := range devices {
		if len(failsafe[i]) > 0 {
			errs = append(errs, d.Halt(failsafe[i]))
		}
	}
	return errors.Join(errs...)
}

func closeDevices(devices []composite.Device) error {
	var errs []error
	for _, d := range slices.Backward(devices) {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// DeviceOpener opens devices and holds the buses and lines that they share.
type DeviceOpener struct {
	Hardware
	timeout time.Duration
	now     func() int64
	buses   map[string]i2c.BusCloser
	closers []io.Closer // in the order of opening
}

// NewDeviceOpener returns an opener for the devices of c. now is the clock of their samples, in ns.
func NewDeviceOpener(h Hardware, c configs.Composite, now func() int64) *DeviceOpener {
	return &DeviceOpener{Hardware: h, timeout: c.I2CTimeout(), now: now, buses: map[string]i2c.BusCloser{}}
}

// Open opens a device by its driver. A driver consists of a case here, its section in configs.Device and
// its package.
func (o *DeviceOpener) Open(ctx context.Context, d configs.Device) (hal.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	switch c := d.Section().(type) {
	case bno055.Config:
		return onBus(o, c.Bus, func(bus i2c.Bus) (hal.Device, error) { return bno055.New(ctx, bus, c, o.now) })
	case mpu6050.Config:
		return onBus(o, c.Bus, func(bus i2c.Bus) (hal.Device, error) { return mpu6050.New(bus, c, o.now) })
	case pca9685.Config:
		return onBus(o, c.Bus, func(bus i2c.Bus) (hal.Device, error) { return o.openPCA9685(bus, c) })
	case mcu.Config:
		return opened(mcu.Open(ctx, c))
	case dynamixel.Config:
		return opened(dynamixel.Open(ctx, c))
	case feetech.Config:
		return opened(feetech.Open(ctx, c))
	case mit.Config:
		return opened(mit.Open(ctx, c))
	}
	return nil, fmt.Errorf("driver: unknown (%q): see `optibfm config schema`", d.Driver)
}

// BusOf returns the bus or line of a device. Devices with the same one share it.
func BusOf(d configs.Device) string {
	switch section := d.Section().(type) {
	case pca9685.Config:
		return section.Bus
	case interface{ Place() string }:
		return section.Place()
	}
	return d.Name
}

// opened returns a nil interface for a nil device.
func opened[D hal.Device](d D, err error) (hal.Device, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// onBus opens a device on an I²C bus, which is opened once.
func onBus(o *DeviceOpener, path string, open func(i2c.Bus) (hal.Device, error)) (hal.Device, error) {
	bus, ok := o.buses[path]
	if !ok {
		var err error
		if bus, err = o.OpenI2C(path, o.timeout); err != nil {
			return nil, err
		}
		o.buses[path] = bus
		o.closers = append(o.closers, bus)
	}
	return open(bus)
}

// openPCA9685 opens the OE line, if configured, with the outputs disabled.
func (o *DeviceOpener) openPCA9685(bus i2c.Bus, c pca9685.Config) (hal.Device, error) {
	if c.OutputEnable == "" {
		return pca9685.New(bus, nil, c)
	}
	enable, err := o.OpenLine(c.OutputEnable, gpio.High)
	if err != nil {
		return nil, fmt.Errorf("output_enable: %w", err)
	}
	o.closers = append(o.closers, enable)
	return pca9685.New(bus, enable, c)
}

// Close closes buses and lines, the last first.
func (o *DeviceOpener) Close() error {
	var errs []error
	for _, c := range slices.Backward(o.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
