package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/hal/feetech/feetechtest"
	"optibfm/hal/mcu"
	"optibfm/internal/control"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
)

// haltProgram is the command `optibfm halt`.
func haltProgram(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append([]string{"halt"}, args...)...)
	cmd.Env = append(os.Environ(), actAsProgram+"=1", rigtest.RigVariable+"={}")
	return cmd
}

// setting turns configuration overrides into flags.
func setting(set []string) (flags []string) {
	for _, s := range set {
		flags = append(flags, "--set", s)
	}
	return flags
}

func TestARobotWithoutADeadmanWhoseControlProcessWasKilledIsHaltedByTheNextOne(t *testing.T) {
	w := rigtest.NewWagon(t)
	w.Set = append(w.Set, "robot.composite.devices[1].mcu.deadman_ms=60000", "robot.composite.devices[2].dynamixel.deadman_ms=0", "robot.composite.devices[3].mit.deadman_ms=0", "safety.socket="+filepath.Join(t.TempDir(), "s"))
	cmd, output := startWagon(t, w)
	w.WaitMoving(t, cmd, output)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	time.Sleep(300 * time.Millisecond)
	for _, device := range []string{"base", "neck", "arm"} {
		if w.Stopped(device) == nil {
			t.Fatalf("%s stopped by itself: this shows nothing", device)
		}
	}
	flags := append([]string{"--config", rigtest.WagonFile, "--if-failed"}, setting(w.Set)...)
	ended := haltProgram(flags...)
	ended.Env = append(ended.Env, serviceResult+"=success")
	if out, err := ended.CombinedOutput(); err != nil || len(out) != 0 || w.Stopped("neck") == nil {
		t.Errorf("after a service that ended well: %v, %s", err, out)
	}
	killed := haltProgram(flags...)
	killed.Env = append(killed.Env, serviceResult+"=signal")
	out, err := killed.CombinedOutput()
	if err != nil || string(out) != "halted: base, neck, arm\n" {
		t.Errorf("%v, %s", err, out)
	}
	for _, device := range []string{"base", "neck", "arm"} {
		if err := w.Stopped(device); err != nil {
			t.Error(err)
		}
	}
	for id := 3; id <= 4; id++ { // they hold their failsafe, as halt_exit is false
		if _, on := w.Arm.Goal(id); !on {
			t.Errorf("motor %d is out of motor mode: it is limp", id)
		}
	}
	out, err = haltProgram(append(flags, "--set", "robot.composite.devices[3].mit.halt_exit=true")...).CombinedOutput()
	if _, on := w.Arm.Goal(3); err != nil || on || !strings.Contains(string(out), "arm: shoulder: it has left motor mode: it is limp") {
		t.Errorf("with halt_exit: in motor mode %v, %v, %s", on, err, out)
	}
}

// haltHere is `optibfm halt` in this process. printed is what it says, warnings first.
func haltHere(t *testing.T, h setup.Hardware, file configs.File) (printed string, err error) {
	t.Helper()
	var out bytes.Buffer
	err = halt(t.Context(), &out, &out, h, file)
	return out.String(), err
}

func TestADeadServoKeepsTheOthersOfItsChainFromNothing(t *testing.T) {
	chain, err := feetechtest.New(feetechtest.NewServo(1, 0), feetechtest.NewServo(2, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = chain.Close() })
	const device = "robot.composite.devices[0].feetech."
	file, err := configs.Load("testdata/gripper.yaml", device+"port.path="+chain.Path, device+"timeout_ms=100", device+"halt_torque_off=false", "safety.socket="+filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	chain.Miss(1, -1)
	chain.Set(2, feetechtest.Torque, 1, 1)
	chain.Set(2, feetechtest.GoalSpeed, 2, 700)
	printed, err := haltHere(t, setup.LocalHardware, file)
	if err == nil || !strings.Contains(err.Error(), `devices[0] (arm): halt: feetech: "joint" (ID 1): ping`) || printed != "" {
		t.Errorf("%v, %q", err, printed)
	}
	if speed := chain.Get(2, feetechtest.GoalSpeed, 2); speed != 0 {
		t.Errorf("the jaw, which hears, goes on with %d", speed)
	}
}

func TestALineThatHangsDelaysNoOtherAndNotTheEnd(t *testing.T) {
	w := rigtest.NewWagon(t)
	w.Base.Mute(true)
	file, err := configs.Load(rigtest.WagonFile, append(w.Set, "robot.composite.devices[1].mcu.start_timeout_ms=10000", "safety.socket="+filepath.Join(t.TempDir(), "s"))...)
	if err != nil {
		t.Fatal(err)
	}
	w.Neck.Set(1, dynamixeltest.TorqueEnable, 1, 1)
	w.Neck.Set(1, dynamixeltest.GoalPosition, 4, 3000)
	// As a SIGTERM does, as soon as the others are halted.
	ctx, cancel := context.WithCancelCause(t.Context())
	terminated := errors.New("terminated")
	go func() {
		rigtest.WaitUntil(20*time.Second, func() bool {
			return w.Neck.Get(1, dynamixeltest.GoalPosition, 4) == rigtest.PanFailsafe && w.Arm.Frames(4) > 0
		})
		time.Sleep(200 * time.Millisecond)
		cancel(terminated)
	}()
	var out bytes.Buffer
	err = halt(ctx, &out, &out, w.Hardware(), file)
	if !errors.Is(err, terminated) || !strings.Contains(err.Error(), "devices[1] (base): it has not ended") || !strings.HasPrefix(out.String(), "halted: neck, arm\n") {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestABoardThatHearsAndNeverAnswersIsHalted(t *testing.T) {
	w := rigtest.NewWagon(t)
	set := append(w.Set, "robot.composite.devices[1].mcu.deadman_ms=60000", "robot.composite.devices[1].mcu.start_timeout_ms=300", "safety.socket="+filepath.Join(t.TempDir(), "s"))
	file, err := configs.Load(rigtest.WagonFile, set...)
	if err != nil {
		t.Fatal(err)
	}
	base, err := mcu.Open(t.Context(), file.Robot.Composite.Devices[1].MCU)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(base.Arm(), base.Write([]float64{5, 5}), base.Close()); err != nil {
		t.Fatal(err)
	}
	w.Base.Mute(true)
	if w.Stopped("base") == nil {
		t.Fatal("it stopped by itself: this shows nothing")
	}
	printed, err := haltHere(t, w.Hardware(), file)
	if err == nil || !strings.Contains(err.Error(), "devices[1] (base): halt: mcu: ") || !strings.Contains(err.Error(), "told blindly") || !strings.HasPrefix(printed, "halted: neck, arm\n") {
		t.Errorf("%v, %q", err, printed)
	}
	if err := w.Stopped("base"); err != nil {
		t.Error(err)
	}
}

func TestDevicesOnOneBusAreHaltedOneAfterTheOtherAndAPanicHurtsNobodyElse(t *testing.T) {
	var order []string
	task := func(name string) haltTask {
		return haltTask{name: name, key: name, do: func(*haltEnd) error {
			if order = append(order, name); name == "b" {
				panic("a driver's")
			}
			return nil
		}}
	}
	ends := haltLines(t.Context(), [][]haltTask{{task("a"), task("b"), task("c")}})
	if strings.Join(order, "") != "abc" || ends[0].err != nil || ends[2].err != nil || ends[1].err == nil || !strings.Contains(ends[1].err.Error(), "b: panic: a driver's") {
		t.Errorf("%v, %+v", order, ends)
	}
	file, err := configs.Load("composite")
	if err != nil {
		t.Fatal(err)
	}
	pwm := file.Robot.Composite.Devices[1]
	other := pwm
	other.PCA9685.Address++
	if setup.BusOf(pwm) != setup.BusOf(other) || setup.BusOf(pwm) == setup.BusOf(configs.Device{Driver: "mit"}) {
		t.Error("two on one bus would be told at the same time")
	}
}

func TestALockThatCannotBeMadeKeepsNoRobotFromBeingHalted(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for set, says := range map[string]string{
		"safety.socket=" + filepath.Join(dir, "missing", "s"): "nothing keeps a control process from taking the robot",
		"safety.socket=" + plain:                              "nothing keeps a control process from taking the robot",
		"safety.socket=":                                      "safety.socket is empty",
		"safety.group=no-such-group-here":                     "",
	} {
		w := rigtest.NewWagon(t)
		file, err := configs.Load(rigtest.WagonFile, append(w.Set, "safety.socket="+filepath.Join(dir, "s"), set)...)
		if err != nil {
			t.Fatal(err)
		}
		w.Neck.Set(1, dynamixeltest.TorqueEnable, 1, 1)
		printed, err := haltHere(t, w.Hardware(), file)
		if err != nil || !strings.Contains(strings.Join(strings.Fields(printed), " "), says) || strings.Contains(printed, "warning") != (says != "") || !strings.Contains(printed, "halted: base, neck, arm\n") {
			t.Errorf("%s: %v, %q", set, err, printed)
		}
	}
}

func TestASecondRunTouchesNoDeviceOfARobotThatIsHeld(t *testing.T) {
	w := rigtest.NewWagon(t)
	path := filepath.Join(t.TempDir(), "s")
	held, err := control.Listen(configs.Safety{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	cmd, output := startWagon(t, w, "safety.socket="+path)
	if err := cmd.Wait(); err == nil || !strings.Contains(strings.Join(strings.Fields(output.String()), " "), "another process answers there") {
		t.Errorf("%v\n%s", err, output)
	}
	if frames, neck := w.Arm.Frames(3)+w.Arm.Frames(4), w.Neck.Heard(); frames != 0 || neck != 0 {
		t.Errorf("it was refused, and sent %d frames to the motors and %d packets to the servos", frames, neck)
	}
}

func TestADeviceThatIsGoneAndASensorKeepNoOtherFromBeingHalted(t *testing.T) {
	w := rigtest.NewWagon(t)
	w.Rig.Imu.Unplugged = true
	w.Unplug("base")
	file, err := configs.Load(rigtest.WagonFile, w.Set...)
	if err != nil {
		t.Fatal(err)
	}
	w.Neck.Set(1, dynamixeltest.GoalPosition, 4, 3000)
	w.Neck.Set(1, dynamixeltest.TorqueEnable, 1, 1)
	printed, err := haltHere(t, w.Hardware(), file)
	limp := "halted: neck, arm\nneck: tilt: it has no torque: it is limp\narm: shoulder: it was not in motor mode (status 0x0): it is limp\narm: elbow: it was not in motor mode (status 0x0): it is limp\n"
	if err == nil || !strings.Contains(err.Error(), "devices[1] (base)") || !strings.HasSuffix(printed, limp) {
		t.Errorf("%v, %q", err, printed)
	}
	if err := w.Stopped("neck"); err != nil {
		t.Error(err)
	}
}

func TestHaltIsRefusedWhileAControlProcessHoldsTheRobot(t *testing.T) {
	r := runAttended(t, "")
	r.arm()
	out, err := haltProgram(append(setting([]string{"safety.socket=" + r.socket, "robot.driver=bridge", "robot.bridge.mode=free", "robot.bridge.address=" + r.robot.address, "loop.period_ms=20"}), "--config", "robot")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a control process holds the robot") || !strings.Contains(string(out), "optibfm stop") {
		t.Errorf("%v, %s", err, out)
	}
	r.goesOn("a halt was refused")
	if err := r.End(); err != nil {
		t.Error(err)
	}
}

func TestARobotBehindTheBridgeIsHalted(t *testing.T) {
	w, set := serveWatched(t)
	halts := func() int { w.mu.Lock(); defer w.mu.Unlock(); return w.Halts }
	before := halts()
	socket := filepath.Join(t.TempDir(), "s")
	out, err := haltProgram(append(setting(append(set, "safety.socket="+socket)), "--config", embeddedConfig)...).CombinedOutput()
	if err != nil || string(out) != "halted: fake\n" || halts() == before {
		t.Errorf("%v, %s, %d halts", err, out, halts()-before)
	}
	if _, err := os.Stat(socket); err == nil {
		t.Error("the socket is left behind")
	}
}

func TestWhatMovesNothingIsNotHalted(t *testing.T) {
	for set, why := range map[string]string{"run.shadow=true": "run.shadow", "run.lockstep=true": "run.lockstep", "run.seed=1": "robot.driver is rover"} {
		out, err := haltProgram("--config", embeddedConfig, "--set", set).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "nothing to halt: "+why) {
			t.Errorf("%s: %v, %s", set, err, out)
		}
	}
}

func TestHaltGuessesNoConfiguration(t *testing.T) {
	for _, args := range [][]string{nil, {"--if-failed"}} {
		out, err := haltProgram(args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--config: it is missing") {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
}
