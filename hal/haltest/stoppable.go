package haltest

import "optibfm/hal"

// Stoppable is a fake robot that has an emergency stop and a disarmed output of
// its own.
type Stoppable struct {
	*Robot

	// Pressed is the emergency stop, as the next Sense will find it.
	Pressed bool

	// DisarmErr, where not nil, is what Disarm returns; it disarms nevertheless.
	DisarmErr error

	// Disarms counts the calls of Disarm.
	Disarms int

	open bool // what the last Sense found
}

var (
	_ hal.Robot     = (*Stoppable)(nil)
	_ hal.Disarmer  = (*Stoppable)(nil)
	_ hal.StopInput = (*Stoppable)(nil)
)

// NewStoppable gives a halted robot with the given channels, its emergency stop
// not pressed, but not read either. It panics where the spec is invalid.
func NewStoppable(spec hal.Spec) *Stoppable {
	return &Stoppable{Robot: New(spec), open: true}
}

// Sense gives the next observation and reads the emergency stop.
func (s *Stoppable) Sense(obs []float32) (at int64, err error) {
	s.open = s.Pressed
	return s.Robot.Sense(obs)
}

// StopPressed is what the last Sense found.
func (s *Stoppable) StopPressed() bool { return s.open }

// Disarm sets Output to the disarmed values and latches.
func (s *Stoppable) Disarm() error {
	s.Disarms++
	s.rest()
	for i := range s.Output {
		s.Output[i] = float32(s.spec.Action[i].Disarmed)
	}
	return s.DisarmErr
}
