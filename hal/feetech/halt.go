package feetech

import (
	"errors"
	"fmt"

	"optibfm/hal"
)

// HaltAll halts a chain whose program died. failsafe has a goal for each servo, in rad or rad/s. It
// works in any state of the servos, see [servobus.Bus.HaltAll].
//
// A servo with torque receives its failsafe goal, or with Config.HaltTorqueOff loses its torque. A
// servo without torque is not changed, since some firmware switches it on when a goal arrives; a
// note reports it.
//
// It takes at most 16 times the timeout of Open per servo, and 4 times for a silent one. That
// timeout is the time on the line plus timeout_ms, or plus 30 ms if that is longer.
func HaltAll(c Config, failsafe []float64) (notes []string, err error) {
	d, err := newDevice(c)
	if err != nil {
		return nil, err
	}
	notes, err = d.bus.HaltAll(halter{d}, failsafe, c.HaltTorqueOff)
	return notes, errors.Join(err, d.Close())
}

// halter implements servobus.Halter.
type halter struct{ *Device }

func (h halter) Probe(i int) error {
	_, err := h.probe(i)
	return err
}

// AssumeConfigured implements servobus.Halter. newDevice has assumed the configured setup.
func (h halter) AssumeConfigured(int) {}

func (h halter) Holds(i int) bool { return !h.servos[i].wheel }

func (h halter) SetGoal(i int, goal float64) bool {
	h.servos[i].setGoal(goal)
	return true
}

func (h halter) Inactive(i int) (reason string) {
	if h.servos[i].torque {
		return ""
	}
	return "it has no torque: it is limp"
}

func (h halter) WriteGoal(i int, torqueOff bool) error {
	s := &h.servos[i]
	if torqueOff {
		return h.bus.SyncWrite(regTorque, 1, []byte{s.id, 0}, h.bus.Deadline())
	}
	register := regGoal
	if s.wheel {
		register = regGoalSpeed
	}
	data := s.appendGoal([]byte{s.id})
	return h.bus.SyncWrite(register, len(data)-1, data, h.bus.Deadline())
}

func (h halter) Verify(i int, torqueOff bool) error {
	s := &h.servos[i]
	data, err := h.read(s.id, regTorque, holdSize)
	if err != nil {
		return fmt.Errorf("%s: halt: %w", s.prefix(), err)
	}
	if !s.holds(data, !torqueOff, !torqueOff) {
		return h.bus.Fail(i, hal.ErrDevice)
	}
	return nil
}
