package unitree_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"optibfm/hal/monotonic"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// inNamespace is set in the child process that has its own network namespace.
const inNamespace = "OPTIBFM_TEST_NETWORK"

// TestRobot_StopsWhenItsInterfaceGoesDown takes the loopback interface of a network namespace down
// and up: the cable.
func TestRobot_StopsWhenItsInterfaceGoesDown(t *testing.T) {
	library(t)
	if os.Getenv(inNamespace) == "" {
		child := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), inNamespace+"=1")
		child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		out, err := child.CombinedOutput()
		if err != nil && os.Geteuid() != 0 {
			t.Skipf("no privilege for a network namespace: %v", err)
		}
		if t.Logf("%s", out); err != nil {
			t.Fatal(err)
		}
		return
	}
	setInterface(t, "up")
	c := newConfig("go2")
	sim := newRig(t, c)
	r := open(t, c)
	action := arm(t, r)
	w := sim.watch()
	act := func() error { time.Sleep(2 * time.Millisecond); return r.Act(action) }
	for range 50 {
		fatal.If(t, act())
	}
	setInterface(t, "down")
	at := monotonic.Now()
	errtest.Contains(t, stopsWith(r, act), "sends no state")
	t.Logf("stopped after %.0f ms", float64(monotonic.Now()-at)/1e6)
	errtest.Nil(t, r.Halt())
	errtest.NotNil(t, r.Arm(), "armed without a network")
	setInterface(t, "up")
	w.await(t, 1) // what the robot gets when the cable returns
	w.stop()
	arm(t, r)
}

func setInterface(t *testing.T, state string) {
	t.Helper()
	if out, err := exec.Command("ip", "link", "set", "lo", state).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestRobot_BesideANewerCycloneDDS runs beside a participant of Cyclone DDS 11, which can crash
// processes with 0.10. OPTIBFM_TEST_CYCLONE11 names a Python that has the package cyclonedds of
// that version.
func TestRobot_BesideANewerCycloneDDS(t *testing.T) {
	python := os.Getenv("OPTIBFM_TEST_CYCLONE11")
	if python == "" {
		t.Skip("OPTIBFM_TEST_CYCLONE11 is empty: pip install cyclonedds, version 11")
	}
	c := newConfig("g1")
	newRig(t, c)
	r := open(t, c)
	action := arm(t, r)
	other := exec.Command(python, "-c", newerParticipant, strconv.Itoa(c.Domain))
	other.Env = append(os.Environ(), "CYCLONEDDS_URI="+newerSettings)
	other.Stderr = os.Stderr
	out, err := other.StdoutPipe()
	fatal.If(t, err)
	fatal.If(t, other.Start())
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "11.") {
		t.Fatalf("the other participant has version %q, %v", line, err)
	}
	for range 3 * int(time.Second/period) {
		settle(t, r, "a state", func(err error) bool { return err == nil })
		fatal.If(t, r.Act(action))
		time.Sleep(period)
	}
}

const newerParticipant = `
import importlib.metadata, sys, time
from cyclonedds.domain import DomainParticipant
participant = DomainParticipant(int(sys.argv[1]))
print(importlib.metadata.version("cyclonedds"), flush=True)
time.sleep(60)
`

const newerSettings = `<CycloneDDS><Domain Id="any"><General><Interfaces><NetworkInterface name="lo"/></Interfaces>
<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>
<Peers><Peer address="localhost"/></Peers></Discovery></Domain></CycloneDDS>`
