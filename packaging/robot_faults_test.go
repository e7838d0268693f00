package packaging_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/flightlog"
	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/internal/fatal"
	"optibfm/internal/ipc"
)

const (
	configFile = "/etc/optibfm/robot.yaml"
	logFolder  = "/var/log/optibfm"
	between    = 15 * time.Second // the time of normal driving between two faults
)

// fault is a fault of the robot and the reaction that docs/hazards.md promises.
type fault struct {
	name    string
	inject  func(w *world)
	repair  func(w *world)
	lasts   time.Duration // of a fault that the robot tolerates
	cause   string        // of the stop; empty: the robot continues
	mayStop bool          // the robot may also stop: QEMU delays the control thread by different times
}

// Not a held I2C bus: the kernel's driver of this adapter ignores the timeout of the bus, and a
// transfer takes a second.
var faults = []fault{
	{name: "IMU cable pulled", cause: "sens", inject: cable(true), repair: cable(false)},
	{name: "I2C adapter unplugged", cause: "sens", inject: (*world).unplugIMU, repair: (*world).plugIMU},
	{name: "IMU frozen", cause: "frozen", inject: frozen(true), repair: frozen(false)},
	{name: "robot turns too fast", cause: "limit", inject: turnedByHand(true), repair: turnedByHand(false)},
	{
		name: "motor does not answer", cause: "base",
		inject: func(w *world) { w.motors.Mute(2, -1) }, repair: func(w *world) { w.motors.Mute(2, 0) },
	},
	{
		name: "motor too hot", cause: "base",
		inject: func(w *world) { w.motors.Fail(1, 0xB) }, repair: func(w *world) { w.motors.Fail(1, 0) },
	},
	{
		name: "CAN bus-off", cause: "base",
		inject: (*world).busOff, repair: shellStep("ip link set vcan1 down; ip link set vcan1 up"),
	},
	{
		name: "CAN link down", cause: "base",
		inject: shellStep("ip link set vcan1 down"), repair: shellStep("ip link set vcan1 up"),
	},
	{
		name: "gamepad unplugged, back at another node", lasts: 10 * time.Second,
		inject: (*world).unplugPad,
		repair: func(w *world) { w.plugPad(); time.Sleep(2 * time.Second) }, // the source looks once a second
	},
	{
		name: "clock set 6 h ahead", lasts: 10 * time.Second,
		inject: shellStep("date -s '+6 hours'"), repair: shellStep("date -s '-6 hours'"),
	},
	{
		name: "disk full", lasts: 15 * time.Second,
		inject: shellStep("fallocate -l $(df -B1 --output=avail " + logFolder + " | tail -n 1) " + logFolder + "/fill"),
		repair: shellStep("rm " + logFolder + "/fill"),
	},
	{
		name: "memory exhausted by another process", lasts: 5 * time.Second, mayStop: true,
		inject: shellStep("! tail /dev/zero"),
	},
	{
		name: "host stopped for 0.5 s", lasts: 5 * time.Second,
		inject: shellStep("pkill -STOP -P $MAINPID; sleep 0.5; pkill -CONT -P $MAINPID"),
	},
	{
		name: "host stopped", cause: "host",
		inject: shellStep("pkill -STOP -P $MAINPID"), repair: shellStep("pkill -CONT -P $MAINPID"),
	},
	{
		name: "control process stopped for 0.8 s", lasts: 2 * time.Second, mayStop: true,
		inject: shellStep("kill -STOP $MAINPID; sleep 0.8; kill -CONT $MAINPID"),
	},
	{name: "operator's stop", cause: "operator", inject: shellStep("optibfm stop -c " + configFile)},
}

var ending = []fault{
	{name: "host killed", inject: shellStep("pkill -KILL -P $MAINPID")},
	{name: "control process killed", inject: shellStep("kill -KILL $MAINPID")},
	{name: "host killed by the kernel, out of memory", inject: outOfMemory("$(pgrep -P $MAINPID)")},
	{name: "control process killed by the kernel, out of memory", inject: outOfMemory("$MAINPID")},
	{name: "control process stopped", inject: shellStep("kill -STOP $MAINPID")},
}

// TestRobot_ReactsToFaults installs nothing: the package is installed, and this test runs as root.
func TestRobot_ReactsToFaults(t *testing.T) {
	if os.Getenv("OPTIBFM_VM") != "robot" {
		t.Skip("not in the machine of scripts/vm/robot.sh")
	}
	w := newWorld(t)
	start(t, w, "evdev")
	began := time.Now()
	w.recover() // from late ticks of the start
	for _, f := range faults {
		w.drive()
		w.meet(f, false)
	}
	for time.Since(began) < 10*time.Minute {
		w.drive()
	}
	w.set(func() { w.onLines = true })
	start(t, w, "gpio")
	for _, f := range ending {
		w.recover()
		w.drive()
		w.meet(f, true)
	}
	w.shell("systemctl stop optibfm")
	w.checkLogs()
}

// start starts the service with another configuration.
func start(t *testing.T, w *world, source string) {
	t.Helper()
	fatal.If(t, os.WriteFile(configFile, []byte(w.config(source)), 0o644))
	w.shell("systemctl restart optibfm")
}

func cable(pulled bool) func(*world) {
	return func(w *world) {
		w.set(func() { w.bus.With(imuAddress, func(c *i2cbustest.Chip) { c.Unplugged = pulled }) })
	}
}

func frozen(yes bool) func(*world) { return func(w *world) { w.set(func() { w.frozen = yes }) } }

func turnedByHand(yes bool) func(*world) { return func(w *world) { w.set(func() { w.turned = yes }) } }

func outOfMemory(pid string) func(*world) {
	return shellStep("echo 1000 >/proc/" + pid + "/oom_score_adj; echo f >/proc/sysrq-trigger")
}

func shellStep(script string) func(*world) { return func(w *world) { w.shell(script) } }

// shell runs a script with MAINPID of the service.
func (w *world) shell(script string) {
	pid, _ := exec.Command("systemctl", "show", "-p", "MainPID", "--value", "optibfm").Output()
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "MAINPID="+strings.TrimSpace(string(pid)))
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Errorf("%s: %v: %s", script, err, out)
	}
}

// optibfm runs a command with the robot's configuration.
func (w *world) optibfm(command string) error {
	out, err := exec.Command("optibfm", command, "-c", configFile).CombinedOutput()
	if err != nil {
		return fmt.Errorf("optibfm %s: %w: %s", command, err, out)
	}
	return nil
}

func (w *world) status() (s ipc.Status) {
	w.t.Helper()
	w.await("status", func() error {
		out, err := exec.Command("optibfm", "status", "--json", "-c", configFile).Output()
		return errors.Join(err, json.Unmarshal(out, &s))
	})
	return s
}

// await waits until a check succeeds.
func (w *world) await(what string, check func() error) {
	w.t.Helper()
	err := check()
	for end := time.Now().Add(time.Minute); err != nil; err = check() {
		if time.Now().After(end) {
			w.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// drive drives and teaches for a while without a fault.
func (w *world) drive() {
	w.t.Helper()
	time.Sleep(time.Second) // a press about a stop does not count
	w.set(func() { w.teaches = true })
	time.Sleep(between)
	w.set(func() { w.teaches = false })
	time.Sleep(time.Second) // the last label is on its way
	if s := w.status(); s.State != "armed" {
		w.t.Errorf("not armed after a while: %+v", s)
		w.recover()
	}
}

// recover resets and arms the robot. A machine that misses deadlines may stop it in between.
func (w *world) recover() {
	w.t.Helper()
	w.await("reset and arm", func() error {
		if s := w.status(); s.State == "stopped" {
			if err := w.optibfm("reset"); err != nil {
				return err
			}
		}
		return w.optibfm("arm")
	})
}

// meet injects a fault and checks the reaction. A fatal fault ends the run, and systemd starts
// another.
func (w *world) meet(f fault, ends bool) {
	w.t.Helper()
	before := w.status()
	since := time.Now()
	f.inject(w)
	var result string
	switch {
	case ends:
		result = w.restarts(since)
	case f.cause != "":
		result = w.stops(f, since)
	default:
		time.Sleep(f.lasts)
		switch s := w.status(); {
		case s.State == "armed":
			result = "drives"
		case f.mayStop:
			result = fmt.Sprintf("%s: %s", s.State, s.Cause)
		default:
			w.t.Errorf("%s: %+v", f.name, s)
		}
	}
	if f.repair != nil {
		f.repair(w)
	}
	s := w.status()
	if s.State != "armed" && !ends {
		w.recover()
		s = w.status()
	}
	w.t.Logf("%-50s %s; now %s; skipped %d", f.name, result, s.State, int64(s.Skipped-before.Skipped))
}

// stops checks that the robot stops, and that reset is refused during the fault.
func (w *world) stops(f fault, since time.Time) string {
	after, err := w.stoppedAfter(since)
	if err != nil {
		w.t.Fatalf("%s: %v", f.name, err)
	}
	s := w.status()
	if s.State != "stopped" || !strings.Contains(s.Cause+" "+s.Found, f.cause) {
		w.t.Errorf("%s: %+v", f.name, s)
	}
	if f.repair != nil && w.optibfm("reset") == nil {
		w.t.Errorf("%s: reset during the fault", f.name)
	}
	return fmt.Sprintf("still after %v: %s (%s)", after.Round(time.Millisecond), s.Cause, s.Found)
}

// restarts checks that the motors stop and that systemd starts the program again, disarmed.
func (w *world) restarts(since time.Time) string {
	after, err := w.stoppedAfter(since)
	fatal.If(w.t, err)
	w.await("a new run", func() error {
		if s := w.status(); s.State != "disarmed" {
			return fmt.Errorf("it is %s", s.State)
		}
		return nil
	})
	again := time.Since(since)
	w.shell("systemctl reset-failed optibfm")
	return fmt.Sprintf("still after %v, started again after %v", after.Round(time.Millisecond), again.Round(time.Second))
}

// checkLogs verifies the logs and compares their labels with the presses.
func (w *world) checkLogs() {
	logs, _ := filepath.Glob(logFolder + "/*-rover.mcap")
	pictures, _ := filepath.Glob(logFolder + "/*.view-*.mcap")
	if len(pictures) == 0 {
		w.t.Error("the camera was not recorded")
	}
	var labels []int64
	for _, path := range logs {
		r, err := flightlog.Open(path)
		if err != nil {
			w.t.Error(err)
			continue
		}
		s, damage, err := flightlog.Summarise(r)
		if err != nil || len(damage) > 0 {
			w.t.Errorf("%s: %v, %v", path, damage, err)
		}
		w.t.Logf("%s: %d ticks, %d skipped, %d dropped, %d labels: %s; stops: %s", filepath.Base(path), s.Ticks, s.Skipped,
			s.Dropped, s.Presses, s.LabelsText(), s.Stops())
		for record, err := range r.Records() {
			if err != nil {
				w.t.Error(err)
			} else if record.Label != nil {
				labels = append(labels, record.Label.At)
			}
		}
		_ = r.Close()
		w.shell("optibfm replay " + path)
	}
	w.t.Logf("%d labels of %d presses", len(labels), len(w.presses))
	for _, press := range w.presses {
		if !slices.ContainsFunc(labels, func(at int64) bool { return press-1e9 < at && at < press+1e9 }) {
			w.t.Errorf("no label of the press at %.1f s", float64(press)/1e9)
		}
	}
}
