package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/evdev/evdevtest"
)

func TestWhatBindingWritesIsAConfiguration(t *testing.T) {
	cfg := evdev.DefaultConfig()
	cfg.Device = evdev.Match{Bus: "bluetooth", Vendor: "248a", Product: "0012", Name: `A "quoted" näme: #1`, Uniq: "ff:00", Phys: "p\x01"}
	cfg.Grab, cfg.Good, cfg.Bad, cfg.CantTell, cfg.Undo = false, "", "705", "BTN_X", ""
	cfg.Axis.Code, cfg.Axis.Rest, cfg.Axis.Inverted = "ABS_Y", evdev.RestLow, true
	for _, c := range []evdev.Config{cfg, {Device: evdev.Match{Name: "p"}, Grab: true, Good: "KEY_A", Bad: "KEY_B", Axis: evdev.DefaultConfig().Axis, Labels: evdev.DefaultConfig().Labels}} {
		text := "version: 1\n" + bindingYAML(c)
		file, err := configs.Parse("bound", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if file.Operator.Source != configs.SourceEvdev || file.Operator.Evdev != c {
			t.Errorf("read back as %+v\nwant %+v", file.Operator.Evdev, c)
		}
	}
}

// obedient is where prompts go: it presses the button that is asked for.
type obedient struct {
	bytes.Buffer
	device *evdevtest.Device
}

func (p *obedient) Write(b []byte) (int, error) {
	switch text := string(b); {
	case strings.HasPrefix(text, "press the button for GOOD"):
		p.device.Press(rigtest.PedalGood)
	case strings.HasPrefix(text, "press the button for BAD"):
		p.device.Press(rigtest.PedalBad)
	}
	return p.Buffer.Write(b)
}

func TestBindingWritesAFileOnceAndSaysWhatIsWrong(t *testing.T) {
	machine := evdevtest.Machine{Dir: t.TempDir()}
	defer func(was evdev.System) { setup.InputDevices = was }(setup.InputDevices)
	setup.InputDevices = machine
	prompts := &obedient{device: machine.Plug(rigtest.PedalInfo("event3"), nil)}
	f := bindFlags{roles: []string{"good", "bad", "undo"}, timeout: 200 * time.Millisecond, out: filepath.Join(t.TempDir(), "pedal.yaml")}
	if err := bindLabels(context.Background(), f, nil, prompts); err != nil {
		t.Fatalf("%v\n%s", err, prompts)
	}
	text, err := os.ReadFile(f.out)
	if err != nil || !strings.Contains(string(text), `good: "KEY_A"`) || strings.Contains(string(text), "undo") {
		t.Errorf("written: %s, %v", text, err)
	}
	if err := bindLabels(context.Background(), f, nil, prompts); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("over a file: %v", err)
	}
	f.roles = []string{"great"}
	if err := bindLabels(context.Background(), f, nil, prompts); err == nil || !strings.Contains(err.Error(), "use good, bad") {
		t.Errorf("with an unknown role: %v", err)
	}
}
