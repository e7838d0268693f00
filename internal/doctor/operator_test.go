package doctor

import (
	"net"
	"path/filepath"
	"testing"

	"optibfm/internal/rigtest"
	"optibfm/rewardsrc/evdev"
)

func TestTheRewardDeviceIsFoundWithoutOpeningIt(t *testing.T) {
	m := fakeMachine(tree())
	m.inputs = inputList{devices: []evdev.Info{{Node: "event0", Name: "Keyboard"}, rigtest.PedalInfo("event3")}}
	set := []string{"operator.source=evdev", "operator.evdev.device.name=FootSwitch", "operator.evdev.good=KEY_A", "operator.evdev.bad=KEY_B"}
	d := examined(t, m, "composite", set...)
	verdict(t, "there", d.inputDevice(), statusOK, "FootSwitch", "event3")
	d.access = denies("/dev/input/event3")
	verdict(t, "refused", d.inputDevice(), statusFail, "permission denied", "group input")
	d.inputs = noInputs{}
	verdict(t, "unplugged", d.inputDevice(), statusWarn, "not connected")
	m.inputs = inputList{devices: []evdev.Info{rigtest.PedalInfo("event3")}}
	verdict(t, "other keys", examined(t, m, "composite", append(set, "operator.evdev.undo=KEY_U")...).inputDevice(), statusFail, "has no KEY_U", "label bind")
	verdict(t, "no axis", examined(t, m, "composite", append(set, "operator.evdev.axis.code=ABS_Y")...).inputDevice(), statusFail, "has no ABS_Y")
}

func TestButtonsAreLookedAtByTheirRoles(t *testing.T) {
	m := fakeMachine(board())
	m.line = func(chip, line string) (lineState, error) {
		return lineState{Chip: chip, Offset: 4, Used: line == "6", By: "sysfs"}, nil
	}
	d := examined(t, m, "composite", "operator.source=gpio", "operator.gpio.chip=gpiochip0", `operator.gpio.good=5`, `operator.gpio.bad=6`)
	found := d.buttons(t.Context())
	if len(found) != 2 || found[0].Subject != "good" || found[1].Subject != "bad" {
		t.Fatalf("%+v", found)
	}
	verdict(t, "good", found[0], statusOK, "gpiochip0")
	verdict(t, "bad", found[1], statusFail, "sysfs")
}

func TestTheConsolesPortIsFree(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	set := []string{"operator.source=web", "operator.web.listen=" + listener.Addr().String()}
	d := examined(t, fakeMachine(tree()), "rover-keyboard", set...)
	verdict(t, "taken", d.webConsole(), statusWarn, "is taken")
	_ = listener.Close()
	verdict(t, "free", d.webConsole(), statusOK, "can be listened on")
	d.file.Operator.Web.Listen = "203.0.113.77:8642"
	verdict(t, "not ours", d.webConsole(), statusFail, "operator.web.listen")
	d.file.Operator.Web.CertFile = filepath.Join(t.TempDir(), "none.pem")
	verdict(t, "no certificate", d.webConsole(), statusFail, "none.pem")
}
