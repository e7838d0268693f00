package control

import (
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
)

// remoteControl is a hal.ArmInput and a hal.LabelInput.
type remoteControl struct {
	arm     bool
	presses []hal.Press
}

func (r *remoteControl) ArmRequested() bool {
	asked := r.arm
	r.arm = false
	return asked
}

func (r *remoteControl) Presses(dst []hal.Press) int {
	n := copy(dst, r.presses)
	r.presses = r.presses[n:]
	return n
}

func TestControl_ArmsByTheRobotsInputAsByTheSocket(t *testing.T) {
	r := newFaultRun(t, configs.AfterStopHold)
	input := &remoteControl{}
	r.armInput = input
	input.arm = true
	r.ticks(1)
	if r.agent.Mode().Moves() || r.refusal.Swap(nil) == nil {
		t.Error("armed without a plan, or not told why")
	}
	r.ticks(5)
	input.arm = true
	r.ticks(1)
	if r.agent.Mode() != controller.Armed {
		t.Fatalf("%v", r.agent.Mode())
	}
	r.robot.Pressed = true
	r.ticks(2)
	r.robot.Pressed = false
	r.ticks(1)
	input.arm = true
	r.ticks(1)
	if r.agent.Mode() != controller.Stopped || r.refusal.Load() == nil {
		t.Errorf("%v: the input armed a stopped robot that was not reset", r.agent.Mode())
	}
}

func TestControl_PassesPressesOfTheRobotToTheHost(t *testing.T) {
	r := newFaultRun(t, configs.AfterStopHold)
	r.labelInput = &remoteControl{presses: []hal.Press{{At: 7, Button: 'A'}, {At: 8, Button: 1 << 60}}}
	r.ticks(1)
	letter, at, ok := r.host.NextPress()
	if letter != 'A' || at != 7 || !ok {
		t.Errorf("%q at %d, %t", letter, at, ok)
	}
	if _, at, ok := r.host.NextPress(); at != 8 || !ok {
		t.Errorf("%d, %t", at, ok)
	}
	if _, _, ok := r.host.NextPress(); ok || r.agent.Mode().Moves() {
		t.Error("more presses, or the robot moves")
	}
}
