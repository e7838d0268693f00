package dynamixel

import (
	"errors"
	"fmt"
	"math"

	"optibfm/hal"
)

// HaltAll halts a chain whose program died. failsafe has a goal for each servo, in the units of
// [Config.Outputs]. It works in any state of the servos, see [servobus.Bus.HaltAll].
//
// A servo with torque receives its failsafe goal, or with Config.HaltTorqueOff loses its torque. A
// servo without torque, and one that its own watchdog has stopped, is not changed; a note reports
// it.
//
// It takes at most 18 times the timeout of Open per servo, and 4 times for a silent one. That
// timeout is the time on the line plus timeout_ms, or plus 20 ms if that is longer.
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

// AssumeConfigured implements servobus.Halter. The limits are unknown, as is the unit of a current
// without a configured model.
func (h halter) AssumeConfigured(i int) {
	s := &h.servos[i]
	s.perStep, s.low, s.high = s.mode.perStep, math.MinInt32, math.MaxInt32
	if s.mode.size == 2 {
		s.low, s.high = math.MinInt16, math.MaxInt16
	}
	if m, ok := modelByName(s.Model); ok && s.mode.name == Current {
		s.perStep = m.ampere
	}
}

func (h halter) Holds(i int) bool { return h.servos[i].mode.goal == regGoalPosition }

func (h halter) SetGoal(i int, goal float64) bool {
	s := &h.servos[i]
	if s.perStep == 0 {
		return false
	}
	s.setGoal(goal)
	return true
}

func (h halter) Inactive(i int) (reason string) {
	id := h.servos[i].id
	if torque, err := h.read(id, regTorqueEnable, 1); err == nil && torque[0] == 0 {
		return "it has no torque: it is limp"
	}
	if watchdog, err := h.read(id, regWatchdog, 1); err == nil && watchdog[0] == watchdogTripped {
		return "its watchdog stopped it: it stays in place"
	}
	return ""
}

func (h halter) WriteGoal(i int, torqueOff bool) error {
	s := &h.servos[i]
	if torqueOff {
		return h.bus.SyncWrite(regTorqueEnable, 1, []byte{s.id, 0}, h.bus.Deadline())
	}
	return h.bus.SyncWrite(s.mode.goal, s.mode.size, s.appendGoal([]byte{s.id}), h.bus.Deadline())
}

func (h halter) Verify(i int, torqueOff bool) error {
	s := &h.servos[i]
	register, size := regWatchdog, goalsSize
	if torqueOff {
		register, size = regTorqueEnable, 1
	}
	data, err := h.read(s.id, register, size)
	if err != nil {
		return fmt.Errorf("%s: halt: %w", s.prefix(), err)
	}
	if torqueOff && data[0] != 0 || !torqueOff && !s.holdsGoal(data, 0) {
		return h.bus.Fail(i, hal.ErrDevice)
	}
	return nil
}
