package pca9685

import (
	"errors"
	"fmt"
	"math"
	"time"

	"optibfm/hal"
)

// The kinds of a channel.
const (
	Pulse = "pulse" // a pulse's length in µs; 0: none
	Duty  = "duty"  // the part of the time that the output is high, 0 to 1
)

// The values of Config.WhenDisarmed.
const (
	Off    = "off"    // no pulses before Arm and after Halt
	Pulses = "pulses" // what was last commanded, failsafe after Halt
)

// Config says where the chip is and what it drives. Zero values mean the
// defaults.
type Config struct {
	// Bus is the I²C bus, such as /dev/i2c-1.
	Bus string `yaml:"bus"`
	// Address is 0x40 (default) to 0x7F, by the pins A0 to A5, without those
	// that are reserved or shared: 0x70, 0x78 and above.
	Address int `yaml:"address"`
	// FrequencyHz is the number of periods a second, 24 to 1525; 50 by
	// default. The chip makes the nearest of OscillatorHz / 4096 / n.
	FrequencyHz float64 `yaml:"frequency_hz"`
	// OscillatorHz is the frequency of the internal oscillator, 25 MHz by
	// default; measure a pulse to correct its tolerance.
	OscillatorHz float64 `yaml:"oscillator_hz"`
	// OutputEnable is the GPIO line that is connected to OE, by the name that
	// gpioinfo shows or as chip and number, gpiochip0:17. Empty: none; then
	// nothing but the bus stops the outputs.
	OutputEnable string `yaml:"output_enable"`
	// WhenDisarmed is off (default) or pulses: what the outputs carry before
	// Arm and after Halt.
	WhenDisarmed string `yaml:"when_disarmed"`
	// Channels are the outputs that are used; the others are off.
	Channels []Channel `yaml:"channels"`
}

// Channel is an output.
type Channel struct {
	// Name of the output.
	Name string `yaml:"name"`
	// Pin is its number, 0 to 15.
	Pin int `yaml:"pin"`
	// Kind is pulse (default; the unit is us) or duty (0 to 1).
	Kind string `yaml:"kind"`
}

const (
	pins        = 16
	resolution  = 4096
	minPrescale = 3 // the chip's own limit; data sheet section 7.3.5
	maxPrescale = 255
)

// Inputs is empty.
func (Config) Inputs() []hal.Signal { return nil }

// Outputs lists what Write takes: the channels in their order.
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

// Place says where the device is: no two can be in one place.
func (c Config) Place() string {
	return fmt.Sprintf("%s, address %#02x", c.Bus, c.withDefaults().Address)
}

// Validate returns an error that names every key with a value that the chip
// does not have.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("pca9685: "+format, args...)) }
	if c.Bus == "" {
		wrong("bus is empty; give one, such as /dev/i2c-1")
	}
	if c.Address < 0x40 || c.Address >= 0x78 || c.Address == 0x70 {
		wrong("address is none of this chip's (%#x); give 0x40 to 0x77, but not 0x70, which is for all chips", c.Address)
	}
	if !(c.OscillatorHz >= 20e6 && c.OscillatorHz <= 50e6) {
		wrong("oscillator_hz is out of range (%g); give 20000000 to 50000000, or nothing for 25000000", c.OscillatorHz)
	} else if p := prescale(c.OscillatorHz, c.FrequencyHz); !(p >= minPrescale && p <= maxPrescale) {
		wrong("frequency_hz is out of range (%g); give %.0f to %.0f", c.FrequencyHz,
			math.Ceil(c.OscillatorHz/resolution/(maxPrescale+1)), math.Floor(c.OscillatorHz/resolution/(minPrescale+1)))
	}
	if c.WhenDisarmed != Off && c.WhenDisarmed != Pulses {
		wrong("when_disarmed is unknown (%q); choose %s or %s", c.WhenDisarmed, Off, Pulses)
	}
	return errors.Join(append(errs, c.checkChannels())...)
}

func (c Config) checkChannels() error {
	if len(c.Channels) == 0 {
		return errors.New("pca9685: channels is empty; name the outputs that are used")
	}
	names, used := map[string]bool{}, map[int]bool{}
	for i, ch := range c.Channels {
		switch {
		case ch.Name == "":
			return fmt.Errorf("pca9685: channels[%d].name is empty; give one", i)
		case names[ch.Name]:
			return fmt.Errorf("pca9685: channels[%d].name is taken (%q); give every output its own", i, ch.Name)
		case ch.Pin < 0 || ch.Pin >= pins:
			return fmt.Errorf("pca9685: channels[%d].pin is out of range (%d); give 0 to %d", i, ch.Pin, pins-1)
		case used[ch.Pin]:
			return fmt.Errorf("pca9685: channels[%d].pin is taken (%d); give every output its own", i, ch.Pin)
		case ch.Kind != "" && ch.Kind != Pulse && ch.Kind != Duty:
			return fmt.Errorf("pca9685: channels[%d].kind is unknown (%q); choose %s or %s", i, ch.Kind, Pulse, Duty)
		}
		names[ch.Name], used[ch.Pin] = true, true
	}
	return nil
}

// prescale is the value of the register PRE_SCALE for a frequency, by the
// formula of section 7.3.5; possibly one that the register cannot hold.
func prescale(oscillator, frequency float64) float64 {
	return math.Round(oscillator/(resolution*frequency)) - 1
}

func (c Config) withDefaults() Config {
	if c.Address == 0 {
		c.Address = 0x40
	}
	if c.FrequencyHz == 0 {
		c.FrequencyHz = 50
	}
	if c.OscillatorHz == 0 {
		c.OscillatorHz = 25e6
	}
	if c.WhenDisarmed == "" {
		c.WhenDisarmed = Off
	}
	return c
}

// Bounds is what calls take at most where a transaction on the bus takes at most t
// (i2cbus.Conn.Timeout): two for a Write and its check, three settings that Arm reads
// back before it writes, and one more than a Write for Halt.
func (c Config) Bounds(t time.Duration) hal.Bounds {
	return hal.Bounds{Act: 2 * t, Arm: 5 * t, Halt: 3 * t}
}
