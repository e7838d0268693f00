package evdev_test

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/evdev/evdevtest"
	"optibfm/rewardsrc/panel"
)

// bind runs Bind and lets react answer each thing that is said.
func bind(opts evdev.BindOptions, react func(said string)) (cfg evdev.Config, said []string, err error) {
	opts.Say = func(text string) {
		said = append(said, text)
		if react != nil {
			react(text)
		}
	}
	opts.Timeout = cmp.Or(opts.Timeout, 5*time.Second)
	cfg, err = evdev.Bind(context.Background(), opts)
	return cfg, said, err
}

func TestBind_AsksForEachButton(t *testing.T) {
	machine := evdevtest.Machine{Dir: t.TempDir()}
	info, _ := pad()
	device := machine.Plug(info, padRanges())
	mouse := evdev.Info{Node: "event2", Bus: 3, Vendor: 1, Product: 2, Name: "A Mouse"}
	mouse.Keys.Set(272)
	other := machine.Plug(mouse, nil)
	tried := false
	cfg, said, err := bind(evdev.BindOptions{System: machine, Roles: panel.Roles(), Axis: true}, func(text string) {
		switch {
		case strings.HasPrefix(text, "press the button for GOOD"):
			device.Press(keyGood)
		case strings.HasPrefix(text, "press the button for BAD"):
			other.Press(272)      // another device
			device.Press(keyGood) // taken
		case strings.Contains(text, "BTN_A is already GOOD") && !tried:
			tried = true
			device.Press(keyBad)
		case strings.HasPrefix(text, "press the button for BETTER"):
			device.Press(keyBetter)
		case strings.HasPrefix(text, "press the button for WORSE"):
			device.Press(keyWorse)
		case strings.HasPrefix(text, "press the button for GOAL"):
			device.Press(keyGoal)
		case strings.HasPrefix(text, "press the button for CAN'T TELL"):
			device.Press(keyTell)
		case strings.HasPrefix(text, "press the button for UNDO"):
			device.Press(keyUndo)
		case strings.HasPrefix(text, "push the stick"):
			device.Send(evdevtest.Event{Kind: evdevtest.EvAbs, Code: absY, Value: -40}, evdevtest.Event{})
			device.Send(evdevtest.Event{Kind: evdevtest.EvAbs, Code: absY, Value: -100}, evdevtest.Event{})
			device.Send(evdevtest.Event{Kind: evdevtest.EvAbs, Code: absY, Value: 3}, evdevtest.Event{})
		}
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(said, "\n"))
	}
	want := evdev.DefaultConfig()
	want.Device = info.Match()
	want.Buttons = padButtons
	want.Axis.Code, want.Axis.Inverted = "ABS_Y", true
	if cfg != want {
		t.Errorf("configuration %+v\nwant %+v", cfg, want)
	}
	if !tried {
		t.Error("one button was taken for two roles")
	}
	all := strings.Join(said, "\n")
	if !strings.Contains(all, `that was usb 0001:0002 "A Mouse" (event2): use usb 046d:c216`) {
		t.Errorf("another device was not refused:\n%s", all)
	}
}

func TestBind_TimeoutNamesRole(t *testing.T) {
	machine := evdevtest.Machine{Dir: t.TempDir()}
	info, _ := pad()
	device := machine.Plug(info, padRanges())
	short := evdev.BindOptions{System: machine, Roles: panel.Roles(), Timeout: 150 * time.Millisecond}
	_, _, err := bind(short, nil)
	errtest.Is(t, err, evdev.ErrNotPressed)
	errtest.Contains(t, err, "for GOOD")
	cfg, _, err := bind(short, func(text string) {
		switch {
		case strings.HasPrefix(text, "press the button for GOOD"):
			device.Press(keyGood)
		case strings.HasPrefix(text, "press the button for BAD"):
			device.Press(keyBad)
		}
	})
	if err != nil || cfg.Undo != "" || cfg.CantTell != "" || cfg.Better != "" || cfg.Bad != "BTN_B" {
		t.Errorf("buttons that may be left out: %+v, %v", cfg, err)
	}
}

func TestBind_ReportsUnusableDevices(t *testing.T) {
	machine := evdevtest.Machine{Dir: t.TempDir()}
	check := func(name string, opts evdev.BindOptions, want ...string) {
		t.Helper()
		opts.System = machine
		_, _, err := bind(opts, nil)
		for _, text := range want {
			errtest.Contains(t, err, text, name)
		}
	}
	buttons := evdev.BindOptions{Roles: panel.Roles()}
	check("without a device", buttons, "plug it in")
	info, _ := pad()
	device := machine.Plug(info, padRanges())
	check("with another name", evdev.BindOptions{Device: "pedal"}, `no device with the name "pedal"`)
	device.Forbid()
	check("without permission", buttons, "group input", "udev rule")
}

func TestBind_DistinguishesEqualDevicesByPhys(t *testing.T) {
	machine := evdevtest.Machine{Dir: t.TempDir()}
	info, _ := pad()
	info.Phys = "usb-1/input0"
	device := machine.Plug(info, padRanges())
	twin := info
	twin.Node, twin.Phys = "event8", "usb-2/input0"
	machine.Plug(twin, padRanges())
	cfg, _, err := bind(evdev.BindOptions{System: machine, Roles: []panel.Role{panel.Good}}, func(text string) {
		if strings.HasPrefix(text, "press") {
			device.Press(keyGood)
		}
	})
	if err != nil || cfg.Device.Phys != "usb-1/input0" {
		t.Errorf("device %+v, %v", cfg.Device, err)
	}
}

func TestBind_TakesNoAxisOfAMotionSensor(t *testing.T) {
	machine := evdevtest.Machine{Dir: t.TempDir()}
	info, _ := pad()
	motion := info
	motion.Node, motion.Name = "event3", "A Gamepad's Motion Sensors"
	motion.Props.Set(6)
	sensor, device := machine.Plug(motion, padRanges()), machine.Plug(info, padRanges())
	cfg, _, err := bind(evdev.BindOptions{System: machine, Axis: true}, func(text string) {
		if !strings.HasPrefix(text, "push") {
			return
		}
		for _, d := range []*evdevtest.Device{sensor, device} {
			d.Send(evdevtest.Event{Kind: evdevtest.EvAbs, Code: absY, Value: 90}, evdevtest.Event{})
			d.Send(evdevtest.Event{Kind: evdevtest.EvAbs, Code: absY, Value: 0}, evdevtest.Event{})
		}
	})
	if err != nil || cfg.Device.Name != info.Name {
		t.Errorf("device %+v, %v", cfg.Device, err)
	}
}

func TestBind_FindsRestOfPedal(t *testing.T) {
	machine := evdevtest.Machine{Dir: t.TempDir()}
	info, _ := pad()
	for rest, limits := range map[string]evdev.Range{
		evdev.RestLow:  {Value: 2, Min: 0, Max: 255},
		evdev.RestHigh: {Value: 255, Min: 0, Max: 255},
	} {
		device := machine.Plug(info, map[uint16]evdev.Range{absY: limits})
		cfg, _, err := bind(evdev.BindOptions{System: machine, Axis: true}, func(text string) {
			if strings.HasPrefix(text, "push") {
				device.Send(evdevtest.Event{Kind: evdevtest.EvAbs, Code: absY, Value: 130}, evdevtest.Event{})
				device.Send(evdevtest.Event{Kind: evdevtest.EvAbs, Code: absY, Value: limits.Value}, evdevtest.Event{})
			}
		})
		if err != nil || cfg.Axis.Rest != rest || cfg.Axis.Inverted {
			t.Errorf("axis %+v, %v", cfg.Axis, err)
		}
		device.Unplug()
	}
}
