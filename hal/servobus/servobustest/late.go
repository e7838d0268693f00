package servobustest

import (
	"testing"

	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// Tests of answers that arrive after the next request was sent: no flush can discard them.

// lateTimeoutMs is the timeout of these tests, which wait for several of them.
const lateTimeoutMs = 100

// readLate moves the servos by hand while the answers that show their former positions are late.
func readLate(t *testing.T, start func(*testing.T) Rig) {
	for reads := 1; reads <= 5; reads++ {
		r, from := start(t), random()
		d := open(t, r, Settings{TimeoutMs: lateTimeoutMs})
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
			t.Errorf("%d late: read %.3f and %.3f rad, the servos are at %.3f and %.3f",
				reads, got[0], got[3], want[0], want[3])
		}
	}
}

// relaxLate relaxes servos that keep their torque, while an answer is late that shows them without.
func relaxLate(t *testing.T, start func(*testing.T) Rig) {
	r := start(t)
	d := open(t, r, Settings{TimeoutMs: lateTimeoutMs})
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
	open(t, r, Settings{TimeoutMs: lateTimeoutMs})
}
