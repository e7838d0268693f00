package unitree_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal/monotonic"
	"optibfm/hal/unitree"
	"optibfm/rtloop"
)

// processes are a control process and its writers.
type processes struct {
	control         *exec.Cmd
	writer, standby int
	lines           *bufio.Reader
}

// startControl starts a control process that arms the robot.
func startControl(t *testing.T, c unitree.Config) *processes {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &processes{control: exec.Command("/proc/self/exe")}
	p.control.Env = append(os.Environ(), "OPTIBFM_TEST_CONTROL="+string(text))
	p.control.Stderr = os.Stderr
	out, err := p.control.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.control.Start(); err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewReader(out)
	line, err := p.lines.ReadString('\n')
	if err != nil || line != "armed\n" {
		t.Fatalf("the control process says %q, %v", line, err)
	}
	p.writer, p.standby = p.child(t, unitree.RolePrimary), p.child(t, unitree.RoleStandby)
	t.Cleanup(func() { p.end() })
	return p
}

// child returns the process of a writer.
func (p *processes) child(t *testing.T, role string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || string(line) != program+"\x00"+role+"\x00" {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err == nil && parent(pid) == p.control.Process.Pid {
			return pid
		}
	}
	t.Fatalf("no process %s", role)
	return 0
}

func parent(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "PPid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(rest))
			return n
		}
	}
	return 0
}

func (p *processes) end() {
	for _, pid := range []int{p.control.Process.Pid, p.writer, p.standby} {
		_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
	}
	_ = p.control.Wait()
}

// TestDeadman_DampsAfterTheEndOfEachProcess kills and stops each process of an armed robot. It logs the time until an
// independent reader has the first command that damps; OPTIBFM_TEST_TIMES repeats it.
func TestDeadman_DampsAfterTheEndOfEachProcess(t *testing.T) {
	library(t)
	times := 1
	if n, err := strconv.Atoi(os.Getenv("OPTIBFM_TEST_TIMES")); err == nil {
		times = n
	}
	for _, signal := range []unix.Signal{unix.SIGKILL, unix.SIGSTOP} {
		for _, who := range []string{"control", "writer", "standby"} {
			t.Run(fmt.Sprintf("%v %s", unix.SignalName(signal), who), func(t *testing.T) {
				var took []float64
				for tries := 0; len(took) < times && tries < times+5; tries++ {
					if ms, armed := endOne(t, who, signal); armed {
						took = append(took, ms)
					}
				}
				if len(took) < times {
					t.Fatal("the robot was too seldom armed at the signal")
				}
				slices.Sort(took)
				t.Logf("ms until it damps: median %.1f, most %.1f (%d times)", took[len(took)/2], took[len(took)-1], len(took))
			})
		}
	}
}

// endOne sends a signal to one process and returns the ms until the first command that damps.
// armed is false if the robot stopped before, on a computer without time for it.
func endOne(t *testing.T, who string, signal unix.Signal) (took float64, armed bool) {
	c := newConfig(unitree.G1)
	d := unitree.DefaultConfig()
	c.DeadmanMS, c.StandbyMS, c.StandbyLateMS = d.DeadmanMS, d.StandbyMS, d.StandbyLateMS // those of a robot
	// Another domain: a killed writer stays known for the 10 s of its lease.
	sim := newRig(t, c)
	defer sim.end()
	defer realTime(t)()
	p := startControl(t, c)
	defer p.end()
	stop, _ := sim.watch(t, c.Model)
	time.Sleep(200 * time.Millisecond)
	pid := map[string]int{"control": p.control.Process.Pid, "writer": p.writer, "standby": p.standby}[who]
	at := monotonic.Now()
	if err := unix.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	if signal == unix.SIGSTOP {
		if err := unix.Kill(pid, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	seen := stop()
	first := slices.IndexFunc(seen, func(w watched) bool { return w.at > at && w.damping })
	last := slices.IndexFunc(seen, func(w watched) bool { return w.at > at })
	if last < 1 || seen[last-1].damping {
		return 0, false
	}
	if first < 0 {
		t.Fatalf("of %d commands none damps after the signal", len(seen))
	}
	active := 0 // a process that was stopped between two instructions may have one command left
	for _, w := range seen[first:] {
		if !w.damping {
			active++
		}
	}
	if rest := len(seen) - first; active > 1 || rest < 50 {
		t.Errorf("after the first of %d commands that damp, %d do not", rest, active)
	}
	return float64(seen[first].at-at) / 1e6, true
}

// realTime gives the threads of this process real-time priorities, where the system grants them. With an ordinary
// priority the independent reader itself is late by tens of milliseconds on a busy computer.
func realTime(t *testing.T) (end func()) {
	t.Helper()
	loop, _, err := rtloop.Prepare(rtloop.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return loop.Close
}
