package eval

import (
	"optibfm/controller"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/scripted"
)

// absenceS is the length in seconds of a window with one absence of an operator.
const absenceS = 60

// Constants of the simulated person. Rewards are fractions of their range. Package scripted has the
// sources of reaction and memory; drift and fatigue have no published measurement.
const (
	reactionMinS     = 0.3
	reactionMaxS     = 1.5
	memoryS          = 0.25 // 86 % of the weight lies in the last 0.5 s before the press
	driftPerMinute   = 0.05 // standard deviation
	driftBound       = 0.2
	fatigueHalfLife  = 100 // labels
	fatigueRecoveryS = 300
)

// newOperator returns the operator of a trial. The default labels every step at once and exactly.
func newOperator(t Trial) (rewardsrc.Source, error) { return scripted.New(operatorConfig(t)) }

func operatorConfig(t Trial) scripted.Config {
	s := t.settings
	cfg := scripted.DefaultConfig()
	if s.asks() {
		cfg.Mode = scripted.WhenAsked
	}
	cfg.RewardLow, cfg.RewardHigh = t.rewardRange()
	cfg.DelayS, cfg.MistakeProbability = s.Delay[0], s.Mistakes[0]
	cfg.NoiseStd, cfg.Levels = s.Noise[0], s.Levels[0]
	if s.Silence[0] > 0 {
		cfg.Absence = scripted.Absence{AwayS: absenceS * s.Silence[0], EveryS: absenceS}
	}
	cfg.Seed, cfg.MaxLabels = t.Seed, s.MaxLabels[0]
	span := cfg.RewardHigh - cfg.RewardLow
	if s.Operator[0] != OperatorPerson {
		cfg.Bias = s.Bias[0] * span
		if s.Operator[0] == OperatorComparing {
			cfg.CompareS = controller.DefaultConfig().Credit.CompareS
		}
		return cfg
	}
	cfg.ReactionMinS, cfg.ReactionMaxS, cfg.MemoryS = reactionMinS, reactionMaxS, memoryS
	cfg.Drift = scripted.Drift{Start: s.Bias[0] * span, MinuteStd: driftPerMinute * span, Bound: driftBound * span}
	cfg.Fatigue = scripted.Fatigue{HalfLife: fatigueHalfLife, RecoveryS: fatigueRecoveryS}
	return cfg
}

// asks reports whether the operator only answers requests.
func (s Settings) asks() bool { return len(s.Kappa) > 0 || s.LabelsPerMinute[0] > 0 }

// longestDelay returns the longest time from a state to its label, s.
func (s Settings) longestDelay() float64 {
	if s.Operator[0] == OperatorPerson {
		return s.Delay[0] + reactionMaxS
	}
	return s.Delay[0]
}

// silent is the source of a trial without an operator.
type silent struct{}

func (silent) Ask(rewardsrc.Request)      {}
func (silent) Poll([]rewardsrc.Label) int { return 0 }
func (silent) Halt() error                { return nil }
