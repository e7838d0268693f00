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

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/rtloop"
)

// unattended makes a robot of devices one that arms by itself and ends with a
// stop, though nothing stops it when the program dies.
var unattended = []string{
	"loop.posture=warn", "safety.arm=automatic", "safety.after_stop=end", "safety.socket=", "safety.external_deadman=the test's",
}

// openOnRig opens the ready-made robot of devices on a rig, and both ends of its
// segment.
func openOnRig(t *testing.T) (*rig, *twoEnds) {
	t.Helper()
	file, err := configs.Load("composite", append([]string{"operator.source=none"}, unattended...)...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSession(file, false)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig()
	robot, err := openDevices(t.Context(), r.hardware(), s.file.Robot.Composite, s.file.Loop.Period(), rtloop.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeRobot(robot) })
	return r, newTwoEndsWith(t, s, robot)
}

func TestARobotMadeOfDevicesIsControlledAndNothingIsAllocated(t *testing.T) {
	r, e := openOnRig(t)
	for range 50 {
		if err := e.tick(); err != nil {
			t.Fatal(err)
		}
	}
	if !e.agent.Armed() || r.seen.OE || r.pwm.Ticks(0) == 0 {
		t.Fatalf("armed %v, OE %v, %d ticks", e.agent.Armed(), r.seen.OE, r.pwm.Ticks(0))
	}
	for _, a := range allocationsOf(func() {
		for range 200 {
			if err := e.tick(); err != nil {
				t.Fatal(err)
			}
		}
	}) {
		t.Errorf("allocated in 200 ticks: %s", a)
	}
	if err := e.robot.Halt(); err != nil || !r.seen.OE || r.pwm.Ticks(0) != 0 {
		t.Errorf("halted: OE %v, %d ticks, %v", r.seen.OE, r.pwm.Ticks(0), err)
	}
}

// A fault of a device is to halt the robot within max_bad_ticks and one more
// tick (sensing) or at once (acting), whatever broke.
func TestEveryFaultOfADeviceDisablesTheMotors(t *testing.T) {
	const maxBadTicks = 2
	for name, c := range map[string]struct {
		fault controller.Fault
		ticks int
		kind  error
	}{
		"bus held":           {controller.FaultAct, 1, hal.ErrTimeout}, // the last action cannot be repeated
		"bus noisy":          {controller.FaultAct, 1, hal.ErrBus},
		"imu unplugged":      {controller.FaultSense, maxBadTicks + 1, hal.ErrBus},
		"imu frozen":         {controller.FaultSense, 40 + maxBadTicks + 1, hal.ErrDevice},
		"imu lost its power": {controller.FaultSense, maxBadTicks + 1, hal.ErrDevice},
		"imu's bits flip":    {controller.FaultSense, maxBadTicks + 1, hal.ErrProtocol},
		"pwm unplugged":      {controller.FaultAct, 1, hal.ErrBus},
		"pwm lost its power": {controller.FaultAct, 1, hal.ErrDevice},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, e := openOnRig(t)
			for range 20 {
				if err := e.tick(); err != nil {
					t.Fatal(err)
				}
			}
			r.Fault = name
			r.fail()
			var err error
			ticks := 0
			for ; err == nil && ticks < 100; ticks++ {
				err = e.tick()
			}
			wantFault(t, err, c.fault)
			if !errors.Is(err, c.kind) || ticks > c.ticks {
				t.Errorf("after %d ticks, want at most %d: %v", ticks, c.ticks, err)
			}
			if !r.seen.OE {
				t.Error("OE is low: the motors are enabled")
			}
			total := uint64(0)
			for _, d := range e.robot.(*composed).Faults(nil) {
				total += d.Faults.Timeout + d.Faults.Bus + d.Faults.Device + d.Faults.Protocol
			}
			if total == 0 {
				t.Error("nothing was counted")
			}
		})
	}
}

func TestTheWatchdogsPathDisablesTheMotorsOfARobotMadeOfDevices(t *testing.T) {
	r, e := openOnRig(t)
	for range 20 {
		if err := e.tick(); err != nil {
			t.Fatal(err)
		}
	}
	e.robot.(hal.Backstop).HaltBeside()
	if !r.seen.OE {
		t.Error("OE is low")
	}
	var fault *controller.FaultError
	if err := e.tick(); !errors.As(err, &fault) || !errors.Is(err, hal.ErrHalted) {
		t.Errorf("the next tick: %v", err)
	}
}

func TestARobotThatDoesNotFitItsModelIsRefusedBeforeAnythingIsOpened(t *testing.T) {
	real := attached
	defer func() { attached = real }()
	attached.i2c = func(string, time.Duration) (i2c.BusCloser, error) {
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

func TestADeviceThatCannotBeOpenedIsNamedAndNothingStaysOpen(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(*rig)
		says    string
	}{
		"no IMU":           {func(r *rig) { r.imu.Unplugged = true }, "robot.composite.devices[0] (imu): bno055 at 0x28"},
		"no PWM":           {func(r *rig) { r.pwm.Unplugged = true }, "robot.composite.devices[1] (base): pca9685 at 0x40"},
		"a bus held down":  {func(r *rig) { r.bus.Hold(time.Microsecond) }, "did not answer in time"},
		"another chip":     {func(r *rig) { r.imu.Flip[0] = 1 }, "it says 0xa1"},
		"a PWM that fails": {func(r *rig) { r.pwm.Flip[0xFE] = 1 }, "register 0xfe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig()
			c.breakIt(r)
			cfg, err := configs.Load("composite")
			if err != nil {
				t.Fatal(err)
			}
			_, err = openDevices(t.Context(), r.hardware(), cfg.Robot.Composite, cfg.Loop.Period(), rtloop.Now)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %q: %v", c.says, err)
			}
			if !r.bus.Closed() {
				t.Error("the bus is still open")
			}
		})
	}
}

// runOnRig runs the program on a rig, and returns what the rig and the log saw.
func runOnRig(t *testing.T, orders map[string]any, set ...string) (rigReport, *exec.Cmd, string, error) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	orders["Report"] = report
	text, err := json.Marshal(orders)
	if err != nil {
		t.Fatal(err)
	}
	cmd := program(t, slices.Concat([]string{"model.bundle=embedded:rover", "operator.source=none", "loop.watchdog_ms=2000"}, unattended, set)...)
	cmd.Args = append(cmd.Args, "--config", "composite")
	cmd.Env = append(cmd.Env, rigOrders+"="+string(text))
	output, runErr := cmd.CombinedOutput()
	var seen rigReport
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
