package keyboard

import (
	"errors"
	"fmt"

	"optibfm/internal/keys"
	"optibfm/rewardsrc"
)

// Config describes what keys mean. Start from [DefaultConfig].
type Config struct {
	// GoodValue is the reward of +, in [-1000, 1000].
	GoodValue float64 `yaml:"good_value" rule:"[-1000, 1000]"`
	// NeutralValue is the reward of 0, in [-1000, 1000], between bad_value and good_value.
	NeutralValue float64 `yaml:"neutral_value" rule:"[-1000, 1000]"`
	// BadValue is the reward of -, in [-1000, 1000]. Less than good_value.
	BadValue float64 `yaml:"bad_value" rule:"[-1000, 1000]"`
	// RefractoryMS is the time in which presses of the same key count as
	// one, in [0, 5000] ms.
	RefractoryMS float64 `yaml:"refractory_ms" rule:"[0, 5000]"`
	// ReactionMS is how soon after a request was shown a press can be its
	// answer, in [0, 2000] ms.
	ReactionMS float64 `yaml:"reaction_ms" rule:"[0, 2000]"`
	// Bell rings when a label is wanted. A full-screen display decides itself.
	Bell bool `yaml:"bell"`
}

// DefaultConfig is good 1, neutral 0.5, bad 0.
func DefaultConfig() Config {
	return Config{GoodValue: 1, NeutralValue: 0.5, RefractoryMS: 250, ReactionMS: 150, Bell: true}
}

// Validate returns an error that names each key with an invalid value.
func (c Config) Validate() error {
	err := errors.Join(
		keys.Check("keyboard", c), rewardsrc.CheckButtons("keyboard", c.GoodValue, c.BadValue),
	)
	if err == nil && (c.NeutralValue < c.BadValue || c.NeutralValue > c.GoodValue) {
		return fmt.Errorf("keyboard: neutral_value is not between bad_value and good_value (%g, %g, %g); use %g",
			c.NeutralValue, c.BadValue, c.GoodValue, (c.BadValue+c.GoodValue)/2)
	}
	return err
}
