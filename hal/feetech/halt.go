package feetech

import (
	"errors"
	"fmt"

	"optibfm/hal"
	"optibfm/hal/serial"
)

// HaltAll halts a chain whose program died, [len(c.Servos)] goals in rad or rad/s. It
// needs no servo to be there or to be well: each is told by itself, whatever becomes
// of the others, and the errors are joined.
//
// A servo with torque is given its failsafe goal, which is read back; with
// Config.HaltTorqueOff its torque is switched off instead. One without torque stays as
// it is: some firmware switches it on when a goal arrives. One that is not set up as
// the configuration says, to which its goal would mean something else, loses its torque,
// and is an error. One that does not answer may hear all the same: it is told twice,
// blindly, and is an error too. notes names those that are known to hold nothing.
//
// A servo takes at most 16 times what [Device.Timeout] is while opening: timeout_ms or
// 30 ms, whichever is longer, and the time on the line; a silent one 4 times.
func HaltAll(c Config, failsafe []float64) (notes []string, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if len(failsafe) != len(c.Servos) {
		return nil, fmt.Errorf("feetech: halt: the wrong number of goals (%d): give one for each of %d servos", len(failsafe), len(c.Servos))
	}
	port, err := serial.Open(c.Port)
	if err != nil {
		return nil, fmt.Errorf("feetech: %w", err)
	}
	d := newDevice(c, port)
	notes, err = d.bus.HaltAll(halter{d}, failsafe, c.HaltTorqueOff)
	return notes, errors.Join(err, d.Close())
}

// halter is a chain of which nothing is known. It implements servobus.Halter.
type halter struct{ *Device }

// Meet implements servobus.Halter.
func (h halter) Meet(i int) error {
	_, err := h.meet(i)
	return err
}

// Suppose implements servobus.Halter. A device starts with what the configuration says.
func (h halter) Suppose(int) {}

// Aim implements servobus.Halter.
func (h halter) Aim(i int, goal float64) bool {
	h.servos[i].aim(goal)
	return true
}

// Rests implements servobus.Halter.
func (h halter) Rests(i int) (why string) {
	if h.servos[i].torque {
		return ""
	}
	return "it has no torque: it is limp"
}

// Tell implements servobus.Halter.
func (h halter) Tell(i int, limp bool) error {
	s := &h.servos[i]
	if limp {
		return h.bus.SyncWrite(regTorque, 1, []byte{s.id, 0}, h.bus.Deadline())
	}
	register := regGoal
	if s.wheel {
		register = regGoalSpeed
	}
	data := s.appendGoal([]byte{s.id})
	return h.bus.SyncWrite(register, len(data)-1, data, h.bus.Deadline())
}

// Obeys implements servobus.Halter.
func (h halter) Obeys(i int, limp bool) error {
	s := &h.servos[i]
	held, err := h.read(s.id, regTorque, holdSize)
	if err != nil {
		return fmt.Errorf("%s: halt: %w", s.where(), err)
	}
	if !s.holds(held, !limp, !limp) {
		return h.bus.Fail(i, hal.ErrDevice)
	}
	return nil
}
