package evdev

import (
	"errors"
	"fmt"
	"slices"

	"optibfm/internal/keys"
	"optibfm/rewardsrc/panel"
)

// Config binds a device's keys to labels. Start from [DefaultConfig].
type Config struct {
	// Device identifies the device. `optibfm label bind` fills it in.
	Device Match `yaml:"device"`
	// Grab keeps the device's events from everybody else: a clicker then
	// turns no pages. Do not grab the keyboard that you log in with.
	Grab bool `yaml:"grab"`
	// Buttons are keys, such as KEY_VOLUMEUP, BTN_A or a number.
	panel.Buttons `yaml:",inline"`
	// Axis is a stick, slider or analogue pedal.
	Axis Axis `yaml:"axis"`
	// Labels sets the values and times of presses.
	Labels panel.Config `yaml:"labels"`
}

// Match identifies a device. An empty field matches any device.
type Match struct {
	// Bus is the bus of the device, such as usb or bluetooth.
	Bus string `yaml:"bus"`
	// Vendor is the vendor's number, four hexadecimal digits in quotes.
	Vendor string `yaml:"vendor"`
	// Product is the product's number, four hexadecimal digits in quotes.
	Product string `yaml:"product"`
	// Name is the name that the device reports.
	Name string `yaml:"name"`
	// Uniq is the device's unique number, if it has one.
	Uniq string `yaml:"uniq"`
	// Phys is the physical path, needed only to distinguish two identical devices.
	Phys string `yaml:"phys"`
}

// Axis is a stick, slider or pedal. One direction is good, the other bad.
type Axis struct {
	// Code is the axis, such as ABS_Y or a number. Empty: none.
	Code string `yaml:"code"`
	// Rest is its rest position: centre, low or high.
	Rest string `yaml:"rest"`
	// Inverted makes the small numbers good, for a stick whose numbers grow
	// downwards.
	Inverted bool `yaml:"inverted"`
	// DeadZone is the part of the range that counts as rest, in [0.01, 0.9].
	DeadZone float64 `yaml:"dead_zone" rule:"[0.01, 0.9]"`
}

// The values of Axis.Rest.
const (
	RestCentre = "centre"
	RestLow    = "low"
	RestHigh   = "high"
)

// Rests lists the values of Axis.Rest.
func Rests() []string { return []string{RestCentre, RestLow, RestHigh} }

// Choices lists the values of a key that has choices.
func (Axis) Choices(key string) []string { return map[string][]string{"rest": Rests()}[key] }

// DefaultConfig has no device, grabs it, and uses the volume buttons for good
// and bad.
func DefaultConfig() Config {
	return Config{
		Grab:    true,
		Buttons: panel.Buttons{Good: "KEY_VOLUMEUP", Bad: "KEY_VOLUMEDOWN"},
		Axis:    Axis{Rest: RestCentre, DeadZone: 0.15},
		Labels:  panel.DefaultConfig(),
	}
}

// Validate returns an error that names each key with an invalid value, except
// Labels: panel.Config.Validate checks that.
func (c Config) Validate() error {
	return errors.Join(append(slices.Concat(c.Device.check(), c.checkKeys(), c.Axis.check()), keys.Check("evdev", c))...)
}

// Bound returns an error unless a device and a key that gives labels are
// configured.
func (c Config) Bound() error {
	switch {
	case c.Device == Match{}:
		return errors.New("evdev: device is empty; run `optibfm label bind`, or set device.name")
	case !c.Teach() && c.Axis.Code == "":
		return errors.New("evdev: no key gives labels; set good, bad, better, worse, goal or axis.code")
	}
	return nil
}

func (c *Config) checkKeys() (errs []error) {
	taken := make(map[uint16]panel.Role)
	for _, r := range panel.Roles() {
		name := *c.Button(r)
		if name == "" {
			continue
		}
		code, err := ParseKey(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("evdev: %s is %w", r, err))
			continue
		}
		if other, twice := taken[code]; twice {
			errs = append(errs, fmt.Errorf("evdev: %s is the same key as %s (%s); choose another key", r, other, name))
		}
		taken[code] = r
	}
	return errs
}

func (a Axis) check() (errs []error) {
	if a.Code != "" {
		if _, err := ParseAxis(a.Code); err != nil {
			errs = append(errs, fmt.Errorf("evdev: axis.code is %w", err))
		}
	}
	return errs
}

func (m Match) check() (errs []error) {
	if m.Bus != "" {
		if _, ok := busNumber(m.Bus); !ok {
			errs = append(errs, fmt.Errorf("evdev: device.bus is unknown (%q); use usb, bluetooth or i2c", m.Bus))
		}
	}
	for _, f := range []struct{ key, value string }{{"vendor", m.Vendor}, {"product", m.Product}} {
		if f.value == "" {
			continue
		}
		if _, ok := hexNumber(f.value); !ok {
			errs = append(errs, fmt.Errorf("evdev: device.%s is invalid (%q); use four hexadecimal digits in quotes",
				f.key, f.value))
		}
	}
	return errs
}
