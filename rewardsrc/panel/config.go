package panel

import (
	"errors"

	"optibfm/internal/keys"
	"optibfm/rewardsrc"
)

// Config sets the values and times of presses. Start from [DefaultConfig].
type Config struct {
	// GoodValue is the reward of good, in [-1000, 1000].
	GoodValue float64 `yaml:"good_value" rule:"[-1000, 1000]"`
	// BadValue is the reward of bad, in [-1000, 1000]. Less than good_value.
	BadValue float64 `yaml:"bad_value" rule:"[-1000, 1000]"`
	// RefractoryMS is the time after a press in which further presses of the
	// same button do not count, in [0, 5000] ms.
	RefractoryMS float64 `yaml:"refractory_ms" rule:"[0, 5000]"`
	// ReactionMS is how soon after a request was shown a press can be its
	// answer, in [0, 2000] ms.
	ReactionMS float64 `yaml:"reaction_ms" rule:"[0, 2000]"`
	// HoldAfterMS is the time that good or bad must be held to become a stream of
	// labels, in [0, 10000] ms. 0: a held button is one label.
	HoldAfterMS float64 `yaml:"hold_after_ms" rule:"[0, 10000]"`
	// IntervalMS is the time between two labels of a stream, from a held
	// button or a deflected axis, in [20, 10000] ms.
	IntervalMS float64 `yaml:"interval_ms" rule:"[20, 10000]"`
	// Weight is the confidence of each label of a stream, in (0, 1]. It is
	// below 1 because successive labels carry nearly the same information.
	Weight float64 `yaml:"weight" rule:"(0, 1]"`
}

// Buttons names the button of each role, "" for none. evdev embeds it with the
// names of keys, gpio with lines.
type Buttons struct {
	// Good is the button for a good reward: of evdev a key such as
	// KEY_VOLUMEUP, BTN_A or a number, of gpio a line. Empty: none.
	Good string `yaml:"good"`
	// Bad is the button for a bad reward. Empty: none.
	Bad string `yaml:"bad"`
	// Better is the button for "better than a moment ago". Empty: none.
	Better string `yaml:"better"`
	// Worse is the button for "worse than a moment ago". Empty: none.
	Worse string `yaml:"worse"`
	// Goal is the button for "this is it": the robot should be in the
	// current state. Empty: none.
	Goal string `yaml:"goal"`
	// CantTell is the button that closes a request without a label.
	// Empty: none.
	CantTell string `yaml:"cant_tell"`
	// Undo is the button that takes the newest label back. Empty: none.
	Undo string `yaml:"undo"`
}

// Button returns the field of a role.
func (b *Buttons) Button(r Role) *string {
	return [NumRoles]*string{&b.Good, &b.Bad, &b.Better, &b.Worse, &b.Goal, &b.CantTell, &b.Undo}[r]
}

// Teach reports whether one of the buttons gives labels with a value.
func (b *Buttons) Teach() bool {
	for _, r := range Roles() {
		if r != CantTell && r != Undo && *b.Button(r) != "" {
			return true
		}
	}
	return false
}

// DefaultConfig is good 1, bad 0, and streams of five labels of weight 0.2 a
// second.
func DefaultConfig() Config {
	return Config{GoodValue: 1, RefractoryMS: 250, ReactionMS: 150, IntervalMS: 200, Weight: 0.2}
}

// Validate returns an error that names each key with an invalid value.
func (c Config) Validate() error {
	return errors.Join(keys.Check("panel", c), rewardsrc.CheckButtons("panel", c.GoodValue, c.BadValue))
}

// value is the reward of a deflection from -1 (bad) to 1 (good).
func (c *Config) value(deflection float64) float64 {
	return ((1+deflection)*c.GoodValue + (1-deflection)*c.BadValue) / 2
}

// nanos converts a key in milliseconds.
func nanos(ms float64) int64 { return int64(ms * 1e6) }
