package binding

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/internal/errtest"
	"optibfm/internal/rigtest"
	"optibfm/internal/sections"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/evdev/evdevtest"
	"optibfm/rewardsrc/panel"
)

func TestYAML_IsAConfiguration(t *testing.T) {
	defaults := evdev.DefaultConfig()
	cfg := defaults
	cfg.Device = evdev.Match{
		Bus: "bluetooth", Vendor: "248a", Product: "0012", Name: `A "quoted" näme: #1`, Uniq: "ff:00", Phys: "p\x01",
	}
	cfg.Grab, cfg.Good, cfg.Bad, cfg.CantTell, cfg.Undo = false, "", "705", "BTN_X", ""
	cfg.Axis.Code, cfg.Axis.Rest, cfg.Axis.Inverted = "ABS_Y", evdev.RestLow, true
	few := evdev.Config{
		Device: evdev.Match{Name: "p"}, Grab: true, Buttons: panel.Buttons{Good: "KEY_A", Bad: "KEY_B", Goal: "KEY_C"},
		Axis: defaults.Axis, Labels: defaults.Labels,
	}
	for _, c := range []evdev.Config{cfg, few} {
		text := "version: 1\n" + yaml(c)
		file, err := configs.Parse("bound", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if file.Operator.Source != "evdev" || sections.Get[evdev.Config](file.Operator.Sections) != c {
			t.Errorf("read back as %+v\nwant %+v", sections.Get[evdev.Config](file.Operator.Sections), c)
		}
	}
}

// presser receives the prompts and presses the requested button.
type presser struct {
	bytes.Buffer
	device *evdevtest.Device
}

func (p *presser) Write(b []byte) (int, error) {
	switch text := string(b); {
	case strings.HasPrefix(text, "press the button for GOOD"):
		p.device.Press(rigtest.PedalGood)
	case strings.HasPrefix(text, "press the button for BAD"):
		p.device.Press(rigtest.PedalBad)
	case strings.HasPrefix(text, "press the button for GOAL"):
		p.device.Press(34) // KEY_G
	}
	return p.Buffer.Write(b)
}

func TestRun_WritesANewFile(t *testing.T) {
	machine := evdevtest.Machine{Dir: t.TempDir()}
	defer func(was evdev.System) { evdev.Local = was }(evdev.Local)
	evdev.Local = machine
	prompts := &presser{device: machine.Plug(rigtest.PedalInfo("event3"), nil)}
	o := Options{
		Roles: []string{"good", "bad", "undo"}, Timeout: 200 * time.Millisecond,
		Out: filepath.Join(t.TempDir(), "pedal.yaml"),
	}
	if err := Run(t.Context(), o, nil, prompts); err != nil {
		t.Fatalf("%v\n%s", err, prompts)
	}
	text, err := os.ReadFile(o.Out)
	if err != nil || !strings.Contains(string(text), `good: "KEY_A"`) || strings.Contains(string(text), "undo") {
		t.Errorf("written: %s, %v", text, err)
	}
	errtest.Contains(t, Run(t.Context(), o, nil, prompts), "the file exists", "over a file")
	o.Roles, o.Out = []string{"good", "bad", "goal"}, ""
	var out strings.Builder
	if err := Run(t.Context(), o, &out, prompts); err != nil || !strings.Contains(out.String(), `goal: "KEY_G"`) {
		t.Errorf("with a goal: %v\n%s", err, out.String())
	}
	o.Roles = []string{"great"}
	errtest.Contains(t, Run(t.Context(), o, nil, prompts), "use good, bad, better", "with an unknown role")
}
