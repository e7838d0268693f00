package composite

import (
	"errors"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// newStopBench returns a base with a closed emergency stop circuit.
func newStopBench(t *testing.T) *bench {
	t.Helper()
	b := newBench()
	b.base.inputs = append(b.base.inputs, hal.Signal{Name: "estop_closed"})
	b.base.sample = []float64{3, 1}
	b.cfg.StopInput = "base.estop_closed"
	b.open(t)
	return b
}

func TestStopInput_IsPressedUntilReadClosed(t *testing.T) {
	b := newStopBench(t)
	if !b.robot.StopPressed() {
		t.Error("not pressed before the first Sense")
	}
	for _, c := range []struct {
		circuit float64
		pressed bool
	}{{1, false}, {0, true}, {1, false}, {0.5, true}} {
		b.clock += 20e6
		b.base.sample[1] = c.circuit
		fatal.If(t, errtest.Of(b.robot.Sense(b.obs)))
		if b.robot.StopPressed() != c.pressed {
			t.Errorf("circuit %v: pressed is %v", c.circuit, b.robot.StopPressed())
		}
	}
}

func TestStopInput_IsPressedWhenReadFails(t *testing.T) {
	b := newStopBench(t)
	if _, err := b.robot.Sense(b.obs); err != nil || b.robot.StopPressed() {
		t.Fatalf("%v, pressed %v", err, b.robot.StopPressed())
	}
	b.base.readErr = hal.ErrTimeout
	if _, err := b.robot.Sense(b.obs); !errors.Is(err, hal.ErrTimeout) || !b.robot.StopPressed() {
		t.Errorf("%v, pressed %v", err, b.robot.StopPressed())
	}
}

func TestStopInput_IsNotPressedByOtherDeviceFailure(t *testing.T) {
	b := newStopBench(t)
	fatal.If(t, errtest.Of(b.robot.Sense(b.obs)))
	b.imu.readErr = hal.ErrTimeout
	if _, err := b.robot.Sense(b.obs); err == nil || b.robot.StopPressed() {
		t.Errorf("%v, pressed %v", err, b.robot.StopPressed())
	}
}

func TestStopInput_IsReadWhenOtherDeviceFails(t *testing.T) {
	b := newStopBench(t) // the base comes after the IMU
	fatal.If(t, errtest.Of(b.robot.Sense(b.obs)))
	b.imu.readErr = hal.ErrTimeout
	b.base.sample[1] = 0
	if _, err := b.robot.Sense(b.obs); err == nil || !b.robot.StopPressed() {
		t.Errorf("%v, pressed %v", err, b.robot.StopPressed())
	}
}

func TestStopInput_IsPressedWhenSampleIsStale(t *testing.T) {
	b := newStopBench(t)
	fatal.If(t, errtest.Of(b.robot.Sense(b.obs)))
	last := b.clock
	b.base.at = &last // and no newer one comes
	b.clock += int64(time.Second)
	if _, err := b.robot.Sense(b.obs); !errors.Is(err, hal.ErrStale) || !b.robot.StopPressed() {
		t.Errorf("%v, pressed %v", err, b.robot.StopPressed())
	}
}

func TestStopInput_IsNotPressedWithoutInput(t *testing.T) {
	b := newBench()
	b.open(t)
	if b.robot.StopPressed() {
		t.Error("pressed")
	}
}

func TestStopInput_MustBeDeviceSwitch(t *testing.T) {
	for source, want := range map[string]string{
		"imu.gyro_z":        "not a switch",
		"action.left_wheel": "not a switch",
		"base.nothing":      "no input of this name",
		"estop":             "not a source",
	} {
		b := newBench()
		b.cfg.StopInput = source
		errtest.Contains(t, errtest.Of(New(b.cfg, func() int64 { return b.clock }, b.devices...)), want, source)
	}
}
