package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/hal/dynamixel/dynamixeltest"
)

// haltProgram is the command `optibfm halt`.
func haltProgram(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append([]string{"halt"}, args...)...)
	cmd.Env = append(os.Environ(), actAsProgram+"=1", rigOrders+"={}")
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
	w := newWagon(t)
	w.set = append(w.set, "robot.composite.devices[1].mcu.deadman_ms=60000", "robot.composite.devices[2].dynamixel.deadman_ms=0", "robot.composite.devices[3].mit.deadman_ms=0")
	cmd, output := w.start(t)
	w.waitMoving(t, cmd, output)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	time.Sleep(300 * time.Millisecond)
	for _, device := range []string{"base", "neck"} {
		if w.stopped(device) == nil {
			t.Fatalf("%s stopped by itself: this shows nothing", device)
		}
	}
	flags := append([]string{"--config", wagonFile, "--if-failed"}, setting(w.set)...)
	ended := haltProgram(flags...)
	ended.Env = append(ended.Env, serviceResult+"=success")
	if out, err := ended.CombinedOutput(); err != nil || len(out) != 0 || w.stopped("neck") == nil {
		t.Errorf("after a service that ended well: %v, %s", err, out)
	}
	killed := haltProgram(flags...)
	killed.Env = append(killed.Env, serviceResult+"=signal")
	out, err := killed.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "halted: base, neck, arm") {
		t.Errorf("%v, %s", err, out)
	}
	for _, device := range []string{"base", "neck", "arm"} {
		if err := w.stopped(device); err != nil {
			t.Error(err)
		}
	}
}

func TestADeviceThatIsGoneAndASensorKeepNoOtherFromBeingHalted(t *testing.T) {
	w := newWagon(t)
	w.rig.imu.Unplugged = true
	w.unplug("base")
	file, err := configs.Load(wagonFile, w.set...)
	if err != nil {
		t.Fatal(err)
	}
	w.neck.Set(1, dynamixeltest.GoalPosition, 4, 3000)
	var out bytes.Buffer
	err = halt(t.Context(), &out, w.hardware(), file)
	if err == nil || !strings.Contains(err.Error(), "devices[1] (base)") || out.String() != "halted: neck, arm\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	if err := w.stopped("neck"); err != nil {
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
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

func TestARobotBehindTheBridgeIsHalted(t *testing.T) {
	w, set := serveWatched(t)
	halts := func() int { w.mu.Lock(); defer w.mu.Unlock(); return w.Halts }
	before := halts()
	socket := filepath.Join(t.TempDir(), "s")
	out, err := haltProgram(setting(append(set, "safety.socket="+socket))...).CombinedOutput()
	if err != nil || string(out) != "halted: fake\n" || halts() == before {
		t.Errorf("%v, %s, %d halts", err, out, halts()-before)
	}
	if _, err := os.Stat(socket); err == nil {
		t.Error("the socket is left behind")
	}
}

func TestWhatMovesNothingIsNotHalted(t *testing.T) {
	for set, why := range map[string]string{"run.shadow=true": "run.shadow", "run.lockstep=true": "run.lockstep", "run.seed=1": "robot.driver is rover"} {
		out, err := haltProgram("--set", set).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "nothing to halt: "+why) {
			t.Errorf("%s: %v, %s", set, err, out)
		}
	}
}
