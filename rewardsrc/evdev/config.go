package evdev

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"optibfm/rewardsrc/panel"
)

// Config binds a device's keys to labels. Start from [DefaultConfig].
type Config struct {
	// Device says which device it is. Let `optibfm label bind` fill it in.
	Device Match `yaml:"device"`
	// Grab keeps the device's events from everybody else: a clicker then
	// turns no pages. Do not grab the keyboard that you log in with.
	Grab bool `yaml:"grab"`
	// Good is the key for a good reward, such as KEY_VOLUMEUP, BTN_A or a
	// number. Empty: none.
	Good string `yaml:"good"`
	// Bad is the key for a bad reward. Empty: none.
	Bad string `yaml:"bad"`
	// CantTell is the key that closes a request without a label. Empty: none.
	CantTell string `yaml:"cant_tell"`
	// Undo is the key that takes the newest label back. Empty: none.
	Undo string `yaml:"undo"`
	// Axis is a stick, slider or analogue pedal.
	Axis Axis `yaml:"axis"`
	// Labels says what presses are worth.
	Labels panel.Config `yaml:"labels"`
}

// Match says which device is meant. What is empty does not matter.
type Match struct {
	// Bus is what the device hangs on, such as usb or bluetooth.
	Bus string `yaml:"bus"`
	// Vendor is the vendor's number, four hexadecimal digits in quotes.
	Vendor string `yaml:"vendor"`
	// Product is the product's number, four hexadecimal digits in quotes.
	Product string `yaml:"product"`
	// Name is what the device calls itself.
	Name string `yaml:"name"`
	// Uniq is the device's unique number, where it has one.
	Uniq string `yaml:"uniq"`
	// Phys is where it is plugged in; needed only to tell two equal devices
	// apart.
	Phys string `yaml:"phys"`
}

// Axis is something that can be deflected. One way is good, the other bad.
type Axis struct {
	// Code is the axis, such as ABS_Y or a number. Empty: none.
	Code string `yaml:"code"`
	// Rest is where it is when nobody touches it: centre, low or high.
	Rest string `yaml:"rest"`
	// Inverted makes the small numbers good, as where a stick's numbers grow
	// downwards.
	Inverted bool `yaml:"inverted"`
	// DeadZone is the part of the way that is still rest, in [0.01, 0.9].
	DeadZone float64 `yaml:"dead_zone"`
}

// The values of Axis.Rest.
const (
	RestCentre = "centre"
	RestLow    = "low"
	RestHigh   = "high"
)

// Rests lists the values of Axis.Rest.
func Rests() []string { return []string{RestCentre, RestLow, RestHigh} }

// DefaultConfig is no device yet, grabbed, and the volume buttons for good and
// bad.
func DefaultConfig() Config {
	return Config{
		Grab: true, Good: "KEY_VOLUMEUP", Bad: "KEY_VOLUMEDOWN",
		Axis:   Axis{Rest: RestCentre, DeadZone: 0.15},
		Labels: panel.DefaultConfig(),
	}
}

// key is the bound key of a role, "" for none.
func (c *Config) key(r panel.Role) string {
	return [panel.NumRoles]string{c.Good, c.Bad, c.CantTell, c.Undo}[r]
}

// Validate returns an error that names every key with a value that makes no
// sense. Labels is not looked at: panel.Config.Validate does that.
func (c Config) Validate() error {
	return errors.Join(slices.Concat(c.Device.check(), c.checkKeys(), c.Axis.check())...)
}

// Bound says that a device is chosen and gives labels; a source of this kind
// needs that.
func (c Config) Bound() error {
	switch {
	case c.Device == Match{}:
		return errors.New("evdev: device is empty: let `optibfm label bind` find out which device you hold, or give its name")
	case c.Good == "" && c.Bad == "" && c.Axis.Code == "":
		return errors.New("evdev: good is empty, and so are bad and axis.code: bind at least one of them")
	}
	return nil
}

func (c *Config) checkKeys() (errs []error) {
	taken := make(map[uint16]panel.Role)
	for _, r := range panel.Roles() {
		name := c.key(r)
		if name == "" {
			continue
		}
		code, err := ParseKey(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("evdev: %s is %w", r, err))
			continue
		}
		if other, twice := taken[code]; twice {
			errs = append(errs, fmt.Errorf("evdev: %s is the same key as %s (%s): give each its own", r, other, name))
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
	if !slices.Contains(Rests(), a.Rest) {
		errs = append(errs, fmt.Errorf("evdev: axis.rest is unknown (%q): use %s", a.Rest, strings.Join(Rests(), ", ")))
	}
	if !(a.DeadZone >= 0.01 && a.DeadZone <= 0.9) {
		errs = append(errs, fmt.Errorf("evdev: axis.dead_zone is out of range (%g): choose a value from 0.01 to 0.9", a.DeadZone))
	}
	return errs
}

func (m Match) check() (errs []error) {
	if m.Bus != "" {
		if _, ok := busNumber(m.Bus); !ok {
			errs = append(errs, fmt.Errorf("evdev: device.bus is unknown (%q): use usb, bluetooth, i2c, virtual or another of the kernel's", m.Bus))
		}
	}
	for _, f := range []struct{ key, value string }{{"vendor", m.Vendor}, {"product", m.Product}} {
		if f.value == "" {
			continue
		}
		if _, ok := hexNumber(f.value); !ok {
			errs = append(errs, fmt.Errorf("evdev: device.%s is no number (%q): give up to four hexadecimal digits in quotes, as lsusb shows them", f.key, f.value))
		}
	}
	return errs
}
