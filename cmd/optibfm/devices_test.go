package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"periph.io/x/conn/v3/i2c"

	"optibfm/controller"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
)

func TestARobotThatDoesNotFitItsModelIsRefusedBeforeAnythingIsOpened(t *testing.T) {
	real := setup.LocalHardware
	defer func() { setup.LocalHardware = real }()
	setup.LocalHardware.OpenI2C = func(string, time.Duration) (i2c.BusCloser, error) {
		t.Error("a bus was opened")
		return nil, os.ErrPermission
	}
	_, err := openRun(runFlags{config: "composite", set: []string{"robot.composite.observation[4].name=forward_speed", "robot.composite.observation[4].unit=m/s"}})
	if !errors.Is(err, controller.ErrMismatch) || !strings.Contains(err.Error(), "*    4  forward_speed [m/s]  speed\n") {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if _, err := runConfig("init", "composite", "-o", path); err != nil {
		t.Fatal(err)
	}
	_, err = runConfig("validate", path, "--set", "robot.composite.observation[4].name=velocity")
	if !errors.Is(err, controller.ErrMismatch) {
		t.Errorf("validate: %v", err)
	}
	if _, err := runConfig("validate", path, "--set", "robot.composite.observation[4].name=velocity", "--set", "model.bundle="+filepath.Join(t.TempDir(), "elsewhere")); err != nil {
		t.Errorf("validate without the model at hand: %v", err)
	}
}

// runOnRig runs the program on a rig, and returns what the rig and the log saw.
func runOnRig(t *testing.T, orders map[string]any, set ...string) (rigtest.RigReport, *exec.Cmd, string, error) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	orders["Report"] = report
	text, err := json.Marshal(orders)
	if err != nil {
		t.Fatal(err)
	}
	cmd := program(t, slices.Concat([]string{"model.bundle=embedded:rover", "operator.source=none", "loop.watchdog_ms=2000"}, rigtest.AutoArmSettings, set)...)
	cmd.Args = append(cmd.Args, "--config", "composite")
	cmd.Env = append(cmd.Env, rigtest.RigVariable+"="+string(text))
	output, runErr := cmd.CombinedOutput()
	var seen rigtest.RigReport
	text, err = os.ReadFile(report)
	if err != nil {
		t.Fatalf("the robot was not closed: %v\n%s", err, output)
	}
	if err := json.Unmarshal(text, &seen); err != nil {
		t.Fatal(err)
	}
	return seen, cmd, string(output), runErr
}

// withoutWalls lets the rover go where it likes, as it does where nobody stops
// it; with its limits it is halted 4 m from the start.
var withoutWalls = []string{
	"robot.composite.observation[0].min=-1000000", "robot.composite.observation[0].max=1000000",
	"robot.composite.observation[1].min=-1000000", "robot.composite.observation[1].max=1000000",
}

// rigSeconds is how long a whole run on fake devices takes.
func rigSeconds(t *testing.T) float64 {
	t.Helper()
	seconds := 3.0
	if s := os.Getenv("OPTIBFM_RIG_SECONDS"); s != "" {
		if _, err := fmt.Sscan(s, &seconds); err != nil {
			t.Fatal(err)
		}
	}
	if testing.Short() {
		seconds = 1
	}
	return seconds
}

func TestTheProgramRunsARobotMadeOfDevicesAt50And200Hz(t *testing.T) {
	t.Parallel()
	seconds := rigSeconds(t)
	for _, hz := range []float64{50, 200} {
		t.Run(fmt.Sprintf("%g Hz", hz), func(t *testing.T) {
			t.Parallel()
			seen, cmd, output, err := runOnRig(t, map[string]any{},
				append(withoutWalls, fmt.Sprintf("loop.period_ms=%g", 1000/hz), fmt.Sprintf("run.duration_s=%g", seconds), "robot.composite.devices[0].stale_ms=1000")...)
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			ticks, skipped, farthest := 0, uint64(0), 0.0
			for record, err := range onlyLog(t, cmd).Records() {
				if err != nil {
					t.Fatal(err)
				}
				if tick := record.Tick; tick != nil {
					ticks++
					skipped += max(tick.Elapsed, 1) - 1
					farthest = max(farthest, math.Hypot(float64(tick.Obs[0]), float64(tick.Obs[1])))
				}
			}
			if whole := seconds * hz; math.Abs(float64(ticks)+float64(skipped)-whole) > 2 {
				t.Errorf("%d ticks and %d skipped, want %g together", ticks, skipped, whole)
			}
			if !seen.OE || seen.Left != 0 {
				t.Errorf("at the end: OE %v, a pulse of %d ticks", seen.OE, seen.Left)
			}
			if seen.Turned < 0.01 || farthest == 0 {
				t.Errorf("turned by %g rad and went %g: it did not move", seen.Turned, farthest)
			}
			t.Logf("%d ticks, %d skipped, turned by %.1f rad", ticks, skipped, seen.Turned)
		})
	}
}

func TestABusThatIsHeldEndsARunWithTheMotorsDisabled(t *testing.T) {
	t.Parallel()
	seen, _, output, err := runOnRig(t, map[string]any{"Fault": "bus held", "After": 100}, "loop.period_ms=20", "run.duration_s=30")
	if err == nil || !strings.Contains(output, "the device did not answer in time") {
		t.Errorf("%v\n%s", err, output)
	}
	if !seen.OE || seen.DisabledAt < seen.FaultAt {
		t.Errorf("OE %v, high since %d, fault at %d", seen.OE, seen.DisabledAt, seen.FaultAt)
	}
	t.Logf("the motors were disabled %v after the fault", time.Duration(seen.DisabledAt-seen.FaultAt))
}
