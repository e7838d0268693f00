package pca9685

import (
	"context"
	"fmt"

	"periph.io/x/conn/v3/gpio"

	"optibfm/hal"
	"optibfm/hal/assembly"
)

// Register registers the driver pca9685.
func Register() {
	assembly.AddDevice("pca9685", "PCA9685 is NXP's PWM for servos, speed controllers and motor drivers.", open)
}

// open opens the OE line, if configured, with the outputs disabled.
func open(_ context.Context, c Config, o *assembly.Opener) (hal.Device, error) {
	bus, err := o.Bus(c.Bus)
	if err != nil {
		return nil, err
	}
	if c.OutputEnable == "" {
		return New(bus, nil, c)
	}
	enable, err := o.Line(c.OutputEnable, gpio.High)
	if err != nil {
		return nil, fmt.Errorf("output_enable: %w", err)
	}
	return New(bus, enable, c)
}

// Line is the bus: its devices are halted one after the other.
func (c Config) Line() string { return c.Bus }
