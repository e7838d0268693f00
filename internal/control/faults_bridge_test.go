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

// bridgeStages are the requests that a run makes of a bridge's server. In lockstep
// it does not sense: an answer to reset or act brings the state.
var bridgeStages = map[string][]bridgetest.Kind{
	bridge.Lockstep: {bridgetest.Hello, bridgetest.Arm, bridgetest.Reset, bridgetest.Act, bridgetest.Halt},
	bridge.Free:     {bridgetest.Hello, bridgetest.Arm, bridgetest.Sense, bridgetest.Act, bridgetest.Halt},
}

// TestRun_EveryFaultOfABridgesServerEndsInAnErrorAndAHalt is the table stage x fault
// x mode with agent and planner; package bridge has it without. Faults of single
// samples, which a run bears, are in faultTable.
func TestRun_EveryFaultOfABridgesServerEndsInAnErrorAndAHalt(t *testing.T) {
	cases := 0
	for mode, stages := range bridgeStages {
		free := mode == bridge.Free
		for _, at := range stages {
			for _, fault := range bridgetest.Faults(at, free) {
				if fault.Mild || at == bridgetest.Reset && fault.Then == bridgetest.BeSilent { // for 10 s
					continue
				}
				cases++
				t.Run(fmt.Sprintf("%s/%v/%s", mode, at, fault.Name), func(t *testing.T) {
					t.Parallel()
					server := bridgetest.Serve(t, bridgetest.Options{Spec: haltest.Spec(6, 2), Free: free, At: at, Fault: fault})
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
	t.Logf("%d cases", cases)
}

// runOnBridge runs some ticks, and returns why the run ended.
func runOnBridge(t *testing.T, mode, address string) error {
	t.Helper()
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Robot.Driver = configs.DriverBridge
		f.Robot.Bridge = bridge.Config{Address: address, Mode: mode, TimeoutMs: 500, StaleMs: 600, StartTimeoutMs: 1500}
		f.Operator.Source, f.Log.Enabled = configs.SourceNone, false
		f.Controller.Guard.MaxBadTicks = 0
		f.Run.Lockstep, f.Run.DurationS, f.Run.EpisodeS = mode == bridge.Lockstep, 0.2, 0.2
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
	e := newTwoEndsWith(t, s, robot)
	for range 10 {
		if err = e.Tick(); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return errors.Join(err, e.agent.Halt(controller.FaultNone), setup.CloseRobot(robot))
}
