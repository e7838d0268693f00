package setup_test

import (
	"bytes"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/assembly"
	"optibfm/hal/bridge"
	"optibfm/hal/haltest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// unguarded hides the deadman of a robot.
type unguarded struct{ hal.Robot }

func TestCheckArming_StrictNeedsAnOperatorAndADeadman(t *testing.T) {
	body := haltest.New(haltest.Spec(1, 1))
	for name, c := range map[string]struct {
		robot    hal.Robot
		arm      string
		external string
		refused  bool
	}{
		"automatic":        {body, configs.ArmAutomatic, "", true},
		"operator":         {body, configs.ArmOperator, "", false},
		"no deadman":       {unguarded{body}, configs.ArmOperator, "", true},
		"external deadman": {unguarded{body}, configs.ArmOperator, "relay K2", false},
		"simulator":        {haltest.NewSimulator(haltest.Spec(1, 1)), configs.ArmAutomatic, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			var warning bytes.Buffer
			file := configs.Default()
			file.Loop.Posture, file.Safety.Arm, file.Safety.ExternalDeadman = rtloop.Strict, c.arm, c.external
			if err := setup.CheckArming(&warning, c.robot, file); (err != nil) != c.refused {
				t.Errorf("strict: %v", err)
			}
			file.Loop.Posture = rtloop.Warn
			if err := setup.CheckArming(&warning, c.robot, file); err != nil || (warning.Len() > 0) != c.refused {
				t.Errorf("warn: %v, %q", err, warning.String())
			}
		})
	}
}

func TestCheckHostUser_StrictNeedsAnotherUser(t *testing.T) {
	body, simulator := haltest.New(haltest.Spec(1, 1)), haltest.NewSimulator(haltest.Spec(1, 1))
	for name, c := range map[string]struct {
		robot   hal.Robot
		host    string
		refused bool
	}{
		"no user":      {body, "", true},
		"the same":     {body, "optibfm", true},
		"root":         {body, "root", true},
		"another user": {body, "optibfm-host", false},
		"simulator":    {simulator, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			var warning bytes.Buffer
			file := configs.Default()
			file.Loop.Posture, file.Run.HostUser = rtloop.Strict, c.host
			if err := setup.CheckHostUser(&warning, c.robot, file, "optibfm"); (err != nil) != c.refused {
				t.Errorf("strict: %v", err)
			}
			file.Loop.Posture = rtloop.Warn
			err := setup.CheckHostUser(&warning, c.robot, file, "optibfm")
			if err != nil || (warning.Len() > 0) != c.refused {
				t.Errorf("warn: %v, %q", err, warning.String())
			}
		})
	}
}

func TestDescribeDeadman_PrefersTheExternalOne(t *testing.T) {
	s := configs.Safety{ExternalDeadman: "relay K2"}
	if got := setup.DescribeDeadman(haltest.New(haltest.Spec(1, 1)), s); got != "relay K2" {
		t.Error(got)
	}
}

// resettable is a robot that can be reset, or reports that it cannot.
type resettable struct {
	*haltest.Simulator
	can bool
}

func (r resettable) CanReset() bool { return r.can }

func TestCanWaitForHost_OnlySimulatorsWithTheirOwnTime(t *testing.T) {
	simulator := haltest.NewSimulator(haltest.Spec(2, 1))
	for name, c := range map[string]struct {
		robot  hal.Robot
		driver string
		mode   string
		want   bool
	}{
		"rover":                    {simulator, "rover", "", true},
		"bridge: simulator":        {resettable{simulator, true}, "bridge", bridge.Lockstep, true},
		"bridge: free simulator":   {resettable{simulator, true}, "bridge", bridge.Free, false},
		"bridge: body":             {resettable{simulator, false}, "bridge", bridge.Lockstep, false},
		"bridge: free body":        {resettable{simulator, false}, "bridge", bridge.Free, false},
		"devices":                  {haltest.New(haltest.Spec(2, 1)), "composite", "", false},
		"devices that are a model": {simulator, "composite", "", false},
	} {
		f := configs.Default()
		f.Robot.Driver = c.driver
		rigtest.EditRobot(&f, func(b *bridge.Config) { b.Mode = c.mode })
		if got := setup.CanWaitForHost(c.robot, f); got != c.want {
			t.Errorf("%s: waits %t, want %t", name, got, c.want)
		}
	}
}

func TestCheckStart_FindsPosesAndJumpsBeforeTheRobotIsOpened(t *testing.T) {
	rover := configs.Default()
	rover.Safety.Start.Pose = map[string]float64{"left_weel": 0.1}
	contains := func(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
	if impossible, _ := setup.CheckStart(rover); !contains(impossible, `no action channel "left_weel"`) {
		t.Errorf("rover: %v", impossible)
	}
	arm, err := configs.Load("composite")
	fatal.If(t, err)
	rigtest.EditRobot(&arm, func(c *assembly.Config) {
		for i := range c.Action {
			c.Action[i].Unit = "rad" // hobby servos
		}
	})
	if impossible, cannot := setup.CheckStart(arm); impossible != nil || !contains(cannot, "no position sensor") {
		t.Errorf("composite: %v, %v", impossible, cannot)
	}
	arm.Safety.Start.Unmeasured = controller.Accepted
	if impossible, cannot := setup.CheckStart(arm); impossible != nil || cannot != nil {
		t.Errorf("accepted: %v, %v", impossible, cannot)
	}
}
