package pca9685_test

import (
	"fmt"

	"periph.io/x/conn/v3/gpio/gpiotest"

	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/hal/pca9685"
)

// On a robot the bus comes from i2cbus.Open, and the line from gpioline.Open.
func Example() {
	chip := i2cbustest.NewPCA9685()
	bus := i2cbustest.New(map[uint16]*i2cbustest.Chip{0x40: &chip.Chip})
	enable := &gpiotest.Pin{N: "GPIO17"}

	pwm, err := pca9685.New(bus, enable, pca9685.Config{
		Bus:      "/dev/i2c-1",
		Channels: []pca9685.Channel{{Name: "steering", Pin: 0}, {Name: "throttle", Pin: 1}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	neutral := []float64{1500, 1500}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"neutral, not armed", func() error { return pwm.Write(neutral) }},
		{"armed", pwm.Arm},
		{"throttle", func() error { return pwm.Write([]float64{1500, 1750}) }},
		{"halted", func() error { return pwm.Halt(neutral) }},
	} {
		if err := step.do(); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %d and %d ticks, OE %v\n", step.what, chip.Ticks(0), chip.Ticks(1), enable.L)
	}
	// Output:
	// neutral, not armed: 0 and 0 ticks, OE High
	// armed: 307 and 307 ticks, OE Low
	// throttle: 307 and 359 ticks, OE Low
	// halted: 0 and 0 ticks, OE High
}
