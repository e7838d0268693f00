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
	var errs []error
	for i, goal := range failsafe {
		note, err := d.haltOne(i, goal)
		if note != "" {
			notes = append(notes, d.servos[i].Name+": "+note)
		}
		errs = append(errs, err)
	}
	return notes, errors.Join(append(errs, d.Close())...)
}

// haltOne halts servo i, of which nothing is known.
func (d *Device) haltOne(i int, goal float64) (note string, err error) {
	s := &d.servos[i]
	_, err = d.meet(i)
	understood := err == nil || hal.KindOf(err) == nil
	if !understood {
		s.suppose()
	}
	limp := d.config.HaltTorqueOff || math.IsNaN(goal) || math.IsInf(goal, 0) || s.perStep == 0
	if !limp {
		s.aim(goal)
	}
	switch {
	case err == nil:
		return d.haltMet(i, limp)
	case !understood:
		return "", fmt.Errorf("halt: %w (it was told blindly)", errors.Join(err, d.tell(i, limp), d.tell(i, limp)))
	}
	note, offErr := d.haltMet(i, true)
	return note, fmt.Errorf("halt: %w", errors.Join(err, offErr))
}

// suppose takes a servo that does not answer for what the configuration says, whose
// limits only the servo knows. A current means nothing without its model.
func (s *servo) suppose() {
	s.perStep, s.low, s.high = s.mode.perStep, math.MinInt32, math.MaxInt32
	if s.mode.size == 2 {
		s.low, s.high = math.MinInt16, math.MaxInt16
	}
	if m, err := modelByName(s.Model); err == nil && s.mode.name == Current {
		s.perStep = m.ampere
	}
}

// haltMet tells a servo that answers, and looks whether it obeys.
func (d *Device) haltMet(i int, limp bool) (note string, err error) {
	if !limp {
		if note = d.rests(i); note != "" {
			return note, nil
		}
	}
	for range 2 {
		if err = d.tell(i, limp); err != nil {
			continue
		}
		if err = d.obeys(i, limp); err != nil {
			continue
		}
		if limp {
			note = "its torque is off: it is limp"
		}
		return note, nil
	}
	return "", err
}

// rests says why a servo needs no goal; empty where it may need one.
func (d *Device) rests(i int) (why string) {
	id := d.servos[i].id
	if torque, err := d.read(id, regTorqueEnable, 1); err == nil && torque[0] == 0 {
		return "it has no torque: it is limp"
	}
	if watchdog, err := d.read(id, regWatchdog, 1); err == nil && watchdog[0] == watchdogTripped {
		return "its own watchdog has stopped it: it stays where it is"
	}
	return ""
}

// tell writes to one servo. Nobody answers.
func (d *Device) tell(i int, limp bool) error {
	s := &d.servos[i]
	if limp {
		return d.bus.SyncWrite(regTorqueEnable, 1, []byte{s.id, 0}, d.bus.Deadline())
	}
	return d.bus.SyncWrite(s.mode.goal, s.mode.size, s.appendGoal([]byte{s.id}), d.bus.Deadline())
}

// obeys reads back what tell wrote.
func (d *Device) obeys(i int, limp bool) error {
	s := &d.servos[i]
	register, size := regWatchdog, goalsSize
	if limp {
		register, size = regTorqueEnable, 1
	}
	held, err := d.read(s.id, register, size)
	if err != nil {
		return fmt.Errorf("%s: halt: %w", s.where(), err)
	}
	if limp && held[0] != 0 || !limp && !goalHeld(s, held, 0) {
		return d.bus.Fail(i, hal.ErrDevice)
	}
	return nil
}
