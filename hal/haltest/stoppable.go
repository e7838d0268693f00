package haltest

import "optibfm/hal"

// Stoppable is a fake robot with an emergency stop and a disarmed output.
type Stoppable struct {
	*Robot

	// Pressed is the state of the emergency stop for the next Sense.
	Pressed bool

	// DisarmErr, if not nil, is returned by Disarm, which still disarms.
	DisarmErr error

	// Disarms counts the calls of Disarm.
	Disarms int

	open bool // the finding of the last Sense
}

var (
	_ hal.Robot     = (*Stoppable)(nil)
	_ hal.Disarmer  = (*Stoppable)(nil)
	_ hal.StopInput = (*Stoppable)(nil)
)

// NewStoppable returns a halted robot with the given channels. Its emergency stop
// is released but unread. It panics if the spec is invalid.
func NewStoppable(spec hal.Spec) *Stoppable {
	return &Stoppable{Robot: New(spec), open: true}
}

// Sense returns the next observation and reads the emergency stop.
func (s *Stoppable) Sense(obs []float32) (at int64, err error) {
	s.open = s.Pressed
	return s.Robot.Sense(obs)
}

// StopPressed returns the finding of the last Sense.
func (s *Stoppable) StopPressed() bool { return s.open }

// Disarm sets Output to the disarmed values and latches.
func (s *Stoppable) Disarm() error {
	s.Disarms++
	s.setFailsafe()
	for i := range s.Output {
		s.Output[i] = float32(s.spec.Action[i].Disarmed)
	}
	return s.DisarmErr
}
