package evdev_test

import (
	"os"
	"testing"
	"time"

	names "github.com/holoplot/go-evdev"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/rewardsrctest"
)

// TestKernel_UinputDevice makes a device in the kernel and presses its button:
// sysfs, ioctls, the clock and unplugging are the real ones.
func TestKernel_UinputDevice(t *testing.T) {
	if f, err := os.OpenFile("/dev/uinput", os.O_WRONLY, 0); err != nil {
		t.Skipf("no uinput here: %v", err)
	} else if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	const name = "optibfm test pedal"
	device, err := names.CreateDevice(name, names.InputID{BusType: names.BUS_VIRTUAL, Vendor: 1, Product: 2},
		map[names.EvType][]names.EvCode{names.EV_KEY: {names.BTN_A, names.BTN_B}})
	if err != nil {
		t.Skipf("uinput makes no device: %v", err)
	}
	defer func() { _ = names.DestroyDevice(device) }() // it may be gone
	cfg := evdev.DefaultConfig()
	cfg.Device, cfg.Good, cfg.Bad = evdev.Match{Bus: "virtual", Name: name}, "BTN_A", "BTN_B"
	r := &rig{t: t}
	p, err := evdev.Open(cfg, evdev.Options{Display: r.shown.show, Retry: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Halt()
	r.panel = p
	rewardsrctest.Eventually(t, "the device", p.Reachable)
	for value := range int32(2) {
		for _, e := range []names.InputEvent{{Type: names.EV_KEY, Code: names.BTN_B, Value: 1 - value}, {}} {
			if err := device.WriteOne(&e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := r.labels(1)[0]; got.Value != -1 || got.Kind != rewardsrc.Value {
		t.Errorf("label %+v", got)
	}
	if err := names.DestroyDevice(device); err != nil {
		t.Fatal(err)
	}
	rewardsrctest.Eventually(t, "the loss", func() bool { return !p.Reachable() })
}
