package keyboard

import (
	"errors"
	"fmt"
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

// Validate returns an error that names every key with a value that makes no
// sense.
func (c Config) Validate() error {
	errs := []error{
		within("good_value", c.GoodValue, -1000, 1000),
		within("neutral_value", c.NeutralValue, -1000, 1000),
		within("bad_value", c.BadValue, -1000, 1000),
		within("refractory_ms", c.RefractoryMS, 0, 5000),
		within("reaction_ms", c.ReactionMS, 0, 2000),
	}
	if c.GoodValue <= c.BadValue {
		errs = append(errs, fmt.Errorf("keyboard: good_value is not above bad_value (%g, %g): give the better reward to good", c.GoodValue, c.BadValue))
	}
	return errors.Join(errs...)
}

// within also refuses NaN, which no comparison holds for.
func within(key string, v, low, high float64) error {
	if v >= low && v <= high {
		return nil
	}
	return fmt.Errorf("keyboard: %s is out of range (%g): choose a value from %g to %g", key, v, low, high)
}
