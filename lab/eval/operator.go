package eval

import (
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/scripted"
)

// absenceS is the time from one absence of an operator to the next, s.
const absenceS = 60

// newOperator returns the operator of a trial. The default labels every step at once and exactly.
func newOperator(t Trial) (rewardsrc.Source, error) {
	s := t.settings
	cfg := scripted.DefaultConfig()
	if s.asks() {
		cfg.Mode = scripted.WhenAsked
	}
	cfg.RewardLow, cfg.RewardHigh = rewardRange(t.Env)
	cfg.DelayS, cfg.MistakeProbability = s.Delay[0], s.Mistakes[0]
	cfg.NoiseStd, cfg.Levels = s.Noise[0], s.Levels[0]
	if s.Silence[0] > 0 {
		cfg.Absence = scripted.Absence{AwayS: absenceS * s.Silence[0], EveryS: absenceS}
	}
	cfg.Seed = t.Seed
	operator, err := scripted.New(cfg)
	if err != nil || s.Bias[0] == 0 {
		return operator, err
	}
	return &biased{operator, s.Bias[0] * (cfg.RewardHigh - cfg.RewardLow)}, nil
}

// asks reports whether the operator only answers requests.
func (s Settings) asks() bool { return len(s.Kappa) > 0 || s.LabelsPerMinute[0] > 0 }

// biased is an operator with too high labels.
type biased struct {
	*scripted.Operator
	by float64
}

func (b *biased) Poll(dst []rewardsrc.Label) int {
	n := b.Operator.Poll(dst)
	for i := range dst[:n] {
		if dst[i].Kind == rewardsrc.Value {
			dst[i].Value += b.by
		}
	}
	return n
}

// silent is the source of a trial without an operator.
type silent struct{}

func (silent) Ask(rewardsrc.Request)      {}
func (silent) Poll([]rewardsrc.Label) int { return 0 }
func (silent) Halt() error                { return nil }
