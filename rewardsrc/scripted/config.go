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
	EveryTick Mode = "every_tick" // every tick, and requests
	WhenAsked Mode = "when_asked" // requests only
)

// Modes lists the modes.
func Modes() []Mode { return []Mode{EveryTick, WhenAsked} }

// Config describes a simulated operator. Start from [DefaultConfig].
type Config struct {
	// Mode is every_tick or when_asked.
	Mode Mode `yaml:"mode"`
	// DelayS is the reaction delay, in [0, 60] seconds. 0 answers in the same Poll.
	DelayS float64 `yaml:"delay_s"`
	// Blind unasked labels have the time of the press but not the tick: the
	// controller's credit window has to find it.
	Blind bool `yaml:"blind"`
	// IntervalS is the least time between two unasked labels, in [0, 3600] seconds.
	// 0 labels every tick.
	IntervalS float64 `yaml:"interval_s"`
	// MistakeProbability is how often good and bad are confused, in [0, 1].
	MistakeProbability float64 `yaml:"mistake_probability"`
	// NoiseStd is the standard deviation of Gaussian noise on the label, in [0, 1000].
	NoiseStd float64 `yaml:"noise_std"`
	// Levels is the number of buttons, evenly spaced from reward_low to
	// reward_high, in [0, 1000]. 0 gives exact rewards, 2 is good or bad; 1 is refused.
	Levels int `yaml:"levels"`
	// RewardLow is the least reward of the task, in [-1e6, 1e6]. Mistakes
	// mirror a reward between it and reward_high; levels divide that range.
	RewardLow float64 `yaml:"reward_low"`
	// RewardHigh is the greatest reward of the task, in [-1e6, 1e6], above
	// reward_low.
	RewardHigh float64 `yaml:"reward_high"`
	// Absence makes the operator leave now and then.
	Absence Absence `yaml:"absence"`
	// Seed of mistakes, noise and absences.
	Seed uint64 `yaml:"seed"`
}

// Absence describes when the operator is away. The zero value: never.
type Absence struct {
	// AwayS is how long each absence lasts, in [0, 86400] seconds. 0 means never.
	AwayS float64 `yaml:"away_s"`
	// EveryS is the window that holds one absence, at a random moment of it,
	// in [0, 86400] seconds. Greater than away_s unless both are 0.
	EveryS float64 `yaml:"every_s"`
}

// DefaultConfig is an oracle: every tick, at once, exact.
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
		fail("absence.every_s is not longer than away_s (%g, %g); set both, or none", a.EveryS, a.AwayS)
	}
	return errors.Join(errs...)
}
