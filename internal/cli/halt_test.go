package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/internal/control"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

// haltProgram returns the command `optibfm halt`.
func haltProgram(set []string, args ...string) *exec.Cmd {
	args = append([]string{"halt"}, args...)
	for _, s := range set {
		args = append(args, "--set", s)
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), actAsProgram+"=1", rigtest.RigVariable+"=1")
	return cmd
}

func TestHalt_StopsDevicesWithoutADeadmanAfterAKill(t *testing.T) {
	t.Parallel()
	const devices = "robot.composite.devices"
	w := rigtest.NewWagon(t)
	w.Set = append(w.Set, rigtest.LongTimeouts(2*time.Second)...)
	w.Set = append(w.Set, devices+"[1].mcu.deadman_ms=60000", devices+"[2].dynamixel.deadman_ms=0",
		devices+"[3].mit.deadman_ms=0", "safety.socket="+filepath.Join(t.TempDir(), "s"))
	cmd, output := startWagon(t, w, "loop.watchdog_ms=20000")
	w.WaitMoving(t, cmd, output)
	fatal.If(t, cmd.Process.Kill())
	_ = cmd.Wait()
	time.Sleep(300 * time.Millisecond)
	names := []string{"base", "neck", "arm"}
	for _, device := range names {
		if w.Stopped(device) == nil {
			t.Fatalf("%s stopped before the halt", device)
		}
	}
	flags := []string{"--config", rigtest.WagonFile, "--if-failed"}
	success := haltProgram(w.Set, flags...)
	success.Env = append(success.Env, serviceResult+"=success")
	if out, err := success.CombinedOutput(); err != nil || len(out) != 0 || w.Stopped("neck") == nil {
		t.Errorf("after a service that ended well: %v, %s", err, out)
	}
	failure := haltProgram(w.Set, flags...)
	failure.Env = append(failure.Env, serviceResult+"=signal")
	if out, err := failure.CombinedOutput(); err != nil || string(out) != "halted: base, neck, arm\n" {
		t.Errorf("%v, %s", err, out)
	}
	for _, device := range names {
		errtest.Nil(t, w.Stopped(device))
	}
	for id := 3; id <= 4; id++ { // halt_exit is false: they hold their failsafe goal
		if _, on := w.Arm.Goal(id); !on {
			t.Errorf("motor %d is out of motor mode: it is limp", id)
		}
	}
	out, err := haltProgram(append(w.Set, devices+"[3].mit.halt_exit=true"), flags...).CombinedOutput()
	if _, on := w.Arm.Goal(3); err != nil || on || !strings.Contains(string(out), "\narm: shoulder: ") {
		t.Errorf("with halt_exit: in motor mode %v, %v, %s", on, err, out)
	}
}

func TestRun_OpensNoDeviceOfARobotThatIsHeld(t *testing.T) {
	t.Parallel()
	w := rigtest.NewWagon(t)
	path := filepath.Join(t.TempDir(), "s")
	held, err := control.Listen(configs.Safety{Socket: path})
	fatal.If(t, err)
	defer func() { _ = held.Close() }()
	cmd, output := startWagon(t, w, append(rigtest.LongTimeouts(2*time.Second), "safety.socket="+path)...)
	if err := cmd.Wait(); err == nil || !strings.Contains(output.String(), "safety.socket") {
		t.Errorf("%v\n%s", err, output)
	}
	if frames, neck := w.Arm.Frames(3)+w.Arm.Frames(4), w.Neck.Heard(); frames != 0 || neck != 0 {
		t.Errorf("the refused run sent %d frames to the motors and %d packets to the servos", frames, neck)
	}
}

func TestHalt_RefusesWhileAControlProcessHoldsTheRobot(t *testing.T) {
	t.Parallel()
	r := runAttended(t, "")
	r.arm()
	out, err := haltProgram([]string{
		"safety.socket=" + r.socket, "robot.driver=bridge", "robot.bridge.mode=free",
		"robot.bridge.address=" + r.robot.address, "loop.period_ms=20",
	}, "--config", "robot").CombinedOutput()
	for _, want := range []string{"another process holds the robot", " stop --socket "} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, no %q in %s", err, want, out)
		}
	}
	r.goesOn("a halt was refused")
	fatal.If(t, r.End())
}

func TestHalt_HaltsARobotBehindTheBridge(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	halts := func() int { w.mu.Lock(); defer w.mu.Unlock(); return w.Halts }
	before := halts()
	socket := filepath.Join(t.TempDir(), "s")
	out, err := haltProgram(append(set, "safety.socket="+socket), "--config", configs.DefaultName()).CombinedOutput()
	if err != nil || string(out) != "halted: fake\n" || halts() == before {
		t.Errorf("%v, %s, %d halts", err, out, halts()-before)
	}
	errtest.NotNil(t, errtest.Of(os.Stat(socket)), "the socket is left")
}

func TestHalt_RequiresAConfiguration(t *testing.T) {
	for _, args := range [][]string{{"halt"}, {"halt", "--if-failed"}} {
		errtest.Contains(t, errtest.Of(execute(args...)), "--config is missing", args)
	}
}
