package composite

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/errtest"
)

// receiver is a device with the buttons of a remote control.
type receiver struct {
	*fakeDevice
	stop, arm bool
	presses   []hal.Press
	warning   error
}

func (r *receiver) StopPressed() bool { return r.stop }

func (r *receiver) ArmRequested() bool {
	requested := r.arm
	r.arm = false
	return requested
}

func (r *receiver) Presses(dst []hal.Press) int {
	n := copy(dst, r.presses)
	r.presses = r.presses[n:]
	return n
}

func (r *receiver) Warning() error { return r.warning }

// newReceivers returns a bench with two receivers behind the other devices.
func newReceivers(t *testing.T) (*bench, [2]*receiver) {
	t.Helper()
	b := newBench()
	var all [2]*receiver
	for i, name := range []string{"first", "second"} {
		all[i] = &receiver{fakeDevice: &fakeDevice{
			name: name, at: &b.clock, log: &b.log, sample: []float64{1}, inputs: []hal.Signal{{Name: "stick"}},
		}}
		b.devices = append(b.devices, Device{Name: name, Device: all[i]})
	}
	return b.open(t), all
}

// TestRobot_PassesTheButtonsOfItsDevices has the inputs of a remote control at each of two devices.
func TestRobot_PassesTheButtonsOfItsDevices(t *testing.T) {
	b, receivers := newReceivers(t)
	r := b.robot
	var presses [3]hal.Press
	if b.sense(t); r.StopPressed() || r.ArmRequested() || r.Presses(presses[:]) != 0 || r.Warning() != nil {
		t.Error("a button is pressed, or a warning raised, while the devices have none")
	}
	for i, device := range receivers {
		device.stop = true
		if !r.StopPressed() {
			t.Errorf("the stop of device %d is lost", i)
		}
		device.stop = false
		device.warning = errors.New("low")
		if err := r.Warning(); !errors.Is(err, device.warning) || !strings.Contains(err.Error(), device.name) {
			t.Errorf("the warning of device %d is %v", i, err)
		}
		device.warning = nil
	}
	receivers[0].arm, receivers[1].arm = true, true
	if !r.ArmRequested() || r.ArmRequested() {
		t.Error("two requests to arm are not one")
	}
	receivers[0].presses = []hal.Press{{At: 1, Button: 'A'}, {At: 2, Button: 'B'}}
	receivers[1].presses = []hal.Press{{At: 3, Button: 'X'}, {At: 4, Button: 'Y'}}
	if n := r.Presses(presses[:]); n != 3 || presses[0].Button != 'A' || presses[2].Button != 'X' {
		t.Errorf("%d presses: %v", n, presses)
	}
	if n := r.Presses(presses[:]); n != 1 || presses[0].Button != 'Y' {
		t.Errorf("then %d presses: %v", n, presses)
	}
}

// TestRobot_ReadsItsStopInputsFirst lets the devices before them fail.
func TestRobot_ReadsItsStopInputsFirst(t *testing.T) {
	b, receivers := newReceivers(t)
	b.imu.readErr = hal.ErrTimeout
	if _, err := b.robot.Sense(b.obs); !errors.Is(err, hal.ErrTimeout) {
		t.Fatalf("the IMU does not fail: %v", err)
	}
	for i, device := range receivers {
		if device.reads != 1 {
			t.Errorf("device %d was read %d times", i, device.reads)
		}
	}
}

func TestNew_RefusesButtonsThatAreNeverRead(t *testing.T) {
	b := newBench()
	silent := &receiver{fakeDevice: &fakeDevice{name: "silent", at: &b.clock, log: &b.log}}
	_, err := New(b.cfg, func() int64 { return b.clock }, append(b.devices, Device{Name: "silent", Device: silent})...)
	errtest.Contains(t, err, "silent: its buttons would never be read")
}

func TestRobot_PassesOnEveryOptionalInterface(t *testing.T) {
	without := []string{
		"FailsafeHolder", "FaultCounter", "Relaxer", // of devices; Faults has the counters
		"Resetter", "Rewarder", "SlowResetter", "Viewer", // of simulators; a device is none
	}
	if missing := haltest.Missing(&Robot{}); !slices.Equal(missing, without) {
		t.Errorf("lacks %v, want %v", missing, without)
	}
}
