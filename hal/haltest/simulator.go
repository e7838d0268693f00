package haltest

import "optibfm/hal"

// Simulator is a fake robot with Reset and Reward.
type Simulator struct {
	*Robot

	// RewardOf is the reward of an observation; nil: no reward.
	RewardOf func(obs []float32) float64

	// OnReset, if not nil, is called by Reset, which returns its error.
	OnReset func(seed uint64) error

	// Resets counts the successful resets; Seed is the last seed.
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

// NewSimulator returns a halted simulator with the given channels. It panics if
// the spec is invalid.
func NewSimulator(spec hal.Spec) *Simulator {
	return &Simulator{Robot: New(spec), last: make([]float32, len(spec.Obs))}
}

// Sense returns the next observation and stores it for Reward.
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

// Reset starts an episode. The script of observations continues.
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
