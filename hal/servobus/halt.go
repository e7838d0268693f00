package servobus

import (
	"errors"
	"fmt"
	"math"

	"optibfm/hal"
)

// Halter halts single servos whose state is unknown, because the program that controlled them died.
type Halter interface {
	// Probe checks that servo i answers and is set up as configured.
	Probe(i int) error
	// AssumeConfigured assumes the configured setup for servo i, which does not answer.
	AssumeConfigured(i int)
	// Holds reports whether servo i follows positions, so that it stops at its goal.
	Holds(i int) bool
	// SetGoal converts a finite goal for servo i and reports whether it could.
	SetGoal(i int, goal float64) bool
	// WriteGoal writes the goal to servo i, or with torqueOff switches its torque off. Servos do
	// not answer it.
	WriteGoal(i int, torqueOff bool) error
	// Inactive returns the reason why servo i, which answers, needs no goal, and "" where it may
	// need one.
	Inactive(i int) (reason string)
	// Verify reads back what WriteGoal wrote.
	Verify(i int, torqueOff bool) error
}

// HaltAll halts each servo independently of the others, and joins the errors. It writes the
// failsafe goal, or with torqueOff, or for an infinite goal, it switches the torque off.
//
//   - For hal.Hold a servo that follows positions keeps its goal; another one loses its torque.
//   - A servo that answers is verified, and commanded again if the verification fails.
//   - A servo with a different setup would misread the goal. It loses its torque, and HaltAll
//     returns an error.
//   - A servo that does not answer is commanded twice without verification. The error reports
//     whether the line accepted the command.
//
// notes lists the servos that are known not to hold their goal.
func (b *Bus) HaltAll(h Halter, failsafe []float64, torqueOff bool) (notes []string, err error) {
	if n := len(b.members); len(failsafe) != n {
		return nil, fmt.Errorf("%s: halt: failsafe: wrong number of goals (%d); give %d", b.driver, len(failsafe), n)
	}
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
	err = h.Probe(i)
	answers := err == nil || hal.KindOf(err) == nil
	if !answers {
		h.AssumeConfigured(i)
	}
	if math.IsNaN(goal) && h.Holds(i) && !torqueOff && (err == nil || !answers) {
		return haltHeld(h, i, err)
	}
	torqueOff = torqueOff || math.IsNaN(goal) || math.IsInf(goal, 0) || !h.SetGoal(i, goal)
	switch {
	case err == nil:
		return haltVerified(h, i, torqueOff)
	case !answers:
		return "", haltUnverified(h, i, torqueOff, err)
	}
	note, offErr := haltVerified(h, i, true)
	return note, fmt.Errorf("halt: %w", errors.Join(err, offErr))
}

// haltHeld leaves a servo as it is.
func haltHeld(h Halter, i int, cause error) (note string, err error) {
	if cause != nil {
		return "", fmt.Errorf("halt: %w (it may hold its last goal)", cause)
	}
	return h.Inactive(i), nil
}

// haltUnverified commands a servo that does not answer.
func haltUnverified(h Halter, i int, torqueOff bool, cause error) error {
	first, second := h.WriteGoal(i, torqueOff), h.WriteGoal(i, torqueOff)
	remark := "halt sent without an answer"
	if first != nil && second != nil {
		remark = "halt could not be sent"
	}
	return fmt.Errorf("halt: %w (%s)", errors.Join(cause, first, second), remark)
}

// haltVerified commands a servo that answers, at most twice, and verifies its state.
func haltVerified(h Halter, i int, torqueOff bool) (note string, err error) {
	if !torqueOff {
		if reason := h.Inactive(i); reason != "" {
			return reason, nil
		}
	}
	for range 2 {
		if err = h.WriteGoal(i, torqueOff); err != nil {
			continue
		}
		if err = h.Verify(i, torqueOff); err != nil {
			continue
		}
		if torqueOff {
			note = "its torque is off: it is limp"
		}
		return note, nil
	}
	return "", err
}
