package gpio

import (
	"optibfm/internal/sections"
	"optibfm/rewardsrc"
)

// Register registers the label device gpio.
func Register() {
	sections.AddSource("gpio", "GPIO is buttons on the computer's pins.", DefaultConfig(),
		func(c Config, notice func(rewardsrc.Notice)) (rewardsrc.Source, error) {
			return Open(c, Options{Display: notice})
		})
}

// CheckParts reports the mistakes of Labels.
func (c Config) CheckParts(report func(key string, err error)) { report("labels", c.Labels.Validate()) }

// Streams reports whether a held button gives a stream of labels.
func (c Config) Streams() bool { return c.Labels.HoldAfterMS > 0 }

// Scale returns the values of good and bad.
func (c Config) Scale() (good, bad float64) { return c.Labels.GoodValue, c.Labels.BadValue }
