package scripted

import (
	"errors"
	"fmt"

	"optibfm/internal/keys"
)

// Mode selects when the operator labels.
type Mode string

// The modes.
const (
	EveryTick Mode = "every_tick" // labels every tick and answers every request
	WhenAsked Mode = "when_asked" // only answers requests
)

// Config describes a simulated operator. Start from [DefaultConfig].
type Config struct {
	// Mode is every_tick or when_asked.
	Mode Mode `yaml:"mode" rule:"every_tick|when_asked"`
	// DelayS is the reaction delay, in [0, 60] seconds. 0 answers in the same Poll.
	DelayS float64 `yaml:"delay_s" rule:"[0, 60]"`
	// ReactionMinS is the shortest reaction time, in [0, 60] seconds, above 0 if reaction_max_s is.
	ReactionMinS float64 `yaml:"reaction_min_s" rule:"[0, 60]"`
	// ReactionMaxS is the longest reaction time, in [0, 60] seconds. Each label has its own, after
	// delay_s. 0: only delay_s.
	ReactionMaxS float64 `yaml:"reaction_max_s" rule:"[0, 60]"`
	// Blind removes the tick from unasked labels. They keep the time of the press,
	// and the controller's credit window finds the tick.
	Blind bool `yaml:"blind"`
	// IntervalS is the minimum time between two unasked labels, in [0, 3600] seconds.
	// 0 labels every tick.
	IntervalS float64 `yaml:"interval_s" rule:"[0, 3600]"`
	// MemoryS is the time constant of the operator's memory, in [0, 3600] seconds. It judges the
	// rewards before its press, weighted by exp(-age/memory_s). 0: exactly the labelled state.
	MemoryS float64 `yaml:"memory_s" rule:"[0, 3600]"`
	// Relative is the share of the recent average reward that the operator subtracts, in [0, 1].
	// 0 judges the reward, 1 only the difference; an average robot then gets the middle of the
	// range.
	Relative float64 `yaml:"relative" rule:"[0, 1]"`
	// RelativeS is the time constant of that average, in [0, 86400] seconds, above 0 if relative
	// is.
	RelativeS float64 `yaml:"relative_s" rule:"[0, 86400]"`
	// CompareS makes the operator compare the labelled state with the one compare_s before, in
	// [0, 3600] seconds, at most 1022 ticks. It cannot tell differences below 5 % of the range. Set
	// controller.credit.compare_s to the same. 0: it gives rewards.
	CompareS float64 `yaml:"compare_s" rule:"[0, 3600]"`
	// Drift moves the zero of the operator's judgement.
	Drift Drift `yaml:"drift"`
	// MistakeProbability is the probability of swapping good and bad, in [0, 1].
	MistakeProbability float64 `yaml:"mistake_probability" rule:"[0, 1]"`
	// NoiseStd is the standard deviation of Gaussian noise on the label, in [0, 1000].
	NoiseStd float64 `yaml:"noise_std" rule:"[0, 1000]"`
	// Levels is the number of buttons, evenly spaced from reward_low to
	// reward_high, in [0, 1000]. 0 gives exact rewards, 2 gives good and bad; 1 is
	// invalid.
	Levels int `yaml:"levels" rule:"0|[2, 1000]"`
	// Bias is added to each label after levels, in [-1e6, 1e6]: the zero of a device.
	Bias float64 `yaml:"bias" rule:"[-1e6, 1e6]"`
	// RewardLow is the lowest reward of the task, in [-1e6, 1e6]. Mistakes
	// mirror a reward between it and reward_high; levels divide that range.
	RewardLow float64 `yaml:"reward_low" rule:"[-1e6, 1e6]"`
	// RewardHigh is the highest reward of the task, in [-1e6, 1e6], above
	// reward_low.
	RewardHigh float64 `yaml:"reward_high" rule:"[-1e6, 1e6]"`
	// Absence sets when the operator is away.
	Absence Absence `yaml:"absence"`
	// Fatigue lets the operator answer less often.
	Fatigue Fatigue `yaml:"fatigue"`
	// MaxLabels is the number of labels after which the operator is silent, in [0, 1e9]. 0: no
	// limit.
	MaxLabels int `yaml:"max_labels" rule:"[0, 1e9]"`
	// Seed of everything random: reactions, drift, mistakes, noise, absences and fatigue.
	Seed uint64 `yaml:"seed" rule:"[0, inf)"`
}

// Drift is a random walk of the zero of the operator's judgement, in units of reward. It is added
// to the judged reward, before mistakes and levels. The zero value means none.
type Drift struct {
	// Start is the zero at first, in [-1e6, 1e6]; above 0: the operator is generous.
	Start float64 `yaml:"start" rule:"[-1e6, 1e6]"`
	// MinuteStd is the standard deviation of the walk after one minute, in [0, 1e6]. It grows with
	// the square root of time.
	MinuteStd float64 `yaml:"minute_std" rule:"[0, 1e6]"`
	// Bound is the largest distance from start, where the walk is reflected, in [0, 1e6]; above 0
	// if minute_std is.
	Bound float64 `yaml:"bound" rule:"[0, 1e6]"`
}

// Fatigue lowers the probability of a label to 0.5^(n/half_life), where n counts the recent labels,
// each weighted by exp(-age/recovery_s). The zero value means none.
type Fatigue struct {
	// HalfLife is the number of recent labels that halves the probability, in [0, 1e6]. 0: no
	// fatigue.
	HalfLife float64 `yaml:"half_life" rule:"[0, 1e6]"`
	// RecoveryS is the time constant of recovery, also during absences, in [0, 86400] seconds,
	// above 0 if half_life is.
	RecoveryS float64 `yaml:"recovery_s" rule:"[0, 86400]"`
}

// Absence describes when the operator is away. The zero value means never.
type Absence struct {
	// AwayS is the length of each absence, in [0, 86400] seconds. 0 means never.
	AwayS float64 `yaml:"away_s" rule:"[0, 86400]"`
	// EveryS is the length of a time window with one absence at a random time, in
	// [0, 86400] seconds. It is greater than away_s unless both are 0.
	EveryS float64 `yaml:"every_s" rule:"[0, 86400]"`
}

// DefaultConfig describes an oracle: it labels every tick at once, without error.
func DefaultConfig() Config {
	return Config{Mode: EveryTick, RewardHigh: 1}
}

// Validate returns an error that names each key with an invalid value.
func (c Config) Validate() error {
	errs := append([]error{keys.Check("scripted", c)}, c.checkPairs()...)
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("scripted: "+format, args...)) }
	if c.RewardHigh <= c.RewardLow {
		fail("reward_high is not above reward_low (%g, %g); set the task's range", c.RewardHigh, c.RewardLow)
	}
	return errors.Join(errs...)
}

// checkPairs checks keys that need another key. Values out of range are reported elsewhere.
func (c Config) checkPairs() (errs []error) {
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("scripted: "+format, args...)) }
	if c.ReactionMaxS < c.ReactionMinS {
		fail("reaction_max_s is below reaction_min_s (%g, %g); set both or neither", c.ReactionMaxS, c.ReactionMinS)
	} else if c.ReactionMaxS > 0 && c.ReactionMinS == 0 {
		fail("reaction_min_s is 0, but reaction_max_s is not (%g); set both or neither", c.ReactionMaxS)
	}
	if c.Relative > 0 && c.RelativeS == 0 {
		fail("relative_s is 0, but relative is not (%g); set both or neither", c.Relative)
	}
	if c.Drift.MinuteStd > 0 && c.Drift.Bound == 0 {
		fail("drift.bound is 0, but drift.minute_std is not (%g); set both or neither", c.Drift.MinuteStd)
	}
	if c.Fatigue.HalfLife > 0 && c.Fatigue.RecoveryS == 0 {
		fail("fatigue.recovery_s is 0, but fatigue.half_life is not (%g); set both or neither", c.Fatigue.HalfLife)
	}
	if a := c.Absence; (a.AwayS > 0 || a.EveryS > 0) && a.AwayS >= a.EveryS {
		fail("absence.every_s is not longer than away_s (%g, %g); set both or neither", a.EveryS, a.AwayS)
	}
	return errs
}
