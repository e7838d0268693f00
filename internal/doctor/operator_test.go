package doctor

import (
	"net"
	"path/filepath"
	"slices"
	"testing"

	"optibfm/internal/rigtest"
	"optibfm/rewardsrc/evdev"
)

func TestDoctor_FindsRewardDeviceWithoutOpeningIt(t *testing.T) {
	pedal := inputs{{Node: "event0", Name: "Keyboard"}, rigtest.PedalInfo("event3")}
	set := []string{"operator.source=evdev", "operator.evdev.device.name=FootSwitch",
		"operator.evdev.good=KEY_A", "operator.evdev.bad=KEY_B"}
	for _, c := range []struct {
		name    string
		devices []evdev.Info
		denied  string
		key     string
		status  string
		words   []string
	}{
		{"connected", pedal, "", "", statusOK, []string{"FootSwitch", "event3"}},
		{"no rights", pedal, "/dev/input/event3", "", statusFail, []string{"permission denied", "group input"}},
		{"not connected", nil, "", "", statusWarn, []string{"not connected"}},
		{"no key", pedal, "", "operator.evdev.undo=KEY_U", statusFail, []string{"no KEY_U", "label bind"}},
		{"no key of a goal", pedal, "", "operator.evdev.goal=KEY_G", statusFail, []string{"no KEY_G", "label bind"}},
		{"no axis", pedal, "", "operator.evdev.axis.code=ABS_Y", statusFail, []string{"no ABS_Y"}},
	} {
		m := fakeMachine(tree())
		m.inputs, m.access = inputs(c.devices), denied(c.denied)
		all := slices.Clone(set)
		if c.key != "" {
			all = append(all, c.key)
		}
		expect(t, c.name, doctorFor(t, m, "composite", all...).checkInputDevice(), c.status, c.words...)
	}
}

func TestDoctor_ChecksLinesOfButtons(t *testing.T) {
	m := fakeMachine(board())
	m.line = func(chip, line string) (lineState, error) {
		return lineState{Chip: chip, Offset: 4, Used: line == "6", By: "sysfs"}, nil
	}
	d := doctorFor(t, m, "composite", "operator.source=gpio", "operator.gpio.chip=gpiochip0",
		"operator.gpio.good=5", "operator.gpio.bad=6", "operator.gpio.goal=7", "operator.gpio.led=8")
	found := d.checkButtons(t.Context())
	var subjects []string
	for _, f := range found {
		subjects = append(subjects, f.Subject)
	}
	if want := []string{"good", "bad", "goal", "led"}; !slices.Equal(subjects, want) {
		t.Fatalf("%+v", found)
	}
	expect(t, "good", found[0], statusOK, "gpiochip0")
	expect(t, "bad", found[1], statusFail, "sysfs")
}

func TestDoctor_ChecksConsolePort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer listener.Close()
	set := []string{"operator.source=web", "operator.web.listen=" + listener.Addr().String()}
	d := doctorFor(t, fakeMachine(tree()), "rover-keyboard", set...)
	expect(t, "in use", d.checkConsole(), statusWarn, "in use")
	d.file.Operator.Web.Listen = "127.0.0.1:0"
	expect(t, "free", d.checkConsole(), statusOK, "free")
	d.file.Operator.Web.Listen = "203.0.113.77:8642"
	expect(t, "an address that appears later", d.checkConsole(), statusWarn, "203.0.113.77", "waits")
	d.file.Operator.Web.CertFile = filepath.Join(t.TempDir(), "none.pem")
	expect(t, "no certificate", d.checkConsole(), statusFail, "none.pem")
}
