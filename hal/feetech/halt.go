package feetech

import (
	"errors"
	"fmt"
	"math"

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
	limp := d.config.HaltTorqueOff || math.IsNaN(goal) || math.IsInf(goal, 0)
	if !limp {
		s.aim(goal)
	}
	switch {
	case err == nil:
		return d.haltMet(i, limp)
	case hal.KindOf(err) != nil: // it was not understood
		return "", fmt.Errorf("halt: %w (it was told blindly)", errors.Join(err, d.tell(i, limp), d.tell(i, limp)))
	}
	note, offErr := d.haltMet(i, true)
	return note, fmt.Errorf("halt: %w", errors.Join(err, offErr))
}

// haltMet tells a servo that answers, and looks whether it obeys.
func (d *Device) haltMet(i int, limp bool) (note string, err error) {
	s := &d.servos[i]
	if !limp && !s.torque {
		return "it has no torque: it is limp", nil
	}
	for range 2 {
		if err = d.tell(i, limp); err != nil {
			continue
		}
		var held []byte
		if held, err = d.read(s.id, regTorque, holdSize); err != nil {
			err = fmt.Errorf("%s: halt: %w", s.where(), err)
			continue
		}
		if !s.holds(held, !limp, !limp) {
			err = d.bus.Fail(i, hal.ErrDevice)
			continue
		}
		if limp {
			note = "its torque is off: it is limp"
		}
		return note, nil
	}
	return "", err
}

// tell writes to one servo. Nobody answers.
func (d *Device) tell(i int, limp bool) error {
	s := &d.servos[i]
	if limp {
		return d.bus.SyncWrite(regTorque, 1, []byte{s.id, 0}, d.bus.Deadline())
	}
	register := regGoal
	if s.wheel {
		register = regGoalSpeed
	}
	data := s.appendGoal([]byte{s.id})
	return d.bus.SyncWrite(register, len(data)-1, data, d.bus.Deadline())
}
