package haltest

import "optibfm/hal"

// Simulator is a fake robot that can be reset and tells a reward.
type Simulator struct {
	*Robot

	// RewardOf is the reward of an observation; nil: there is none.
	RewardOf func(obs []float32) float64

	// OnReset, where not nil, is called by Reset; its error is returned.
	OnReset func(seed uint64) error

	// Resets counts the resets that succeeded, Seed is the last one's.
	Resets int
	Seed   uint64

	last   []float32 // the observation that the last Sense returned
	sensed bool      // since the last reset
}

var (
	_ hal.Robot    = (*Simulator)(nil)
	_ hal.Resetter = (*Simulator)(nil)
	_ hal.Rewarder = (*Simulator)(nil)
)

// NewSimulator gives a halted simulator with the given channels. It panics
// where the spec is invalid.
func NewSimulator(spec hal.Spec) *Simulator {
	return &Simulator{Robot: New(spec), last: make([]float32, len(spec.Obs))}
}

// Sense gives the next observation and remembers it for Reward.
func (s *Simulator) Sense(obs []float32) (at int64, err error) {
	at, err = s.Robot.Sense(obs)
	s.sensed = err == nil
	copy(s.last, obs)
	return at, err
}

// Reward is the reward of the state that the last Sense returned.
func (s *Simulator) Reward() (reward float64, ok bool) {
	if !s.sensed || s.RewardOf == nil {
		return 0, false
	}
	return s.RewardOf(s.last), true
}

// Reset starts an episode. The script of observations goes on.
func (s *Simulator) Reset(seed uint64) error {
	if s.OnReset != nil {
		if err := s.OnReset(seed); err != nil {
			return err
		}
	}
	s.Resets++
	s.Seed = seed
	s.sensed = false
	return nil
}
