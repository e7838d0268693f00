package episodes

import (
	"time"

	"optibfm/controller"
)

// Stepper runs an agent in lockstep, without a clock. Ticks are one period of
// simulated time apart.
type Stepper struct {
	Agent    *controller.Agent
	Episodes Episodes
	Period   time.Duration

	index uint64
}

// Index returns the number of ticks that ran.
func (s *Stepper) Index() uint64 { return s.index }

// Step runs the next tick and records it in t. ran is false after the last
// episode (err is nil) and if the robot could not be reset. Any other error is
// that of the agent for a tick that ran.
func (s *Stepper) Step(t *controller.Tick) (ran bool, err error) {
	over, err := s.Episodes.Begin(t)
	if over || err != nil {
		return false, err
	}
	t.Index, t.Elapsed = s.index, min(s.index, 1)
	t.Deadline = int64(s.index) * int64(s.Period)
	t.Wake, t.Done = t.Deadline, t.Deadline
	err = s.Agent.Step(t)
	s.Episodes.End(t)
	s.index++
	return true, err
}
