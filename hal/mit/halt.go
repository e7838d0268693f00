package mit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"optibfm/hal"
	"optibfm/hal/monotonic"
)

// HaltAll halts motors whose program died. failsafe has the goals of [Config.Outputs]. It works in
// any state of the motors, commands each one, and joins the errors.
//
//   - Unlike Open, it leaves motors in motor mode: they follow goals only there. They hold their
//     failsafe goal until their own timeout passes, if they have one. With Config.HaltExit they
//     then leave motor mode.
//   - A damiao motor with different ranges would misread the goal. It leaves motor mode, and
//     HaltAll returns an error.
//   - HaltAll commands a motor that does not answer twice, and returns an error.
//   - A motor whose failsafe position is hal.Hold gets no command, unless Config.HaltExit is set.
//
// notes lists the motors that may not follow their goal. HaltAll takes at most 4T, and with damiao
// 9T more for each motor.
func HaltAll(c Config, failsafe []float64) (notes []string, err error) {
	d, err := newDevice(c)
	if err != nil {
		return nil, err
	}
	if len(failsafe) != len(d.outputs) {
		err := fmt.Errorf("mit: halt: failsafe: wrong number of goals (%d); give %d", len(failsafe), len(d.outputs))
		return nil, errors.Join(err, d.Close())
	}
	errs := []error{d.exitMismatched()}
	if !c.HaltExit {
		notes = d.leaveHeld(failsafe)
	}
	haltErr := d.Halt(failsafe)
	for i := range d.motors {
		m := &d.motors[i]
		if note := d.notFollowing(m); note != "" {
			notes = append(notes, m.Name+": "+note)
		}
		if !errors.Is(haltErr, hal.ErrBus) {
			errs = append(errs, m.fault())
		}
	}
	if errors.Join(errs...) == nil || errors.Is(haltErr, hal.ErrBus) {
		errs = append(errs, haltErr)
	}
	if err := errors.Join(append(errs, d.Close())...); err != nil {
		return notes, fmt.Errorf("halt: %w", err)
	}
	return notes, nil
}

// leaveHeld removes the motors that keep their last command from the list, and returns a note for
// each.
func (d *Device) leaveHeld(failsafe []float64) (notes []string) {
	d.motors = slices.DeleteFunc(d.motors, func(m motor) bool {
		held := math.IsNaN(failsafe[m.firstGoal])
		if held {
			notes = append(notes, m.Name+": it keeps its last command, until its own timeout if it has one")
		}
		return held
	})
	return notes
}

// exitMismatched takes motors whose ranges differ from the configuration out of motor mode, and
// removes them from the list. A motor that does not answer may have the configured ranges.
func (d *Device) exitMismatched() error {
	if d.config.Dialect != Damiao {
		return nil
	}
	var errs []error
	mismatched := map[int]bool{}
	for i := range d.motors {
		m := &d.motors[i]
		if err := d.checkRanges(m); err != nil && hal.KindOf(err) == nil {
			errs = append(errs, err, d.exit(m, monotonic.After(d.timeout)))
			mismatched[m.ID] = true
		}
	}
	d.motors = slices.DeleteFunc(d.motors, func(m motor) bool { return mismatched[m.ID] })
	return errors.Join(errs...)
}

// notFollowing returns the reason why a motor does not hold its failsafe goal after a halt.
func (d *Device) notFollowing(m *motor) string {
	switch {
	case m.failed != nil:
		return ""
	case d.config.HaltExit:
		return "it has left motor mode: it is limp"
	case d.config.Dialect == Damiao && m.status != statusEnabled:
		return fmt.Sprintf("it was not in motor mode (status %#x): it is limp", m.status)
	case d.config.Dialect != Damiao && m.code != 0:
		return fmt.Sprintf("it has an error (code %d): it may be limp", m.code)
	case d.config.Dialect != Damiao:
		return "it follows its failsafe goal only if it was in motor mode, which this dialect does not report"
	}
	return ""
}
