package main

import (
	"strings"
	"testing"
	"time"

	"optibfm/hal/feetech/feetechtest"
	"optibfm/internal/rigtest"
)

func TestTheProgramRunsAnArmOfFeetechServosAndLeavesItWithoutTorque(t *testing.T) {
	t.Parallel()
	arm, err := feetechtest.New(feetechtest.NewServo(1, 0), feetechtest.NewServo(2, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = arm.Close() })
	cmd := program(t, "operator.source=none", "robot.composite.devices[0].feetech.port.path="+arm.Path)
	cmd.Args = append(cmd.Args, "--config", "testdata/gripper.yaml")
	cmd.Env = append(cmd.Env, rigtest.RigVariable+"={}")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	moving := rigtest.WaitUntil(30*time.Second, func() bool {
		return arm.Get(1, feetechtest.Torque, 1) == 1 && arm.Get(1, feetechtest.Goal, 2) != 2048 && arm.Get(2, feetechtest.GoalSpeed, 2) != 0
	})
	if err := cmd.Wait(); err != nil || !moving {
		t.Fatalf("%v, moving %v\n%s", err, moving, &output)
	}
	ticks, moved := 0, false
	for r, err := range onlyLog(t, cmd).Records() {
		if err != nil {
			t.Fatal(err)
		}
		if r.Tick != nil {
			ticks++
			moved = moved || r.Tick.Obs[0] != 0
		}
	}
	if ticks == 0 || !moved {
		t.Errorf("%d ticks, the joint was sensed to move: %v", ticks, moved)
	}
	const failsafe = 2048 + 326 // 0.5 rad of 4096 steps a turn
	if torque, goal := arm.Get(1, feetechtest.Torque, 1)+arm.Get(2, feetechtest.Torque, 1), arm.Get(1, feetechtest.Goal, 2); torque != 0 || goal != failsafe {
		t.Errorf("afterwards the torque is %d and the goal %d, want 0 and %d", torque, goal, failsafe)
	}
}
