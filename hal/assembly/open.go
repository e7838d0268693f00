package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"periph.io/x/conn/v3/gpio"
	"periph.io/x/conn/v3/i2c"

	"optibfm/hal"
	"optibfm/hal/composite"
	"optibfm/hal/gpioline"
	"optibfm/hal/i2cbus"
)

// Hardware opens buses and lines.
type Hardware struct {
	OpenI2C  func(path string, timeout time.Duration) (i2c.BusCloser, error)
	OpenLine func(name string, level gpio.Level) (OutputLine, error)
}

// OutputLine is a GPIO output.
type OutputLine interface {
	Out(gpio.Level) error
	String() string
	io.Closer
}

// LocalHardware is the hardware of this computer. Tests replace it.
var LocalHardware = Hardware{
	OpenI2C:  func(path string, timeout time.Duration) (i2c.BusCloser, error) { return i2cbus.Open(path, timeout) },
	OpenLine: func(name string, level gpio.Level) (OutputLine, error) { return gpioline.Open(name, level) },
}

// Robot is a robot made of devices, with its buses and lines.
type Robot struct {
	*composite.Robot
	opener *Opener
}

// Close closes the devices, then the buses.
func (c *Robot) Close() error { return errors.Join(c.Robot.Close(), c.opener.Close()) }

// OpenDevices opens the devices of a configuration. Devices on one bus share it. After an error,
// also of ctx, it halts and closes the devices that are open. now is the clock of samples, in ns.
func OpenDevices(
	ctx context.Context, h Hardware, c Config, period time.Duration, now func() int64,
) (*Robot, error) {
	failsafe, err := c.Failsafe(period)
	if err != nil {
		return nil, err
	}
	o := NewOpener(h, c, now)
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
	robot, err := composite.New(c.describe(period), now, devices...)
	if err != nil {
		return nil, errors.Join(err, haltDevices(devices, failsafe), closeDevices(devices), o.Close())
	}
	return &Robot{robot, o}, nil
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

// Opener opens devices and holds the buses and lines that they share.
type Opener struct {
	Hardware
	timeout time.Duration
	now     func() int64
	buses   map[string]i2c.BusCloser
	closers []io.Closer // in the order of opening
}

// NewOpener returns an opener for the devices of c. now is the clock of their samples, in ns.
func NewOpener(h Hardware, c Config, now func() int64) *Opener {
	return &Opener{Hardware: h, timeout: c.I2CTimeout(), now: now, buses: map[string]i2c.BusCloser{}}
}

// Open opens a device by its driver.
func (o *Opener) Open(ctx context.Context, d Device) (hal.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	driver, ok := devices[d.Driver]
	if !ok {
		return nil, fmt.Errorf("driver: unknown (%q): see `optibfm config schema`", d.Driver)
	}
	return driver.open(ctx, d.Section(d.Driver), o)
}

// Now is the clock of the samples, CLOCK_MONOTONIC nanoseconds.
func (o *Opener) Now() int64 { return o.now() }

// Bus returns an I²C bus, which is opened once and closed with the robot.
func (o *Opener) Bus(path string) (i2c.Bus, error) {
	if bus, ok := o.buses[path]; ok {
		return bus, nil
	}
	bus, err := o.OpenI2C(path, o.timeout)
	if err != nil {
		return nil, err
	}
	o.buses[path] = bus
	o.closers = append(o.closers, bus)
	return bus, nil
}

// Line opens a GPIO output with a first level. It is closed with the robot.
func (o *Opener) Line(name string, level gpio.Level) (OutputLine, error) {
	line, err := o.OpenLine(name, level)
	if err != nil {
		return nil, err
	}
	o.closers = append(o.closers, line)
	return line, nil
}

// lineOf returns the bus or line of a device. Devices with the same one share it.
func lineOf(d Device) string {
	switch section := d.Chosen().(type) {
	case interface{ Line() string }:
		return section.Line()
	case placed:
		return section.Place()
	}
	return d.Name
}

// Close closes buses and lines, the last first.
func (o *Opener) Close() error {
	var errs []error
	for _, c := range slices.Backward(o.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
