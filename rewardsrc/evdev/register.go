package evdev

import (
	"optibfm/internal/sections"
	"optibfm/rewardsrc"
)

// Local is the input system of this computer. Tests replace it.
var Local System = Kernel{}

// Register registers the label device evdev.
func Register() {
	sections.AddSource("evdev", "Evdev is a gamepad, pedal, clicker, remote or another input device.", DefaultConfig(),
		func(c Config, notice func(rewardsrc.Notice)) (rewardsrc.Source, error) {
			return Open(c, Options{System: Local, Display: notice})
		})
}

// CheckParts reports the mistakes of Labels.
func (c Config) CheckParts(report func(key string, err error)) { report("labels", c.Labels.Validate()) }

// Streams reports whether an axis or a held button gives a stream of labels.
func (c Config) Streams() bool { return c.Axis.Code != "" || c.Labels.HoldAfterMS > 0 }

// Scale returns the values of good and bad.
func (c Config) Scale() (good, bad float64) { return c.Labels.GoodValue, c.Labels.BadValue }
