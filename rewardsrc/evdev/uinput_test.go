package evdev_test

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/evdev/evdevtest"
	"optibfm/rewardsrc/panel"
	"optibfm/rewardsrc/rewardsrctest"
)

// plugKernel connects a device that has the keys of pad, and with limits its axis, until the test
// ends.
func plugKernel(t *testing.T, info evdev.Info, limits *evdev.Range) *evdevtest.Uinput {
	t.Helper()
	if _, err := os.Stat("/dev/uinput"); err != nil {
		t.Skipf("no uinput here: %v", err)
	}
	ranges := map[uint16]evdev.Range{}
	if limits != nil {
		ranges[absY] = *limits
	}
	d := evdevtest.PlugKernel(info, ranges)
	t.Cleanup(d.Unplug)
	return d
}

// kernelRig is a panel on a gamepad in the kernel.
func kernelRig(t *testing.T, change func(*evdev.Config)) (*rig, *evdevtest.Uinput) {
	t.Helper()
	info, cfg := pad()
	if change != nil {
		change(&cfg)
	}
	d := plugKernel(t, info, &evdev.Range{Min: -100, Max: 100})
	r := &rig{t: t}
	p, err := evdev.Open(cfg, evdev.Options{Display: r.shown.show, Retry: 20 * time.Millisecond})
	fatal.If(t, err)
	r.panel = p
	t.Cleanup(func() { errtest.Nil(t, p.Halt()) })
	rewardsrctest.Eventually(t, "the device", p.Reachable)
	return r, d
}

func TestKernel_PressHasTime(t *testing.T) {
	r, d := kernelRig(t, nil)
	before := rewardsrc.Monotonic()
	d.Press(keyBad)
	got := r.labels(1)[0]
	if got.Value != -1 || got.Kind != rewardsrc.Value || got.At < before/1000*1000 || got.At > rewardsrc.Monotonic() {
		t.Errorf("label %+v", got)
	}
}

func TestKernel_DeviceReturnsAtAnotherNode(t *testing.T) {
	r, d := kernelRig(t, nil)
	first := node(t)
	d.Unplug()
	rewardsrctest.Eventually(t, "the loss", func() bool { return !r.panel.Reachable() })
	mouse := evdev.Info{Bus: 3, Vendor: 1, Product: 2, Name: "A Mouse"}
	mouse.Keys.Set(272)
	plugKernel(t, mouse, nil) // takes the node
	info, _ := pad()
	d = plugKernel(t, info, &evdev.Range{Min: -100, Max: 100})
	if second := node(t); second == first {
		t.Errorf("it is at %s again", second)
	}
	rewardsrctest.Eventually(t, "the return", r.panel.Reachable)
	d.Press(keyGoal)
	if got := r.labels(1)[0]; got.Kind != rewardsrc.Goal {
		t.Errorf("label %+v", got)
	}
}

// node returns the node of the gamepad.
func node(t *testing.T) string {
	t.Helper()
	all, err := evdev.Kernel{}.List()
	fatal.If(t, err)
	pad, _ := pad()
	for _, info := range all {
		if pad.Match().Fits(info) {
			return info.Node
		}
	}
	t.Fatalf("no gamepad in %v", all)
	return ""
}

func TestKernel_ReportsDroppedEvents(t *testing.T) {
	r, d := kernelRig(t, nil)
	var flood []evdevtest.Event // one system call: the buffer of the reader overflows
	for i := range 10_000 {
		flood = append(flood, evdevtest.Event{Kind: evdevtest.EvKey, Code: keyGood, Value: int32(i+1) % 2})
	}
	d.Send(append(flood, evdevtest.Event{})...)
	rewardsrctest.Eventually(t, "the report", func() bool { r.take(); return r.panel.Missing() > 0 })
	rewardsrctest.Eventually(t, "the goal", func() bool {
		d.Press(keyGoal) // lost too while the buffer is full
		return slices.ContainsFunc(r.take(), func(l rewardsrc.Label) bool { return l.Kind == rewardsrc.Goal })
	})
	if text := r.shown.text(rewardsrc.Ignored); !strings.Contains(text, "presses may be lost") {
		t.Errorf("told %q", text)
	}
}

func TestKernel_StreamsAxis(t *testing.T) {
	r, d := kernelRig(t, func(c *evdev.Config) {
		c.Axis.Code, c.Axis.Inverted, c.Axis.DeadZone = "ABS_Y", true, 0.2
		c.Labels.IntervalMS = 20
	})
	d.Move(absY, -60)
	var all []rewardsrc.Label
	rewardsrctest.Eventually(t, "a stream", func() bool { all = append(all, r.take()...); return len(all) > 2 })
	for _, l := range all {
		if l.Mode != rewardsrc.Held || math.Abs(l.Value-0.5) > 1e-12 {
			t.Errorf("label %+v", l)
		}
	}
}

func TestKernel_RefusesGrabbedDevice(t *testing.T) {
	info, cfg := pad()
	d := plugKernel(t, info, nil)
	found := evdev.Info{Node: node(t)}
	other, err := evdev.Kernel{}.Open(found)
	fatal.If(t, err)
	fatal.If(t, other.Grab())
	errtest.Is(t, errtest.Of(evdev.Open(cfg, evdev.Options{})), unix.EBUSY)
	d.Unplug()
	errtest.Is(t, errtest.Of(other.Keys()), unix.ENODEV)
	errtest.Nil(t, other.Close())
	errtest.Is(t, errtest.Of((evdev.Kernel{}).Open(found)), panel.ErrAbsent)
}

func TestKernel_Bind(t *testing.T) {
	info, _ := pad()
	limits := evdev.Range{Min: 0, Max: 255} // a pedal
	d := plugKernel(t, info, &limits)
	clicker := evdev.Info{Bus: 3, Vendor: 1, Product: 2, Name: "A Clicker"}
	clicker.Keys.Set(104)
	other := plugKernel(t, clicker, nil)
	roles := []panel.Role{panel.Good, panel.Bad}
	cfg, said, err := bind(evdev.BindOptions{Roles: roles, Axis: true, Timeout: rewardsrctest.HangGuard},
		func(text string) {
			switch {
			case strings.HasPrefix(text, "press the button for GOOD"):
				d.Press(keyGood)
			case strings.HasPrefix(text, "press the button for BAD"):
				other.Press(104)
			case strings.HasPrefix(text, "that was usb 0001:0002"):
				d.Press(keyBad)
			case strings.HasPrefix(text, "push the stick"):
				d.Move(absY, 200)
				d.Move(absY, 0)
			}
		})
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(said, "\n"))
	}
	want := evdev.DefaultConfig()
	want.Device, want.Good, want.Bad = info.Match(), "BTN_A", "BTN_B"
	want.Axis.Code, want.Axis.Rest = "ABS_Y", evdev.RestLow
	if cfg != want {
		t.Errorf("configuration %+v\nwant %+v", cfg, want)
	}
}

func TestKernel_BindReportsAnUnpluggedDevice(t *testing.T) {
	info, _ := pad()
	d := plugKernel(t, info, nil)
	_, _, err := bind(evdev.BindOptions{Roles: []panel.Role{panel.Good, panel.Bad}, Timeout: rewardsrctest.HangGuard},
		func(text string) {
			switch {
			case strings.HasPrefix(text, "press the button for GOOD"):
				d.Press(keyGood)
			case strings.HasPrefix(text, "press the button for BAD"):
				d.Unplug()
			}
		})
	if err == nil || !strings.Contains(err.Error(), `"`+info.Name+`"`) || !strings.Contains(err.Error(), "was unplugged") {
		t.Errorf("error %v", err)
	}
}
