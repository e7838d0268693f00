package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal/mcu/mcutest"
	"optibfm/internal/rigtest"
)

// start starts `optibfm run` on the wagon.
func startWagon(t *testing.T, w *rigtest.Wagon, set ...string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	cmd := program(t, append(append(w.Set, "model.bundle="+rigtest.WagonBundle(t), "operator.source=none", "loop.watchdog_ms=2000"), set...)...)
	cmd.Args = append(cmd.Args, "--config", rigtest.WagonFile)
	cmd.Env = append(cmd.Env, rigtest.RigVariable+"={}")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &output
}

// actAsDevices puts this process before others until the test ends, where it is
// allowed to: devices need no processor of this machine, their fakes do.
func actAsDevices(t *testing.T) {
	t.Helper()
	set := func(attributes unix.SchedAttr) {
		attributes.Size = unix.SizeofSchedAttr
		threads, err := filepath.Glob("/proc/self/task/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range threads {
			thread, err := strconv.Atoi(filepath.Base(path))
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.SchedSetAttr(thread, &attributes, 0); err != nil {
				t.Logf("the fakes have no precedence: %v", err)
				return
			}
		}
	}
	set(unix.SchedAttr{Policy: unix.SCHED_RR, Priority: 1})
	t.Cleanup(func() { set(unix.SchedAttr{Policy: unix.SCHED_NORMAL}) })
}

func TestRun_AllKindsOfDevicesAt50And200Hz(t *testing.T) {
	t.Parallel()
	seconds := rigSeconds(t)
	for _, hz := range []float64{50, 200} {
		t.Run(fmt.Sprintf("%g Hz", hz), func(t *testing.T) {
			w := rigtest.NewWagon(t)
			// Limits beyond the delays of a busy machine: a device replies within 1 s, its deadman is 2.5 s.
			set := append(rigtest.LongTimeouts(4*time.Second),
				"run.host_timeout_s=60", "controller.max_plan_age_ticks=100000",
				fmt.Sprintf("loop.period_ms=%g", 1000/hz), fmt.Sprintf("run.duration_s=%g", seconds))
			cmd, output := startWagon(t, w, set...)
			if os.Getenv("OPTIBFM_RIG_SECONDS") != "" {
				actAsDevices(t)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			ticks, skipped, longest, moved := uint64(0), uint64(0), uint64(0), 0.0
			var took []time.Duration // from waking to the end of a tick
			for record, err := range onlyLog(t, cmd).Records() {
				if err != nil {
					t.Fatal(err)
				}
				if tick := record.Tick; tick != nil {
					ticks++
					skipped += max(tick.Elapsed, 1) - 1
					longest = max(longest, tick.Elapsed)
					moved = max(moved, math.Abs(float64(tick.Obs[0])))
					took = append(took, time.Duration(tick.Done-tick.Wake))
				}
			}
			// The run may end while a tick is late.
			if whole, found := seconds*hz, float64(ticks+skipped); found > whole+2 || found < whole-2-float64(longest) {
				t.Errorf("%d ticks and %d skipped, want %g together", ticks, skipped, whole)
			}
			if moved == 0 {
				t.Error("the wheels never turned")
			}
			w.WaitStopped(t, 0, "base", "neck", "arm")
			slices.Sort(took)
			t.Logf("%d ticks, %d skipped; a tick took %v in the median, %v in 99 of 100",
				ticks, skipped, took[len(took)/2], took[len(took)*99/100])
		})
	}
}

// unhurried takes the limits in time out of rover-mcu: the fake of its board needs a processor of
// this machine, which other programs may keep for seconds.
var unhurried = []string{
	"safety.max_sample_age_ms=0", "run.host_timeout_s=60", "loop.watchdog_ms=600000",
	"robot.composite.devices[0].stale_ms=60000", "robot.composite.devices[1].stale_ms=60000",
	"robot.composite.devices[0].mcu.stale_ms=60000", "robot.composite.devices[0].mcu.timeout_ms=30000",
	"robot.composite.devices[0].mcu.deadman_ms=60000",
}

func TestTheRoverOfTheManualRunsOnItsBoard(t *testing.T) {
	t.Parallel()
	firmware, commands := mcutest.Rover(), atomic.Int64{}
	step, last := firmware.Step, []float32{0, 0}
	firmware.Step = func(dt float64, outputs, inputs []float32) {
		if !slices.Equal(outputs, last) {
			copy(last, outputs)
			commands.Add(1)
		}
		step(dt, outputs, inputs)
	}
	base, err := mcutest.New(firmware)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = base.Close() })
	cmd := program(t, append(slices.Concat(withoutWalls, rigtest.AutoArmSettings, unhurried), "model.bundle=embedded:rover", "operator.source=none",
		"safety.external_deadman=", "robot.composite.devices[0].mcu.port.path="+base.Path)...)
	cmd.Args = append(cmd.Args, "--config", "rover-mcu")
	cmd.Env = append(cmd.Env, rigtest.RigVariable+"={}")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	moved := rigtest.WaitUntil(2*time.Minute, func() bool { return commands.Load() >= 20 })
	_ = cmd.Process.Signal(unix.SIGTERM) // fails where the program has ended, which Wait reports
	if err := cmd.Wait(); err != nil || !moved {
		t.Fatalf("%d commands, %v\n%s", commands.Load(), err, &output)
	}
	if strings.Contains(output.String(), "found no deadman") {
		t.Errorf("it has one:\n%s", &output)
	}
	farthest, asked := 0.0, 0.0
	for record, err := range onlyLog(t, cmd).Records() {
		if err != nil {
			t.Fatal(err)
		}
		if tick := record.Tick; tick != nil {
			farthest = max(farthest, math.Hypot(float64(tick.Obs[0]), float64(tick.Obs[1])))
			asked = max(asked, math.Abs(float64(tick.Obs[4])))
		}
	}
	if farthest == 0 || asked == 0 || asked > 1.01 {
		t.Errorf("it went %g m, its greatest speed was %g of the top speed", farthest, asked)
	}
	if outputs, armed := base.Outputs(); armed || outputs[0] != 0 {
		t.Errorf("at the end: armed %v, %v", armed, outputs)
	}
}

func TestTheEmergencyStopOfTheManualsRoverStopsItsRun(t *testing.T) {
	t.Parallel()
	base, err := mcutest.New(mcutest.Rover())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = base.Close() })
	cmd := program(t, append(slices.Concat(withoutWalls, rigtest.AutoArmSettings), "model.bundle=embedded:rover", "operator.source=none", "loop.watchdog_ms=2000",
		"safety.external_deadman=", "robot.composite.devices[0].mcu.port.path="+base.Path)...)
	cmd.Args = append(cmd.Args, "--config", "rover-mcu")
	cmd.Env = append(cmd.Env, rigtest.RigVariable+"={}")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if !rigtest.WaitUntil(30*time.Second, func() bool { outputs, armed := base.Outputs(); return armed && outputs[0] != 0 }) {
		t.Fatal("it never moved")
	}
	base.Fault(mcutest.CauseEStop)
	if err := cmd.Wait(); err == nil || !strings.Contains(output.String(), controller.FaultEStop.String()) {
		t.Errorf("%v\n%s", err, output.String())
	}
	if summary, _, err := flightlog.Summarise(onlyLog(t, cmd)); err != nil || summary.Faults[controller.FaultEStop] != 1 {
		t.Errorf("the log tells of the stops %v, %v", summary.Faults, err)
	}
}

func TestDevicesWithoutADeadmanAreToldAtTheStart(t *testing.T) {
	t.Parallel()
	_, _, output, err := runOnRig(t, map[string]any{}, "run.duration_s=0.2", "robot.composite.devices[0].stale_ms=1000", "safety.external_deadman=")
	if err != nil || !strings.Contains(strings.Join(strings.Fields(output), " "), "found no deadman of base:") {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestAnUnpluggedBoardEndsARunAndTheOtherDevicesAreHalted(t *testing.T) {
	t.Parallel()
	w := rigtest.NewWagon(t)
	cmd, output := startWagon(t, w, rigtest.LongTimeouts(2*time.Second)...)
	w.WaitMoving(t, cmd, output)
	w.Unplug("base")
	after := w.WaitStopped(t, 2*rigtest.LongDeadman, "neck", "arm")
	if err := cmd.Wait(); err == nil || !strings.Contains(output.String(), "composite: base:") {
		t.Errorf("%v\n%s", err, output)
	}
	t.Logf("the others were halted %v after it", after)
}

func TestEveryDeviceStopsByItselfWhenTheControlProcessIsKilled(t *testing.T) {
	t.Parallel()
	w := rigtest.NewWagon(t)
	cmd, output := startWagon(t, w, rigtest.LongTimeouts(2*time.Second)...)
	w.WaitMoving(t, cmd, output)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Logf("all stopped %v after the kill, their deadman is %v", w.WaitStopped(t, 2*rigtest.LongDeadman, "base", "neck", "arm"), rigtest.LongDeadman)
	_ = cmd.Wait()
}
