package unitree_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal/monotonic"
	"optibfm/hal/unitree"
	"optibfm/internal/fatal"
	"optibfm/rtloop"
)

// processes are a control process and its children.
type processes struct {
	control *exec.Cmd
	pids    map[string]int // control, writer, standby, host
}

// startControl starts a control process that arms the robot.
func startControl(t *testing.T, c unitree.Config) *processes {
	t.Helper()
	text, err := json.Marshal(c)
	fatal.If(t, err)
	p := &processes{control: exec.Command("/proc/self/exe")}
	p.control.Env = append(os.Environ(), "OPTIBFM_TEST_CONTROL="+string(text))
	p.control.Stderr = os.Stderr
	out, err := p.control.StdoutPipe()
	fatal.If(t, err)
	p.start(t)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "armed\n" {
		t.Fatalf("the control process prints %q, %v", line, err)
	}
	p.find(t, unitree.RolePrimary, unitree.RoleStandby)
	return p
}

// optibfm builds the program.
var optibfm = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(program), "optibfm")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "../../cmd/optibfm").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// startRun starts a run with go2.yaml and arms the robot. It waits long for everything but a host
// that has ended.
func startRun(t *testing.T, c unitree.Config) *processes {
	t.Helper()
	path, err := optibfm()
	fatal.If(t, err)
	socket := filepath.Join(t.TempDir(), "socket")
	p := &processes{control: exec.Command(path, "run", "--config", "go2", "--plain", "--operator", "none",
		"--set", "safety.socket="+socket, "--set", "log.enabled=false", "--set", "robot.unitree.writer="+c.Writer,
		"--set", fmt.Sprint("robot.unitree.domain=", c.Domain))}
	if c.DeadmanMS > unitree.DefaultConfig().DeadmanMS {
		for _, set := range []string{
			fmt.Sprint("robot.unitree.deadman_ms=", c.DeadmanMS), fmt.Sprint("robot.unitree.standby_ms=", c.StandbyMS),
			fmt.Sprint("robot.unitree.standby_late_ms=", c.StandbyLateMS), fmt.Sprint("robot.unitree.stale_ms=", c.StaleMS),
			fmt.Sprint("safety.max_sample_age_ms=", c.StaleMS), "loop.max_missed_ticks=-1", "loop.watchdog_ms=20000",
			"controller.max_plan_age_ticks=100000", "run.host_timeout_s=5",
		} {
			p.control.Args = append(p.control.Args, "--set", set)
		}
	}
	p.control.Dir = "../.." // which has models/go2
	var output bytes.Buffer
	p.control.Stdout, p.control.Stderr = &output, &output
	p.start(t)
	var refusal []byte
	for range 300 {
		if refusal, err = exec.Command(path, "arm", "--socket", socket).CombinedOutput(); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		p.end()
		t.Fatalf("not armed: %s\n%s", refusal, output.Bytes())
	}
	p.find(t, unitree.RolePrimary, unitree.RoleStandby, "host")
	return p
}

func (p *processes) start(t *testing.T) {
	t.Helper()
	fatal.If(t, p.control.Start())
	p.pids = map[string]int{"control": p.control.Process.Pid}
	t.Cleanup(p.end)
}

// find finds children by their last argument.
func (p *processes) find(t *testing.T, roles ...string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	fatal.If(t, err)
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		arguments := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		role := arguments[len(arguments)-1]
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err == nil && slices.Contains(roles, role) && parent(pid) == p.pids["control"] {
			p.pids[role] = pid
		}
	}
	if len(p.pids) != 1+len(roles) {
		t.Fatalf("found %v, want also %v", p.pids, roles)
	}
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
	for _, pid := range p.pids {
		_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
	}
	_ = p.control.Wait()
}

// TestDeadman_DampsAfterTheEndOfEachProcess kills and stops each process of an armed robot.
// OPTIBFM_TEST_TIMES is a number of measurements with the limits of a robot: they log the time until
// an independent reader has the first command that damps.
func TestDeadman_DampsAfterTheEndOfEachProcess(t *testing.T) {
	library(t)
	times, err := strconv.Atoi(os.Getenv("OPTIBFM_TEST_TIMES"))
	measure := err == nil
	for _, signal := range []unix.Signal{unix.SIGKILL, unix.SIGSTOP} {
		for _, who := range []string{"control", "writer", "standby", "host"} {
			if who == "host" && emulated() {
				continue // only the writers are slow
			}
			t.Run(fmt.Sprintf("%v %s", unix.SignalName(signal), who), func(t *testing.T) {
				if !measure {
					if _, armed := endOne(t, who, signal, false); !armed {
						t.Fatal("the robot was not armed at the signal")
					}
					return
				}
				var took []float64
				for tries := 0; len(took) < times && tries < times+5; tries++ {
					if ms, armed := endOne(t, who, signal, true); armed {
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
// armed is false if the robot stopped before: with the limits of a robot, a busy computer stops it.
func endOne(t *testing.T, who string, signal unix.Signal, robotLimits bool) (took float64, armed bool) {
	model, start := unitree.G1, startControl
	if who == "host" {
		model, start = unitree.Go2, startRun
	}
	c := newConfig(model)
	if robotLimits && !emulated() {
		d := unitree.DefaultConfig()
		c.DeadmanMS, c.StandbyMS, c.StandbyLateMS = d.DeadmanMS, d.StandbyMS, d.StandbyLateMS
	}
	sim := newRig(t, c) // another domain: a killed writer stays known for the 10 s of its lease
	defer sim.end()
	defer realTime(t)()
	p := start(t, c)
	defer p.end()
	w := sim.watch()
	until(t, "commands", func() bool { _, n := w.newest(); return n >= 50 })
	at := monotonic.Now()
	fatal.If(t, unix.Kill(p.pids[who], signal))
	w.await(t, 1)
	if signal == unix.SIGSTOP {
		fatal.If(t, unix.Kill(p.pids[who], unix.SIGCONT))
	}
	_, before := w.newest()
	w.await(t, before+50)
	seen := w.stop()
	first := slices.IndexFunc(seen, func(w watched) bool { return w.at > at && w.damping })
	last := slices.IndexFunc(seen, func(w watched) bool { return w.at > at })
	if last < 1 || seen[last-1].damping {
		return 0, false
	}
	active := 0 // a process that was stopped between two instructions may have one command left
	for _, w := range seen[first:] {
		if !w.damping {
			active++
		}
	}
	if active > 1 {
		t.Errorf("after the first command that damps, %d do not", active)
	}
	return float64(seen[first].at-at) / 1e6, true
}

// realTime gives the threads of this process real-time priorities, where the system grants them.
// With an ordinary priority the independent reader itself is late by tens of milliseconds on a busy
// computer.
func realTime(t *testing.T) (end func()) {
	t.Helper()
	loop, _, err := rtloop.Prepare(rtloop.DefaultConfig())
	fatal.If(t, err)
	return loop.Close
}
