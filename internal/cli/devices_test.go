package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

// runOnRig runs the program on a rig and returns the rig's report and the output.
func runOnRig(t *testing.T, orders map[string]any, set ...string) (rigtest.RigReport, *exec.Cmd, string, error) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	orders["Report"] = report
	text, err := json.Marshal(orders)
	fatal.If(t, err)
	base := []string{"model.bundle=embedded:rover", "operator.source=none", "loop.watchdog_ms=2000"}
	cmd := program(t, slices.Concat(base, rigtest.AutoArmSettings, set)...)
	cmd.Args = append(cmd.Args, "--config", "composite")
	cmd.Env = append(cmd.Env, rigtest.RigVariable+"="+string(text))
	output, runErr := cmd.CombinedOutput()
	var seen rigtest.RigReport
	text, err = os.ReadFile(report)
	if err != nil {
		t.Fatalf("the robot was not closed: %v\n%s", err, output)
	}
	fatal.If(t, json.Unmarshal(text, &seen))
	return seen, cmd, string(output), runErr
}

// withoutWalls removes the position limits, which halt the rover 4 m from the start.
var withoutWalls = []string{
	"robot.composite.observation[0].min=-1000000", "robot.composite.observation[0].max=1000000",
	"robot.composite.observation[1].min=-1000000", "robot.composite.observation[1].max=1000000",
}

// rigSeconds is the length of a run on fake devices.
func rigSeconds(t *testing.T) float64 {
	t.Helper()
	seconds := 3.0
	if s := os.Getenv("OPTIBFM_RIG_SECONDS"); s != "" {
		fatal.If(t, errtest.Of(fmt.Sscan(s, &seconds)))
	}
	if testing.Short() {
		seconds = 1
	}
	return seconds
}

func TestRun_DrivesDevicesAt50And200Hz(t *testing.T) {
	t.Parallel()
	seconds := rigSeconds(t)
	for _, hz := range []float64{50, 200} {
		t.Run(fmt.Sprintf("%g Hz", hz), func(t *testing.T) {
			t.Parallel()
			seen, cmd, output, err := runOnRig(t, map[string]any{},
				append(withoutWalls, fmt.Sprintf("loop.period_ms=%g", 1000/hz),
					fmt.Sprintf("run.duration_s=%g", seconds), "robot.composite.devices[0].stale_ms=1000")...)
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			ticks, skipped, farthest := 0, uint64(0), 0.0
			for record, err := range onlyLog(t, cmd).Records() {
				fatal.If(t, err)
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

func TestRun_DisablesTheMotorsWhenTheBusIsHeld(t *testing.T) {
	t.Parallel()
	orders := map[string]any{"Fault": "bus held", "After": 100}
	seen, _, output, err := runOnRig(t, orders, "loop.period_ms=20", "run.duration_s=30")
	if err == nil || !strings.Contains(output, "the device did not answer in time") {
		t.Errorf("%v\n%s", err, output)
	}
	if !seen.OE || seen.DisabledAt < seen.FaultAt {
		t.Errorf("OE %v, high since %d, fault at %d", seen.OE, seen.DisabledAt, seen.FaultAt)
	}
	t.Logf("the motors were disabled %v after the fault", time.Duration(seen.DisabledAt-seen.FaultAt))
}
