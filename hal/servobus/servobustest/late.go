package servobustest

import (
	"fmt"
	"testing"

	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// Tests of answers that arrive after the next request was sent: no flush can discard them.

// readLate moves the servos by hand while the answers that show their former positions are late.
func readLate(t *testing.T, start func(*testing.T) Rig) {
	for reads := 1; reads <= 5; reads++ {
		t.Run(fmt.Sprint(reads), func(t *testing.T) {
			t.Parallel()
			readAfter(t, start(t), reads)
		})
	}
}

// readAfter reads after a number of late answers.
func readAfter(t *testing.T, r Rig, reads int) {
	from := random()
	d := open(t, r, Settings{})
	got, want := make([]float64, samples), make([]float64, samples)
	pose(r, from)
	r.Delay(reads)
	for range (reads + 1) / 2 { // a Read asks twice
		_, _ = d.Read(got)
	}
	pose(r, from)
	fatal.If(t, errtest.Of(d.Read(got)))
	fatal.If(t, errtest.Of(d.Read(want)))
	if got[0] != want[0] || got[3] != want[3] {
		t.Errorf("read %.3f and %.3f rad, the servos are at %.3f and %.3f", got[0], got[3], want[0], want[3])
	}
}

// relaxLate relaxes servos that keep their torque, while an answer is late that shows them without.
func relaxLate(t *testing.T, start func(*testing.T) Rig) {
	r := start(t)
	d := open(t, r, Settings{})
	r.Delay(2)
	errtest.NotNil(t, relax(d), "relaxed without an answer in time")
	for id := byte(1); id <= servos; id++ {
		r.SetTorque(id, true)
		r.Refuse(id)
	}
	errtest.Is(t, relax(d), hal.ErrDevice, "relaxed servos with torque")
}

// openLate opens a chain whose first answers are late.
func openLate(t *testing.T, start func(*testing.T) Rig) {
	r := start(t)
	r.Delay(2)
	open(t, r, Settings{})
}
