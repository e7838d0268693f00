package main

import (
	"context"
	"errors"
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

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/hal/mcu/mcutest"
	"optibfm/hal/mit/mittest"
	"optibfm/rtloop"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

const wagonFile = "testdata/wagon.yaml"

// The wagon's failsafe outputs, as its devices have them.
const (
	panFailsafe      = 2048 + 171 // 15 degrees in steps of a 4096th of a turn
	shoulderFailsafe = 0.25
)

// wagon is the hardware of testdata/wagon.yaml but for its IMU, which is a
// rig's: a board and servos on ptys, motors on a CAN bus that is a socket.
type wagon struct {
	*rig
	base   *mcutest.Board
	neck   *dynamixeltest.Chain
	arm    *mittest.Motors
	closed map[string]bool
	set    []string // what the configuration needs
}

func newWagon(t *testing.T) *wagon {
	t.Helper()
	cfg, err := configs.Load(wagonFile)
	if err != nil {
		t.Fatal(err)
	}
	w := &wagon{rig: newRig(), closed: map[string]bool{}}
	if w.base, err = mcutest.New(mcutest.Rover()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.unplug("base") })
	if w.neck, err = dynamixeltest.New(dynamixeltest.NewServo(1, 1020, 3), dynamixeltest.NewServo(2, 1060, 3)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.unplug("neck") })
	if w.arm, err = mittest.New(cfg.Robot.Composite.Devices[3].MIT); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.unplug("arm") })
	const devices = "robot.composite.devices"
	w.set = []string{
		devices + "[1].mcu.port.path=" + w.base.Path,
		devices + "[2].dynamixel.port.path=" + w.neck.Path,
		devices + "[3].mit.interface=" + w.arm.Address,
	}
	return w
}

// unplug pulls a device's plug.
func (w *wagon) unplug(device string) {
	if w.closed[device] {
		return
	}
	w.closed[device] = true
	_ = map[string]interface{ Close() error }{"base": w.base, "neck": w.neck, "arm": w.arm}[device].Close()
}

// wagonBundle writes an untrained model for it.
func wagonBundle(t *testing.T) string {
	t.Helper()
	m := tflitetest.Manifest(tflite.Dims{Obs: 9, Action: 6, Latent: 8, Ensemble: 2})
	dir := filepath.Join(t.TempDir(), "bundle")
	if err := tflite.Save(dir, m, tflitetest.Tensors(m.Architecture, 1)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// openWagon opens the wagon in this process, and both ends of its segment.
func openWagon(t *testing.T, w *wagon, set ...string) *twoEnds {
	t.Helper()
	own := []string{"operator.source=none", "model.bundle=" + wagonBundle(t), "log.dir=" + t.TempDir()}
	file, err := configs.Load(wagonFile, slices.Concat(w.set, own, set)...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSession(file, false)
	if err != nil {
		t.Fatal(err)
	}
	robot, err := openDevices(t.Context(), w.hardware(), s.file.Robot.Composite, s.file.Loop.Period(), rtloop.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeRobot(robot) })
	return newTwoEndsWith(t, s, robot)
}

// stopped says which devices do what a halt has told them, or stopped by
// themselves.
func (w *wagon) stopped(device string) error {
	switch device {
	case "base":
		if outputs, armed := w.base.Outputs(); armed || outputs[0] != 0 || outputs[1] != 0 {
			return fmt.Errorf("the base is armed (%v) or turns its wheels (%v)", armed, outputs)
		}
	case "neck":
		goal, tripped := w.neck.Get(1, dynamixeltest.GoalPosition, 4), w.neck.Get(1, dynamixeltest.Watchdog, 1) == -1
		if goal != panFailsafe && !tripped {
			return fmt.Errorf("the neck's goal is %d, not %d, and its watchdog has not tripped", goal, panFailsafe)
		}
	case "arm":
		goal, on := w.arm.Goal(3)
		if on && math.Abs(goal.Position-shoulderFailsafe) > 0.001 {
			return fmt.Errorf("the shoulder is on and goes to %v", goal.Position)
		}
		if goal, on = w.arm.Goal(4); on && math.Abs(goal.Velocity) > 0.02 {
			return fmt.Errorf("the elbow is on and turns with %v", goal.Velocity)
		}
	}
	return nil
}

// waitStopped waits until devices are stopped, at most for a time.
func (w *wagon) waitStopped(t *testing.T, limit time.Duration, devices ...string) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		var errs []error
		for _, d := range devices {
			errs = append(errs, w.stopped(d))
		}
		err := errors.Join(errs...)
		if err == nil {
			return time.Since(begun)
		}
		if time.Since(begun) > limit {
			t.Fatalf("after %v: %v", limit, err)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWhatAConfigurationSaysOfADeviceIsWhatTheDeviceHas(t *testing.T) {
	w := newWagon(t)
	e := openWagon(t, w)
	cfg, err := configs.Load(wagonFile)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := cfg.Robot.Composite.Spec(cfg.Loop.Period())
	if err != nil {
		t.Fatal(err)
	}
	got := e.robot.Spec()
	if fmt.Sprint(got) != fmt.Sprint(spec) {
		t.Errorf("opened\n%v\nwithout devices\n%v", got, spec)
	}
}

func TestARobotOfAllKindsOfDevicesHasADeadmanOnceItIsArmed(t *testing.T) {
	w := newWagon(t)
	e := openWagon(t, w)
	robot := e.robot.(*composed)
	if got := robot.Deadman(); got != 0 {
		t.Errorf("before it is armed: %v", got)
	}
	for range 5 {
		if err := e.tick(); err != nil {
			t.Fatal(err)
		}
	}
	if got := robot.Deadman(); !e.agent.Armed() || got != 400*time.Millisecond || robot.Unguarded() != nil {
		t.Errorf("armed %v: %v, unguarded %v", e.agent.Armed(), got, robot.Unguarded())
	}
	if got := w.neck.Get(2, dynamixeltest.Watchdog, 1); got != 20 {
		t.Errorf("the servo's own watchdog is %d of 20 ms", got)
	}
}

func TestATickOfAllKindsOfDevicesAllocatesNothing(t *testing.T) {
	w := newWagon(t)
	e := openWagon(t, w)
	for _, a := range allocationsOf(func() {
		for range 50 {
			if err := e.tick(); err != nil {
				t.Fatal(err)
			}
		}
	}) {
		t.Errorf("allocated in 50 ticks: %s", a)
	}
}

// patientDeadman is the deadman of a wagon whose control process may have to wait
// for a processor.
const patientDeadman = 2500 * time.Millisecond

// patience is for fakes that a busy machine keeps waiting: unlike devices they
// need its processors. A sample may be so old, an answer take a quarter of it: one
// that is asked for again must not make the other devices' samples stale.
func patience(age time.Duration) []string {
	ms := func(key string, d time.Duration) string {
		return fmt.Sprintf("robot.composite.devices%s=%d", key, d.Milliseconds())
	}
	set := []string{"loop.watchdog_ms=20000", ms("[0].stale_ms", age), ms("[1].mcu.stale_ms", age)}
	for i, driver := range []string{"mcu", "dynamixel", "mit"} {
		device := fmt.Sprintf("[%d].", i+1)
		set = append(set, ms(device+"stale_ms", age), ms(device+driver+".timeout_ms", age/4), ms(device+driver+".deadman_ms", patientDeadman))
	}
	return set
}

// A fault halts the robot within the stated ticks. Of the other devices every
// one gets its failsafe output, and the one that is broken stops by itself where
// it still can.
func TestEveryFaultOnALineOrABusHaltsAllDevices(t *testing.T) {
	// max_bad_ticks and one more; a CAN motor answers to the last tick's command.
	const sensed = 2 + 1
	const age = 600 * time.Millisecond
	const stale = int(age/(20*time.Millisecond)) + 1
	sense, act := controller.FaultSense, controller.FaultAct
	for name, c := range map[string]struct {
		fail   func(*wagon)
		faults []controller.Fault
		ticks  int
		kind   error
		broken string // cannot be told any more: it has to stop by itself
	}{
		"imu unplugged":                  {func(w *wagon) { w.imu.Unplugged = true }, []controller.Fault{sense}, sensed, hal.ErrBus, ""},
		"I²C held":                       {func(w *wagon) { w.bus.Hold(10 * time.Millisecond) }, []controller.Fault{sense}, sensed, hal.ErrTimeout, ""},
		"board unplugged":                {func(w *wagon) { w.unplug("base") }, []controller.Fault{sense, act}, sensed, hal.ErrBus, "unplugged"},
		"board silent":                   {func(w *wagon) { w.base.Mute(true) }, []controller.Fault{sense}, stale + sensed, hal.ErrStale, ""},
		"board's bits flip":              {func(w *wagon) { w.base.Garble(1 << 30) }, []controller.Fault{sense}, stale + sensed, hal.ErrStale, ""},
		"board reset":                    {func(w *wagon) { w.base.Restart() }, []controller.Fault{act, sense}, sensed, hal.ErrDevice, ""},
		"board's emergency stop pressed": {func(w *wagon) { w.base.Fault(mcutest.CauseEStop) }, []controller.Fault{act}, 2, hal.ErrDevice, ""},
		"servo chain unplugged":          {func(w *wagon) { w.unplug("neck") }, []controller.Fault{sense, act}, sensed, hal.ErrBus, "unplugged"},
		"servo silent":                   {func(w *wagon) { w.neck.Mute(1, -1) }, []controller.Fault{sense}, sensed, hal.ErrTimeout, ""},
		"servo dead":                     {func(w *wagon) { w.neck.Miss(1, -1) }, []controller.Fault{sense}, sensed, hal.ErrTimeout, "neck"},
		"servo's bits flip":              {func(w *wagon) { w.neck.Garble(1, 1<<30) }, []controller.Fault{sense}, sensed, hal.ErrChecksum, ""},
		"servo overloaded":               {func(w *wagon) { w.neck.Set(1, dynamixeltest.HardwareError, 1, 0x20) }, []controller.Fault{sense}, sensed, hal.ErrDevice, ""},
		"CAN bus-off":                    {func(w *wagon) { w.arm.Bus.Report(unix.CAN_ERR_BUSOFF, 0) }, []controller.Fault{sense, act}, sensed, hal.ErrBus, "arm"},
		"CAN interface down":             {func(w *wagon) { w.unplug("arm") }, []controller.Fault{sense, act}, sensed, hal.ErrBus, "unplugged"},
		"motor silent":                   {func(w *wagon) { w.arm.Mute(3, -1) }, []controller.Fault{sense}, 1 + sensed, hal.ErrTimeout, ""},
		"motor's answers short":          {func(w *wagon) { w.arm.Short(4, 1<<30) }, []controller.Fault{sense}, 1 + sensed, hal.ErrShort, ""},
		"motor overheated":               {func(w *wagon) { w.arm.Fail(3, 0xB) }, []controller.Fault{sense}, 1 + sensed, hal.ErrDevice, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWagon(t)
			e := openWagon(t, w, patience(age)...)
			for range 10 {
				if err := pacedTick(w, e); err != nil {
					t.Fatal(err)
				}
			}
			c.fail(w)
			var err error
			ticks := 0
			for ; err == nil && ticks < 50; ticks++ {
				err = pacedTick(w, e)
			}
			var fault *controller.FaultError
			if !errors.As(err, &fault) || !slices.Contains(c.faults, fault.Fault) || !errors.Is(err, c.kind) || ticks > c.ticks {
				t.Errorf("after %d ticks (want at most %d): %v", ticks, c.ticks, err)
			}
			for _, device := range []string{"base", "neck", "arm"} {
				if w.closed[device] {
					continue
				}
				limit := time.Duration(0)
				if device == c.broken {
					limit = 2 * patientDeadman
				}
				if after := w.waitStopped(t, limit, device); device == c.broken {
					t.Logf("%s stopped by itself, %v after the halt", device, after)
				}
			}
		})
	}
}

// pacedTick is a tick at the robot's rate: ages are in real time.
func pacedTick(w *wagon, e *twoEnds) error {
	time.Sleep(e.robot.Spec().Period)
	return e.tick()
}

func TestASingleDamagedAnswerIsMendedAndTheRobotGoesOn(t *testing.T) {
	t.Parallel()
	w := newWagon(t)
	e := openWagon(t, w, patience(time.Second)...)
	for i := range 40 {
		switch i % 10 {
		case 2:
			w.neck.Garble(1, 1)
		case 4:
			w.neck.Mute(2, 1)
		case 6:
			w.base.Garble(1)
		case 8:
			w.arm.Mute(3, 1)
		}
		if err := pacedTick(w, e); err != nil {
			t.Fatal(err)
		}
	}
	mended := uint64(0)
	for _, d := range e.robot.(*composed).Faults(nil) {
		mended += d.Faults.Mended
	}
	if mended < 8 || !e.agent.Armed() {
		t.Errorf("%d mended, armed %v", mended, e.agent.Armed())
	}
}

// start starts `optibfm run` on the wagon.
func startWagon(t *testing.T, w *wagon, set ...string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	cmd := program(t, append(append(w.set, "model.bundle="+wagonBundle(t), "operator.source=none", "loop.watchdog_ms=2000"), set...)...)
	cmd.Args = append(cmd.Args, "--config", wagonFile)
	cmd.Env = append(cmd.Env, rigOrders+"={}")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &output
}

// waitMoving waits until the program has armed the wagon and moves it.
func (w *wagon) waitMoving(t *testing.T, cmd *exec.Cmd, output *strings.Builder) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		outputs, armed := w.base.Outputs()
		if armed && outputs[0] != 0 && w.neck.Get(1, dynamixeltest.TorqueEnable, 1) == 1 {
			return
		}
		if time.Since(begun) > 20*time.Second {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("it never moved:\n%s", output)
		}
	}
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

func TestTheProgramRunsARobotOfAllKindsOfDevicesAt50And200Hz(t *testing.T) {
	t.Parallel()
	seconds := rigSeconds(t)
	for _, hz := range []float64{50, 200} {
		t.Run(fmt.Sprintf("%g Hz", hz), func(t *testing.T) {
			w := newWagon(t)
			cmd, output := startWagon(t, w, append(patience(2*time.Second), fmt.Sprintf("loop.period_ms=%g", 1000/hz), fmt.Sprintf("run.duration_s=%g", seconds))...)
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
			// The end may come while a tick is late.
			if whole, found := seconds*hz, float64(ticks+skipped); found > whole+2 || found < whole-2-float64(longest) {
				t.Errorf("%d ticks and %d skipped, want %g together", ticks, skipped, whole)
			}
			if moved == 0 {
				t.Error("the wheels never turned")
			}
			w.waitStopped(t, 0, "base", "neck", "arm")
			slices.Sort(took)
			t.Logf("%d ticks, %d skipped; a tick took %v in the median, %v in 99 of 100", ticks, skipped, took[len(took)/2], took[len(took)*99/100])
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
	cmd := program(t, append(slices.Concat(withoutWalls, unattended, unhurried), "model.bundle=embedded:rover", "operator.source=none",
		"safety.external_deadman=", "robot.composite.devices[0].mcu.port.path="+base.Path)...)
	cmd.Args = append(cmd.Args, "--config", "rover-mcu")
	cmd.Env = append(cmd.Env, rigOrders+"={}")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	moved := until(2*time.Minute, func() bool { return commands.Load() >= 20 })
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
	cmd := program(t, append(slices.Concat(withoutWalls, unattended), "model.bundle=embedded:rover", "operator.source=none", "loop.watchdog_ms=2000",
		"safety.external_deadman=", "robot.composite.devices[0].mcu.port.path="+base.Path)...)
	cmd.Args = append(cmd.Args, "--config", "rover-mcu")
	cmd.Env = append(cmd.Env, rigOrders+"={}")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if !until(30*time.Second, func() bool { outputs, armed := base.Outputs(); return armed && outputs[0] != 0 }) {
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
	w := newWagon(t)
	cmd, output := startWagon(t, w, patience(2*time.Second)...)
	w.waitMoving(t, cmd, output)
	w.unplug("base")
	after := w.waitStopped(t, 2*patientDeadman, "neck", "arm")
	if err := cmd.Wait(); err == nil || !strings.Contains(output.String(), "composite: base:") {
		t.Errorf("%v\n%s", err, output)
	}
	t.Logf("the others were halted %v after it", after)
}

func TestEveryDeviceStopsByItselfWhenTheControlProcessIsKilled(t *testing.T) {
	t.Parallel()
	w := newWagon(t)
	cmd, output := startWagon(t, w, patience(2*time.Second)...)
	w.waitMoving(t, cmd, output)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Logf("all stopped %v after the kill, their deadman is %v", w.waitStopped(t, 2*patientDeadman, "base", "neck", "arm"), patientDeadman)
	_ = cmd.Wait()
}

func TestOpenDevices_HaltsThoseThatAreOpenWhenAnotherFails(t *testing.T) {
	for name, fail := range map[string]func(*wagon, context.CancelFunc){
		"a motor is missing": func(w *wagon, _ context.CancelFunc) { w.arm.Mute(4, -1) },
		"a signal comes":     func(w *wagon, cancel context.CancelFunc) { w.arm.Mute(3, -1); go onFrame(w, 3, cancel) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWagon(t)
			file, err := configs.Load(wagonFile, w.set...)
			if err != nil {
				t.Fatal(err)
			}
			w.neck.Set(1, dynamixeltest.TorqueEnable, 1, 1) // as a program that died has left it
			w.neck.Set(1, dynamixeltest.GoalPosition, 4, 3000)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			fail(w, cancel)
			_, err = openDevices(ctx, w.hardware(), file.Robot.Composite, file.Loop.Period(), rtloop.Now)
			if err == nil || !strings.Contains(err.Error(), "devices[3] (arm)") ||
				errors.Is(err, context.Canceled) != (ctx.Err() != nil) {
				t.Errorf("error %v", err)
			}
			for _, device := range []string{"base", "neck"} {
				if err := w.stopped(device); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// onFrame does something when a motor of the arm has been sent a frame.
func onFrame(w *wagon, motor int, do func()) {
	until(20*time.Second, func() bool { return w.arm.Frames(motor) > 0 })
	do()
}
