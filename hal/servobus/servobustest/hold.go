package servobustest

import (
	"math"
	"testing"

	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// held are the outputs of a Halt after which the servos in position mode stay where they are.
var held = []float64{hal.Hold(), hal.Hold(), 0}

// haltHolds stops servos that have not reached their goals. Later Halts keep the position of the
// first one, so that a load does not pull them down step by step.
func haltHolds(t *testing.T, start func(*testing.T) Rig) {
	r, from := start(t), random()
	d := open(t, r, Settings{})
	for range 5 {
		r.SetPosition(1, middle)
		r.SetPosition(2, middle)
		fatal.If(t, d.Arm())
		write(t, d, 0.1, -0.1, 1)
		places := [2]int{middle + from.IntN(400) - 200, middle + from.IntN(400) - 200} // near the latest Read
		r.SetPosition(1, places[0])
		r.SetPosition(2, places[1])
		fatal.If(t, d.Halt(held))
		wantGoals(t, r, "halted", places)
		pose(r, from)
		fatal.If(t, d.Halt(held))
		wantGoals(t, r, "halted again", places)
	}
}

// haltHoldsAfterRestart stops servos that a killed program left with torque, far from their goals.
func haltHoldsAfterRestart(t *testing.T, start func(*testing.T) Rig) {
	r := startMoving(t, start)
	places := pose(r, random())
	d := open(t, r, Settings{})
	fatal.If(t, d.Halt(held))
	wantGoals(t, r, "halted", places)
}

// haltHoldsBesideDead stops a chain with a dead servo, whose position cannot be read.
func haltHoldsBesideDead(t *testing.T, start func(*testing.T) Rig) {
	r := startMoving(t, start)
	places := pose(r, random())
	d := open(t, r, Settings{})
	r.Miss(2, -1)
	for range 3 { // an order in which the dead servo is the last
		errtest.Is(t, d.Halt(held), hal.ErrTimeout)
	}
	if r.Goal(1) != places[0] || r.Goal(2) != 100 || r.Goal(3) != 0 {
		t.Errorf("goals %d, %d, %d, want %d, 100, 0", r.Goal(1), r.Goal(2), r.Goal(3), places[0])
	}
}

func haltHoldsNoWheel(t *testing.T, start func(*testing.T) Rig) {
	d := openArmed(t, start(t), Settings{})
	for _, goals := range [][]float64{{0, 0, math.NaN()}, {math.Inf(1), 0, 0}} {
		errtest.NotNil(t, d.Halt(goals), goals, " was accepted")
	}
	if outputs := d.Outputs(); !outputs[0].Holds || outputs[2].Holds {
		t.Errorf("%+v", outputs)
	}
}

// wantGoals checks that the servos have the goals, with torque, and that the wheel stopped.
func wantGoals(t *testing.T, r Rig, when string, goals [2]int) {
	t.Helper()
	for i, want := range goals {
		if id := byte(i + 1); r.Goal(id) != want || !r.Torque(id) {
			t.Errorf("%s: servo %d has goal %d, want %d, torque %v", when, id, r.Goal(id), want, r.Torque(id))
		}
	}
	if wheel := r.Goal(3); wheel != 0 {
		t.Errorf("%s: the wheel turns with %d", when, wheel)
	}
}
