package assembly

import (
	"context"

	"optibfm/hal"
	"optibfm/internal/registry"
	"optibfm/internal/sections"
)

// DeviceKind is the kind of drivers of devices: the sections of an element of
// robot.composite.devices, chosen by its driver.
type DeviceKind struct{}

var deviceList = sections.NewList("device", "name", "driver", "stale_ms", "frozen_ticks")

// List implements sections.Kind.
func (DeviceKind) List() *sections.List { return deviceList }

// ChosenBy implements sections.Kind.
func (DeviceKind) ChosenBy() string { return "driver" }

// OmitsDefault implements sections.Kind.
func (DeviceKind) OmitsDefault() bool { return true }

// device is a registered driver of a device.
type device struct {
	open func(ctx context.Context, section any, o *Opener) (hal.Device, error)
	halt func(section any, failsafe []float64) (notes []string, err error) // nil: open and halt
}

var devices = map[string]device{}

// AddDevice registers a driver of a device. open returns it halted.
func AddDevice[C DeviceConfig](name, doc string, open func(context.Context, C, *Opener) (hal.Device, error)) {
	var defaults C
	deviceList.Add(sections.Section{Name: name, Doc: doc, Default: defaults})
	devices[name] = device{open: func(ctx context.Context, section any, o *Opener) (hal.Device, error) {
		d, err := open(ctx, section.(C), o)
		if err != nil { // d may be a nil pointer in an interface
			return nil, err
		}
		return d, nil
	}}
}

// HaltUnopened gives a driver a function that halts the device after its program died, for a driver
// that opens only a device that answers completely. The notes list actuators that do not hold
// their failsafe output.
func HaltUnopened[C DeviceConfig](name string, halt func(C, []float64) (notes []string, err error)) {
	d := devices[name]
	d.halt = func(section any, failsafe []float64) ([]string, error) { return halt(section.(C), failsafe) }
	devices[name] = d
}

// Register registers the driver composite.
func Register() {
	registry.AddRobot("composite", "Composite is a robot made of devices on this computer's buses.",
		Config{Name: "robot", I2CTimeoutMS: 10},
		func(ctx context.Context, c Config, o registry.Opening) (hal.Robot, error) {
			return OpenDevices(ctx, LocalHardware, c, o.Period, o.Now)
		})
}
