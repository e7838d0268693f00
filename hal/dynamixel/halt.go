package dynamixel

import (
	"errors"
	"fmt"
	"math"

	"optibfm/hal"
	"optibfm/hal/serial"
)

// HaltAll halts a chain whose program died, [len(c.Servos)] goals in the units of
// [Config.Outputs]. It needs no servo to be there or to be well: each is told by
// itself, whatever becomes of the others, and the errors are joined.
//
// A servo with torque is given its failsafe goal, which is read back; with
// Config.HaltTorqueOff its torque is switched off instead. One without torque, and one
// that its own watchdog has stopped, stays as it is. One that is not set up as the
// configuration says, to which its goal would mean something else, loses its torque, and
// is an error. One that does not answer may hear all the same: it is told twice, blindly,
// and is an error too. notes names those that are known not to hold their goal.
//
// A servo takes at most 18 times what [Device.Timeout] is while opening: timeout_ms or
// 20 ms, whichever is longer, and the time on the line; a silent one 4 times.
func HaltAll(c Config, failsafe []float64) (notes []string, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if len(failsafe) != len(c.Servos) {
		return nil, fmt.Errorf("dynamixel: halt: the wrong number of goals (%d): give one for each of %d servos", len(failsafe), len(c.Servos))
	}
	port, err := serial.Open(c.Port)
	if err != nil {
		return nil, fmt.Errorf("dynamixel: %w", err)
	}
	d, err := newDevice(c, port)
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
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

// Suppose implements servobus.Halter. Only the servo knows its limits, and a current
// means nothing without its model.
func (h halter) Suppose(i int) {
	s := &h.servos[i]
	s.perStep, s.low, s.high = s.mode.perStep, math.MinInt32, math.MaxInt32
	if s.mode.size == 2 {
		s.low, s.high = math.MinInt16, math.MaxInt16
	}
	if m, err := modelByName(s.Model); err == nil && s.mode.name == Current {
		s.perStep = m.ampere
	}
}

// Aim implements servobus.Halter.
func (h halter) Aim(i int, goal float64) bool {
	s := &h.servos[i]
	if s.perStep == 0 {
		return false
	}
	s.aim(goal)
	return true
}

// Rests implements servobus.Halter.
func (h halter) Rests(i int) (why string) {
	id := h.servos[i].id
	if torque, err := h.read(id, regTorqueEnable, 1); err == nil && torque[0] == 0 {
		return "it has no torque: it is limp"
	}
	if watchdog, err := h.read(id, regWatchdog, 1); err == nil && watchdog[0] == watchdogTripped {
		return "its own watchdog has stopped it: it stays where it is"
	}
	return ""
}

// Tell implements servobus.Halter.
func (h halter) Tell(i int, limp bool) error {
	s := &h.servos[i]
	if limp {
		return h.bus.SyncWrite(regTorqueEnable, 1, []byte{s.id, 0}, h.bus.Deadline())
	}
	return h.bus.SyncWrite(s.mode.goal, s.mode.size, s.appendGoal([]byte{s.id}), h.bus.Deadline())
}

// Obeys implements servobus.Halter.
func (h halter) Obeys(i int, limp bool) error {
	s := &h.servos[i]
	register, size := regWatchdog, goalsSize
	if limp {
		register, size = regTorqueEnable, 1
	}
	held, err := h.read(s.id, register, size)
	if err != nil {
		return fmt.Errorf("%s: halt: %w", s.where(), err)
	}
	if limp && held[0] != 0 || !limp && !goalHeld(s, held, 0) {
		return h.bus.Fail(i, hal.ErrDevice)
	}
	return nil
}
