package scripted

import (
	"errors"
	"fmt"

	"optibfm/rewardsrc"
)

// Mode selects when the operator labels.
type Mode string

// The modes.
const (
	EveryTick Mode = "every_tick" // labels every tick and answers every request
	WhenAsked Mode = "when_asked" // only answers requests
)

// Modes lists the modes.
func Modes() []Mode { return []Mode{EveryTick, WhenAsked} }

// Config describes a simulated operator. Start from [DefaultConfig].
type Config struct {
	// Mode is every_tick or when_asked.
	Mode Mode `yaml:"mode"`
	// DelayS is the reaction delay, in [0, 60] seconds. 0 answers in the same Poll.
	DelayS float64 `yaml:"delay_s"`
	// Blind removes the tick from unasked labels. They keep the time of the press,
	// and the controller's credit window finds the tick.
	Blind bool `yaml:"blind"`
	// IntervalS is the minimum time between two unasked labels, in [0, 3600] seconds.
	// 0 labels every tick.
	IntervalS float64 `yaml:"interval_s"`
	// MistakeProbability is the probability of swapping good and bad, in [0, 1].
	MistakeProbability float64 `yaml:"mistake_probability"`
	// NoiseStd is the standard deviation of Gaussian noise on the label, in [0, 1000].
	NoiseStd float64 `yaml:"noise_std"`
	// Levels is the number of buttons, evenly spaced from reward_low to
	// reward_high, in [0, 1000]. 0 gives exact rewards, 2 gives good and bad; 1 is
	// invalid.
	Levels int `yaml:"levels"`
	// RewardLow is the lowest reward of the task, in [-1e6, 1e6]. Mistakes
	// mirror a reward between it and reward_high; levels divide that range.
	RewardLow float64 `yaml:"reward_low"`
	// RewardHigh is the highest reward of the task, in [-1e6, 1e6], above
	// reward_low.
	RewardHigh float64 `yaml:"reward_high"`
	// Absence sets when the operator is away.
	Absence Absence `yaml:"absence"`
	// Seed of the random mistakes, noise and absences.
	Seed uint64 `yaml:"seed"`
}

// Absence describes when the operator is away. The zero value means never.
type Absence struct {
	// AwayS is how long each absence lasts, in [0, 86400] seconds. 0 means never.
	AwayS float64 `yaml:"away_s"`
	// EveryS is the length of a time window with one absence at a random time, in
	// [0, 86400] seconds. It is greater than away_s unless both are 0.
	EveryS float64 `yaml:"every_s"`
}

// DefaultConfig describes an oracle: it labels every tick at once, without error.
func DefaultConfig() Config {
	return Config{Mode: EveryTick, RewardHigh: 1}
}

// Validate returns an error that names each key with an invalid value.
func (c Config) Validate() error {
	errs := []error{
		rewardsrc.CheckRange("scripted: delay_s", c.DelayS, 0, 60),
		rewardsrc.CheckRange("scripted: interval_s", c.IntervalS, 0, 3600),
		rewardsrc.CheckRange("scripted: mistake_probability", c.MistakeProbability, 0, 1),
		rewardsrc.CheckRange("scripted: noise_std", c.NoiseStd, 0, 1000),
		rewardsrc.CheckRange("scripted: reward_low", c.RewardLow, -1e6, 1e6),
		rewardsrc.CheckRange("scripted: reward_high", c.RewardHigh, -1e6, 1e6),
		rewardsrc.CheckRange("scripted: absence.away_s", c.Absence.AwayS, 0, 86400),
		rewardsrc.CheckRange("scripted: absence.every_s", c.Absence.EveryS, 0, 86400),
	}
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("scripted: "+format, args...)) }
	if c.Mode != EveryTick && c.Mode != WhenAsked {
		fail("mode is unknown (%q); choose one of %s, %s", c.Mode, EveryTick, WhenAsked)
	}
	if c.Levels < 0 || c.Levels == 1 || c.Levels > 1000 {
		fail("levels is out of range (%d); choose 0 for exact rewards, or 2 to 1000", c.Levels)
	}
	if c.RewardHigh <= c.RewardLow {
		fail("reward_high is not above reward_low (%g, %g); set the task's range", c.RewardHigh, c.RewardLow)
	}
	if a := c.Absence; (a.AwayS > 0 || a.EveryS > 0) && a.AwayS >= a.EveryS {
		fail("absence.every_s is not longer than away_s (%g, %g); set both or neither", a.EveryS, a.AwayS)
	}
	return errors.Join(errs...)
}
