package servobus

import (
	"errors"
	"fmt"
	"math"

	"optibfm/hal"
)

// Halter is a chain of servos of which nothing is known: their program died. Servos are
// numbered as in the configuration.
type Halter interface {
	// Meet looks whether servo i is there, and set up as the configuration says.
	Meet(i int) error
	// Suppose takes servo i, which does not answer, for what the configuration says.
	Suppose(i int)
	// Aim makes goal, a finite number, that of servo i. It says whether it could.
	Aim(i int, goal float64) bool
	// Tell writes the goal to servo i; switches its torque off where it shall be limp.
	// Nobody answers.
	Tell(i int, limp bool) error
	// Rests says why servo i, which answers, needs no goal; empty where it may need one.
	Rests(i int) (why string)
	// Obeys reads back what Tell wrote.
	Obeys(i int, limp bool) error
}

// HaltAll halts each servo of the bus by itself, whatever becomes of the others, and
// joins the errors: to its failsafe goal, or to no torque where torqueOff says so or the
// goal is none. A servo that answers is looked at afterwards, and told once more where
// it does not obey. One that is not set up as the configuration says loses its torque,
// and is an error. One that does not answer may hear all the same: it is told twice,
// blindly, and is an error too, which says where the line took nothing. notes names those that are known not to hold their goal.
func (b *Bus) HaltAll(h Halter, failsafe []float64, torqueOff bool) (notes []string, err error) {
	var errs []error
	for i, goal := range failsafe {
		note, err := haltOne(h, i, goal, torqueOff)
		if note != "" {
			notes = append(notes, b.members[i].Name+": "+note)
		}
		errs = append(errs, err)
	}
	return notes, errors.Join(errs...)
}

func haltOne(h Halter, i int, goal float64, torqueOff bool) (note string, err error) {
	err = h.Meet(i)
	understood := err == nil || hal.KindOf(err) == nil
	if !understood {
		h.Suppose(i)
	}
	limp := torqueOff || math.IsNaN(goal) || math.IsInf(goal, 0) || !h.Aim(i, goal)
	switch {
	case err == nil:
		return haltMet(h, i, limp)
	case !understood:
		return "", tellBlindly(h, i, limp, err)
	}
	note, offErr := haltMet(h, i, true)
	return note, fmt.Errorf("halt: %w", errors.Join(err, offErr))
}

// tellBlindly tells a servo that does not answer, twice, and says whether the line took
// it.
func tellBlindly(h Halter, i int, limp bool, silence error) error {
	first, second := h.Tell(i, limp), h.Tell(i, limp)
	told := "it was told blindly"
	if first != nil && second != nil {
		told = "it could not be told"
	}
	return fmt.Errorf("halt: %w (%s)", errors.Join(silence, first, second), told)
}

// haltMet tells a servo that answers, and looks whether it obeys.
func haltMet(h Halter, i int, limp bool) (note string, err error) {
	if !limp {
		if why := h.Rests(i); why != "" {
			return why, nil
		}
	}
	for range 2 {
		if err = h.Tell(i, limp); err != nil {
			continue
		}
		if err = h.Obeys(i, limp); err != nil {
			continue
		}
		if limp {
			note = "its torque is off: it is limp"
		}
		return note, nil
	}
	return "", err
}
