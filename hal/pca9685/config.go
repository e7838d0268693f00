package pca9685

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/internal/keys"
)

// The kinds of a channel.
const (
	Pulse = "pulse" // a pulse's length in µs; 0: none
	Duty  = "duty"  // the part of the period with a high output, 0 to 1
)

// The values of Config.WhenDisarmed.
const (
	Off    = "off"    // no pulses before Arm and after Halt
	Pulses = "pulses" // the last command, failsafe after Halt
)

// Config selects the chip and its outputs. Zero values mean the defaults.
type Config struct {
	// Bus is the I²C bus, such as /dev/i2c-1.
	Bus string `yaml:"bus"`
	// Address is 0x40 (default) to 0x77, by the pins A0 to A5, except 0x70,
	// the address of all chips.
	Address int `yaml:"address" rule:"0|[0x40, 0x77]"`
	// FrequencyHz is the number of periods a second, 24 to 1525; 50 by
	// default. The chip uses the nearest OscillatorHz / 4096 / n.
	FrequencyHz float64 `yaml:"frequency_hz" rule:"[0, 3051]"`
	// OscillatorHz is the frequency of the internal oscillator, 25 MHz by
	// default; measure a pulse to correct its tolerance.
	OscillatorHz float64 `yaml:"oscillator_hz" rule:"0|[20e6, 50e6]"`
	// OutputEnable is the GPIO line that is connected to OE, by its name in
	// gpioinfo or as chip and number, gpiochip0:17. Empty: none; then only the
	// bus can stop the outputs.
	OutputEnable string `yaml:"output_enable"`
	// WhenDisarmed is the state of the outputs before Arm and after Halt: off
	// (default) or pulses.
	WhenDisarmed string `yaml:"when_disarmed" rule:"off|pulses|"`
	// Channels are the used outputs; the others are off.
	Channels []Channel `yaml:"channels"`
}

// Channel is an output.
type Channel struct {
	// Name of the output.
	Name string `yaml:"name"`
	// Pin is its number, 0 to 15.
	Pin int `yaml:"pin" rule:"[0, 15]"`
	// Kind is pulse (default; the unit is us) or duty (0 to 1).
	Kind string `yaml:"kind" rule:"pulse|duty|"`
}

const (
	pins        = 16
	resolution  = 4096
	minPrescale = 3 // the chip's own limit; data sheet section 7.3.5
	maxPrescale = 255
)

// Inputs is empty.
func (Config) Inputs() []hal.Signal { return nil }

// Outputs lists the channels in their order.
func (c Config) Outputs() []hal.Signal {
	signals := make([]hal.Signal, len(c.Channels))
	for i, ch := range c.Channels {
		signals[i] = hal.Signal{Name: ch.Name}
		if ch.Kind != Duty {
			signals[i].Unit = "us"
		}
	}
	return signals
}

// Place is the address of the device; two devices cannot share it.
func (c Config) Place() string {
	return fmt.Sprintf("%s, address %#02x", c.Bus, c.withDefaults().Address)
}

// Validate returns an error that names each key with an invalid value.
func (c Config) Validate() error {
	errs := []error{keys.Check("pca9685", c)}
	c = c.withDefaults()
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("pca9685: "+format, args...)) }
	if c.Bus == "" {
		wrong("bus is empty; set one, such as /dev/i2c-1")
	}
	if c.Address == 0x70 {
		wrong("address is invalid (%#x is for all chips); use another one", c.Address)
	}
	if p := prescale(c.OscillatorHz, c.FrequencyHz); !(p >= minPrescale && p <= maxPrescale) {
		wrong("frequency_hz is out of range (%g); use %.0f to %.0f", c.FrequencyHz,
			math.Ceil(c.OscillatorHz/resolution/(maxPrescale+1)), math.Floor(c.OscillatorHz/resolution/(minPrescale+1)))
	}
	return errors.Join(append(errs, c.checkChannels())...)
}

func (c Config) checkChannels() error {
	if len(c.Channels) == 0 {
		return errors.New("pca9685: channels is empty; name the used outputs")
	}
	names, used := map[string]bool{}, map[int]bool{}
	for i, ch := range c.Channels {
		switch {
		case ch.Name == "":
			return fmt.Errorf("pca9685: channels[%d].name is empty; set one", i)
		case names[ch.Name]:
			return fmt.Errorf("pca9685: channels[%d].name is a duplicate (%q); give every output its own", i, ch.Name)
		case used[ch.Pin]:
			return fmt.Errorf("pca9685: channels[%d].pin is a duplicate (%d); give every output its own", i, ch.Pin)
		}
		names[ch.Name], used[ch.Pin] = true, true
	}
	return nil
}

// prescale returns the value of the register PRE_SCALE for a frequency, by the
// formula of section 7.3.5. It may exceed the register.
func prescale(oscillator, frequency float64) float64 {
	return math.Round(oscillator/(resolution*frequency)) - 1
}

func (c Config) withDefaults() Config {
	c.Address = cmp.Or(c.Address, 0x40)
	c.FrequencyHz = cmp.Or(c.FrequencyHz, 50)
	c.OscillatorHz = cmp.Or(c.OscillatorHz, 25e6)
	c.WhenDisarmed = cmp.Or(c.WhenDisarmed, Off)
	return c
}

// Bounds returns the bounds of calls if t bounds a transaction
// (i2cbus.Conn.Timeout): two for a Write and its check, three more for the settings
// that Arm reads back, and one more than a Write for Halt.
func (c Config) Bounds(t time.Duration) hal.Bounds {
	return hal.Bounds{Act: 2 * t, Arm: 5 * t, Halt: 3 * t}
}
