package feetech_test

import (
	"errors"
	"math"
	"testing"

	"optibfm/hal"
	"optibfm/hal/feetech/feetechtest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

const step = 2 * math.Pi / 4096

// readAcross reads all servos at 4090 and then at 5, and returns the change of each position.
func readAcross(t *testing.T, r rig, d hal.Device) (change [3]float64, err error) {
	t.Helper()
	var before, after [9]float64
	read := func(dst []float64, steps int) error {
		for id := byte(1); id <= 3; id++ {
			r.Set(id, feetechtest.Place, 2, steps)
		}
		_, err := d.Read(dst)
		return err
	}
	fatal.If(t, read(before[:], 4090))
	err = read(after[:], 5)
	for i := range change {
		change[i] = after[3*i] - before[3*i]
	}
	return change, err
}

func TestDevice_PositionContinuesAcrossTheWrapAround(t *testing.T) {
	r := newRig(t)
	d := r.open(t)
	change, err := readAcross(t, r, d)
	fatal.If(t, err)
	for i, got := range change {
		if math.Abs(got-11*step) > 1e-9 {
			t.Errorf("servo %d: a change of %.4f rad, not 11 steps", i, got)
		}
	}
	if err := d.Arm(); err == nil || r.Torque(1) {
		t.Errorf("a limp joint beyond the wrap-around: %v", err)
	}
	for id := byte(1); id <= 2; id++ { // moved back by hand
		r.Set(id, feetechtest.Place, 2, 4090)
	}
	fatal.If(t, errtest.Of(d.Read(make([]float64, 9))))
	if err := d.Arm(); err != nil || r.Goal(1) != 4090 {
		t.Errorf("moved back: %v, goal %d", err, r.Goal(1))
	}
}

func TestDevice_StopsAJointThatCrossesTheWrapAround(t *testing.T) {
	r := newRig(t)
	d := r.open(t)
	for id := byte(1); id <= 3; id++ {
		r.Set(id, feetechtest.Place, 2, 4090)
	}
	fatal.If(t, d.Arm())
	errtest.Is(t, errtest.Of(readAcross(t, r, d)), hal.ErrDevice, "Read returns")
	goal := r.Goal(1)
	if err := d.Write([]float64{math.Pi, math.Pi, 0}); !errors.Is(err, hal.ErrDevice) || r.Goal(1) != goal {
		t.Errorf("Write returns %v, goal %d", err, r.Goal(1))
	}
	if err := d.Halt([]float64{0, 0, 0}); err != nil || r.Goal(1) != 2048 {
		t.Errorf("Halt returns %v, goal %d", err, r.Goal(1))
	}
}

// TestDevice_HaltHoldsNoImplausiblePosition halts while an answer has a wrong position with a
// matching checksum.
func TestDevice_HaltHoldsNoImplausiblePosition(t *testing.T) {
	r := newRig(t)
	d := r.open(t)
	fatal.If(t, d.Arm())
	hold := []float64{hal.Hold(), hal.Hold(), 0}
	halt := func(place, want int) {
		t.Helper()
		fatal.If(t, errtest.Of(d.Read(make([]float64, 9))))
		r.Set(1, feetechtest.Place, 2, place)
		if err := d.Halt(hold); err != nil || r.Goal(1) != want || r.Goal(2) != 2048 {
			t.Errorf("Halt at %d returns %v, goals %d and %d, want %d and 2048", place, err, r.Goal(1), r.Goal(2), want)
		}
		r.Set(1, feetechtest.Place, 2, 2048)
	}
	halt(2048+1024, 2048)
	halt(2048+100, 2048+100)
}
