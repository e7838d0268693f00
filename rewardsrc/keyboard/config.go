package keyboard

import (
	"errors"

	"optibfm/rewardsrc"
)

// Config describes what keys mean. Start from [DefaultConfig].
type Config struct {
	// GoodValue is the reward of +, in [-1000, 1000].
	GoodValue float64 `yaml:"good_value"`
	// NeutralValue is the reward of 0, in [-1000, 1000].
	NeutralValue float64 `yaml:"neutral_value"`
	// BadValue is the reward of -, in [-1000, 1000]. Less than good_value.
	BadValue float64 `yaml:"bad_value"`
	// RefractoryMS is the time in which presses of the same key count as
	// one, in [0, 5000] ms.
	RefractoryMS float64 `yaml:"refractory_ms"`
	// ReactionMS is how soon after a request was shown a press can be its
	// answer, in [0, 2000] ms.
	ReactionMS float64 `yaml:"reaction_ms"`
	// Bell rings when a label is wanted. A full-screen display decides itself.
	Bell bool `yaml:"bell"`
}

// DefaultConfig is good 1, neutral 0, bad -1.
func DefaultConfig() Config {
	return Config{GoodValue: 1, BadValue: -1, RefractoryMS: 250, ReactionMS: 150, Bell: true}
}

// Validate returns an error that names each key with an invalid value.
func (c Config) Validate() error {
	return errors.Join(
		rewardsrc.CheckRange("keyboard: neutral_value", c.NeutralValue, -1000, 1000),
		rewardsrc.CheckButtons("keyboard", c.GoodValue, c.BadValue, c.RefractoryMS, c.ReactionMS),
	)
}
