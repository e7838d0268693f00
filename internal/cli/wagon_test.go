package cli

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
	"optibfm/hal/feetech/feetechtest"
	"optibfm/hal/mcu/mcutest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

// startWagon starts `optibfm run` on the wagon.
func startWagon(t *testing.T, w *rigtest.Wagon, set ...string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	cmd := program(t, slices.Concat(w.Set,
		[]string{"model.bundle=" + rigtest.WagonBundle(t), "operator.source=none", "loop.watchdog_ms=2000"}, set)...)
	cmd.Args = append(cmd.Args, "--config", rigtest.WagonFile)
	cmd.Env = append(cmd.Env, rigtest.RigVariable+"=1")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	fatal.If(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &output
}

// actAsDevices gives this process precedence until the test ends, if it is permitted:
// real devices do not compete for this machine's processors, their fakes do.
func actAsDevices(t *testing.T) {
	t.Helper()
	set := func(attributes unix.SchedAttr) {
		attributes.Size = unix.SizeofSchedAttr
		threads, err := filepath.Glob("/proc/self/task/*")
		fatal.If(t, err)
		for _, path := range threads {
			thread, err := strconv.Atoi(filepath.Base(path))
			fatal.If(t, err)
			if err := unix.SchedSetAttr(thread, &attributes, 0); err != nil {
				t.Logf("the fakes have no precedence: %v", err)
				return
			}
		}
	}
	set(unix.SchedAttr{Policy: unix.SCHED_RR, Priority: 1})
	t.Cleanup(func() { set(unix.SchedAttr{Policy: unix.SCHED_NORMAL}) })
}

// rigSeconds is the length of a run on fake devices, in the time of its commands.
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

func TestRun_AllKindsOfDevicesAt50And200Hz(t *testing.T) {
	t.Parallel()
	seconds := rigSeconds(t)
	for _, hz := range []float64{50, 200} {
		t.Run(fmt.Sprintf("%g Hz", hz), func(t *testing.T) {
			w := rigtest.NewWagon(t)
			// Limits beyond the delays of a busy machine: a device replies within 1 s, its deadman
			// is 2.5 s.
			set := append(rigtest.LongTimeouts(4*time.Second),
				"run.host_timeout_s=60", "controller.max_plan_age_ticks=100000", fmt.Sprintf("loop.period_ms=%g", 1000/hz))
			cmd, output := startWagon(t, w, set...)
			if os.Getenv("OPTIBFM_RIG_SECONDS") != "" {
				actAsDevices(t)
			}
			whole := seconds * hz
			ran := rigtest.WaitUntil(rigtest.HangGuard+time.Duration(2*seconds*float64(time.Second)), func() bool {
				return w.Base.Commands() >= int(whole)
			})
			_ = cmd.Process.Signal(unix.SIGTERM) // fails if the program has ended; Wait returns its error
			if err := cmd.Wait(); err != nil || !ran {
				t.Fatalf("%d commands of %g, %v\n%s", w.Base.Commands(), whole, err, output)
			}
			ticks, skipped, last, moved := uint64(0), uint64(0), uint64(0), 0.0
			var took []time.Duration // from waking to the end of a tick
			for record, err := range onlyLog(t, cmd).Records() {
				fatal.If(t, err)
				if tick := record.Tick; tick != nil {
					ticks++
					skipped += max(tick.Elapsed, 1) - 1
					last = tick.Index
					moved = max(moved, math.Abs(float64(tick.Obs[0])))
					took = append(took, time.Duration(tick.Done-tick.Wake))
				}
			}
			if ticks+skipped != last+1 {
				t.Errorf("%d ticks and %d skipped to tick %d", ticks, skipped, last)
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

// startOn starts `optibfm run` on fake devices with a configuration.
func startOn(t *testing.T, config string, set ...string) (*exec.Cmd, *rigtest.SyncBuffer) {
	t.Helper()
	cmd := program(t, append(set, "operator.source=none")...)
	cmd.Args = append(cmd.Args, "--config", config)
	cmd.Env = append(cmd.Env, rigtest.RigVariable+"=1")
	return cmd, startShared(t, cmd)
}

// withoutWalls removes the position limits, which halt the rover 4 m from the start.
var withoutWalls = []string{
	"robot.composite.observation[0].min=-1000000", "robot.composite.observation[0].max=1000000",
	"robot.composite.observation[1].min=-1000000", "robot.composite.observation[1].max=1000000",
}

// roverBoard returns a fake board and the settings of a run of rover-mcu on it.
func roverBoard(t *testing.T, firmware mcutest.Firmware) (*mcutest.Board, []string) {
	t.Helper()
	base, err := mcutest.New(firmware)
	fatal.If(t, err)
	t.Cleanup(func() { _ = base.Close() })
	return base, slices.Concat(withoutWalls, rigtest.AutoArmSettings, []string{
		"model.bundle=embedded:rover", "safety.external_deadman=",
		"robot.composite.devices[0].mcu.port.path=" + base.Path,
	})
}

// patient removes the time limits of rover-mcu: other programs may take the processor from
// the fake board for seconds.
var patient = []string{
	"safety.max_sample_age_ms=0", "run.host_timeout_s=60", "loop.watchdog_ms=600000",
	"robot.composite.devices[0].stale_ms=60000", "robot.composite.devices[1].stale_ms=60000",
	"robot.composite.devices[0].mcu.stale_ms=60000", "robot.composite.devices[0].mcu.timeout_ms=30000",
	"robot.composite.devices[0].mcu.deadman_ms=60000",
}

func TestRun_DrivesTheRoverOfTheManual(t *testing.T) {
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
	base, set := roverBoard(t, firmware)
	cmd, output := startOn(t, "rover-mcu", append(set, patient...)...)
	moved := rigtest.WaitUntil(rigtest.HangGuard, func() bool { return commands.Load() >= 20 })
	_ = cmd.Process.Signal(unix.SIGTERM) // fails if the program has ended; Wait returns its error
	if err := cmd.Wait(); err != nil || !moved {
		t.Fatalf("%d commands, %v\n%s", commands.Load(), err, output)
	}
	if strings.Contains(output.String(), "found no deadman") {
		t.Errorf("the board's deadman was not found:\n%s", output)
	}
	farthest, fastest := 0.0, 0.0
	for record, err := range onlyLog(t, cmd).Records() {
		fatal.If(t, err)
		if tick := record.Tick; tick != nil {
			farthest = max(farthest, math.Hypot(float64(tick.Obs[0]), float64(tick.Obs[1])))
			fastest = max(fastest, math.Abs(float64(tick.Obs[4])))
		}
	}
	if farthest == 0 || fastest == 0 || fastest > 1.01 {
		t.Errorf("it went %g m, at most at %g of the top speed", farthest, fastest)
	}
	if outputs, armed := base.Outputs(); armed || outputs[0] != 0 {
		t.Errorf("at the end: armed %v, %v", armed, outputs)
	}
}

func TestRun_StopsOnTheBoardsEmergencyStop(t *testing.T) {
	t.Parallel()
	base, set := roverBoard(t, mcutest.Rover())
	cmd, output := startOn(t, "rover-mcu", slices.Concat(set, patient)...)
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool {
		outputs, armed := base.Outputs()
		return armed && outputs[0] != 0
	}) {
		t.Fatalf("it did not move:\n%s", output)
	}
	base.Fault(mcutest.CauseEStop)
	if err := cmd.Wait(); err == nil || !strings.Contains(output.String(), controller.FaultEStop.String()) {
		t.Errorf("%v\n%s", err, output)
	}
	summary, _, err := flightlog.Summarise(onlyLog(t, cmd))
	if err != nil || summary.Faults[controller.FaultEStop] != 1 {
		t.Errorf("the log has the faults %v, %v", summary.Faults, err)
	}
}

func TestRun_DrivesFeetechServosAndLeavesThemWithoutTorque(t *testing.T) {
	t.Parallel()
	arm, err := feetechtest.New(feetechtest.NewServo(1, 0), feetechtest.NewServo(2, 1))
	fatal.If(t, err)
	t.Cleanup(func() { _ = arm.Close() })
	cmd, output := startOn(t, rigtest.GripperFile, "robot.composite.devices[0].feetech.port.path="+arm.Path,
		"run.duration_s=0")
	moving := rigtest.WaitUntil(rigtest.HangGuard, func() bool {
		return arm.Get(1, feetechtest.Torque, 1) == 1 && arm.Get(1, feetechtest.Goal, 2) != 2048 &&
			arm.Get(2, feetechtest.GoalSpeed, 2) != 0
	})
	heard := arm.Heard()
	moving = moving && rigtest.WaitUntil(rigtest.HangGuard, func() bool { return arm.Heard() >= heard+10 })
	_ = cmd.Process.Signal(unix.SIGTERM)
	if err := cmd.Wait(); err != nil || !moving {
		t.Fatalf("%v, moving %v\n%s", err, moving, output)
	}
	sensed := false
	for r, err := range onlyLog(t, cmd).Records() {
		fatal.If(t, err)
		sensed = sensed || r.Tick != nil && r.Tick.Obs[0] != 0
	}
	if !sensed {
		t.Error("the log has no motion of the joint")
	}
	const failsafe = 2048 + 326 // 0.5 rad of 4096 steps a turn
	torque, goal := arm.Get(1, feetechtest.Torque, 1)+arm.Get(2, feetechtest.Torque, 1), arm.Get(1, feetechtest.Goal, 2)
	if torque != 0 || goal != failsafe {
		t.Errorf("at the end the torque is %d and the goal %d, want 0 and %d", torque, goal, failsafe)
	}
}

func TestRun_WarnsOfDevicesWithoutADeadman(t *testing.T) {
	t.Parallel()
	cmd, output := startOn(t, "composite", slices.Concat(rigtest.AutoArmSettings, []string{
		"model.bundle=embedded:rover", "loop.watchdog_ms=2000", "run.duration_s=0.2",
		"robot.composite.devices[0].stale_ms=1000", "safety.external_deadman=",
	})...)
	err := cmd.Wait()
	if err != nil || !strings.Contains(strings.Join(strings.Fields(output.String()), " "), "found no deadman of base:") {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestRun_DeadmenStopAllDevicesAfterAKill(t *testing.T) {
	t.Parallel()
	w := rigtest.NewWagon(t)
	cmd, output := startWagon(t, w, rigtest.LongTimeouts(2*time.Second)...)
	w.WaitMoving(t, cmd, output)
	fatal.If(t, cmd.Process.Kill())
	after := w.WaitStopped(t, 2*rigtest.LongDeadman, "base", "neck", "arm")
	t.Logf("all stopped %v after the kill, their deadman is %v", after, rigtest.LongDeadman)
	_ = cmd.Wait()
}
