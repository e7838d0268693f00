package control

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal/bridge"
	"optibfm/hal/bridge/bridgetest"
	"optibfm/hal/haltest"
	"optibfm/internal/lockstep"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
)

// bridgeStages lists the requests of a run to the server of a bridge. In lockstep, replies to reset
// and act contain the state, so a run sends no sense request.
var bridgeStages = map[string][]bridgetest.Kind{
	bridge.Lockstep: {bridgetest.Hello, bridgetest.Arm, bridgetest.Reset, bridgetest.Act, bridgetest.Halt},
	bridge.Free:     {bridgetest.Hello, bridgetest.Arm, bridgetest.Sense, bridgetest.Act, bridgetest.Halt},
}

// TestRun_EveryFaultOfABridgeServerHaltsTheRobot covers stage x fault x mode with agent and
// planner; package bridge covers it without. Faults of single samples are in injections.
func TestRun_EveryFaultOfABridgeServerHaltsTheRobot(t *testing.T) {
	cases := 0
	for mode, stages := range bridgeStages {
		free := mode == bridge.Free
		for _, at := range stages {
			for _, fault := range bridgetest.Faults(at, free) {
				if fault.Mild || at == bridgetest.Reset && fault.Then == bridgetest.BeSilent { // 10 s
					continue
				}
				cases++
				t.Run(fmt.Sprintf("%s/%v/%s", mode, at, fault.Name), func(t *testing.T) {
					t.Parallel()
					options := bridgetest.Options{Spec: haltest.Spec(6, 2), Free: free, At: at, Fault: fault}
					server := bridgetest.Serve(t, options)
					t.Cleanup(func() { rigtest.CheckHalted(t, server, fault.Acts) })
					if err := runOnBridge(t, mode, server.Address); err == nil || !bridgetest.Names(err, at) {
						t.Errorf("the error does not name the bridge and the stage: %v", err)
					}
				})
			}
		}
	}
	if cases < 128 {
		t.Errorf("%d cases, want at least 128", cases)
	}
	t.Logf("%d faults of a bridge's server in a run: each halts the robot and is named", cases)
}

// runOnBridge runs some ticks and returns the error of the run.
func runOnBridge(t *testing.T, mode, address string) error {
	t.Helper()
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Robot.Driver = "bridge"
		rigtest.EditRobot(f, func(c *bridge.Config) {
			*c = bridge.Config{Address: address, Mode: mode, TimeoutMs: 500, StaleMs: 600, StartTimeoutMs: 1500}
		})
		f.Operator.Source, f.Log.Enabled = configs.SourceNone, false
		f.Controller.Guard.MaxBadTicks = 0
		f.Run.Lockstep, f.Run.DurationS, f.Run.EpisodeS = mode == bridge.Lockstep, 0.2, 0.2
		f.Run.SimulatorWaitS = 0 // the deadlines of a physical robot
	})
	ctx, cancel := context.WithTimeout(t.Context(), rigtest.ExitTimeout)
	defer cancel()
	if mode == bridge.Lockstep {
		_, err := lockstep.Run(ctx, s, terminal.QuietDisplay{})
		return err
	}
	robot, err := setup.OpenRobot(ctx, s, nil)
	if err != nil {
		return err
	}
	s.File.Run.EpisodeS = 0
	r := newRun(t, s, robot)
	for i := 0; err == nil && i < 10; i++ {
		err = r.Tick()
		time.Sleep(time.Millisecond)
	}
	return errors.Join(err, r.agent.Halt(controller.FaultNone), setup.CloseRobot(robot))
}
