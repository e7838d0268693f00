package mit

import (
	"errors"
	"fmt"
	"slices"

	"optibfm/hal"
)

// HaltAll halts motors whose program died, with the goals of [Config.Outputs]. It needs
// no motor to be there or to be well: each is commanded, whatever becomes of the others,
// and the errors are joined.
//
// Unlike Open it leaves motors in motor mode, which alone follow a goal: they are given
// their failsafe goal, and hold it until their own timeout passes, where they have one.
// With Config.HaltExit they are taken out of motor mode after that. A damiao motor whose
// ranges are not the configuration's, to which its goal would mean something else, is
// taken out too, and is an error. One that does not answer may hear all the same: it is
// commanded twice, and is an error. notes says of whom it is known, or not known, that he
// does not follow.
//
// It takes at most 4T, with damiao 8T more for each motor.
func HaltAll(c Config, failsafe []float64) (notes []string, err error) {
	d, err := newDevice(c)
	if err != nil {
		return nil, err
	}
	if len(failsafe) != len(d.outputs) {
		err := fmt.Errorf("mit: halt: the wrong number of goals (%d): give %d", len(failsafe), len(d.outputs))
		return nil, errors.Join(err, d.Close())
	}
	errs := []error{d.exitForeign()}
	haltErr := d.Halt(failsafe)
	for i := range d.motors {
		m := &d.motors[i]
		if note := d.notFollowing(m); note != "" {
			notes = append(notes, m.Name+": "+note)
		}
		if !errors.Is(haltErr, hal.ErrBus) {
			errs = append(errs, m.wrong())
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

// exitForeign takes motors whose ranges are others than the configuration's out of
// motor mode, and forgets them. One that does not answer may have the right ones.
func (d *Device) exitForeign() error {
	if d.config.Dialect != Damiao {
		return nil
	}
	var errs []error
	foreign := map[int]bool{}
	for i := range d.motors {
		m := &d.motors[i]
		if err := d.checkRanges(m); err != nil && hal.KindOf(err) == nil {
			errs = append(errs, err, d.special(m, Exit))
			foreign[m.ID] = true
		}
	}
	d.motors = slices.DeleteFunc(d.motors, func(m motor) bool { return foreign[m.ID] })
	return errors.Join(errs...)
}

// notFollowing says why a motor does not hold its failsafe goal after a halt.
func (d *Device) notFollowing(m *motor) string {
	switch {
	case m.problem != nil:
		return ""
	case d.config.HaltExit:
		return "it has left motor mode: it is limp"
	case d.config.Dialect == Damiao && m.status != statusEnabled:
		return fmt.Sprintf("it was not in motor mode (status %#x): it is limp", m.status)
	case d.config.Dialect != Damiao && m.code != 0:
		return fmt.Sprintf("it has an error (code %d): it may be limp", m.code)
	case d.config.Dialect != Damiao:
		return "it has its failsafe goal, and follows it if it was in motor mode, which this dialect does not tell"
	}
	return ""
}
