package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/control"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/host"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
	"optibfm/internal/summary"
	"optibfm/rewardsrc"
)

// A test can break its host process: the first variable names the fault, the second a
// file. The fault begins when the file exists.
const (
	spoiledHost = "OPTIBFM_TEST_SPOIL"
	spoiledWhen = "OPTIBFM_TEST_SPOIL_WHEN"
)

// spoils are the faults of a host process.
var spoils = map[string]func(h *host.Process, now <-chan struct{}){
	"planner panics": func(h *host.Process, now <-chan struct{}) {
		go func() {
			<-now
			close(h.Planner.Plans) // the planner panics when it sends
		}()
	},
	"recorder panics": func(h *host.Process, now <-chan struct{}) {
		h.Intake.Source = &spoiledSource{Source: h.Intake.Source, now: now, act: func() { panic("in the recorder") }}
	},
	"any other goroutine panics": func(_ *host.Process, now <-chan struct{}) {
		go func() {
			<-now
			panic("in a goroutine")
		}()
	},
	"recorder stalls for 2 s": func(h *host.Process, now <-chan struct{}) {
		h.Intake.Source = &spoiledSource{Source: h.Intake.Source, now: now, act: func() { time.Sleep(2 * time.Second) }}
	},
	"GPU fails": func(h *host.Process, now <-chan struct{}) {
		loseGPU(h, now, func() (int, float32, error) { return 0, 0, rigtest.ErrDeviceLost })
	},
	"GPU hangs": func(h *host.Process, now <-chan struct{}) {
		loseGPU(h, now, func() (int, float32, error) { select {} })
	},
	"hangs at its start": func(*host.Process, <-chan struct{}) {
		_ = os.WriteFile(os.Getenv(spoiledWhen), nil, 0o600)
		time.Sleep(time.Hour)
	},
	"host tries to arm": func(h *host.Process, _ <-chan struct{}) {
		go func() {
			for range 20 {
				time.Sleep(50 * time.Millisecond)
				line, err := control.Send(h.Session.File.Safety.Socket, "arm")
				fmt.Fprintf(os.Stderr, "the host received: %s %v\n", line, err)
				child := exec.Command("/proc/self/exe", "arm", "--socket", h.Session.File.Safety.Socket)
				child.Env = append(os.Environ(), actAsProgram+"=1")
				text, _ := child.CombinedOutput()
				fmt.Fprintf(os.Stderr, "its child received: %s\n", text)
			}
		}()
	},
}

// spoiledSource calls act once, in the recorder's goroutine.
type spoiledSource struct {
	rewardsrc.Source
	now  <-chan struct{}
	act  func()
	done bool
}

func (s *spoiledSource) Poll(dst []rewardsrc.Label) int {
	select {
	case <-s.now:
		if !s.done {
			s.done = true
			s.act()
		}
	default:
	}
	return s.Source.Poll(dst)
}

// runSpoiledHost runs the host process with a fault.
func runSpoiledHost(spoil string) {
	now := make(chan struct{})
	go func() {
		for {
			if _, err := os.Stat(os.Getenv(spoiledWhen)); err == nil {
				close(now)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	err := errors.Join(host.DropRealTime(), host.RecordCrash(os.NewFile(host.FdCrash, "crash")))
	if err == nil {
		var h *host.Process
		if h, err = host.Open(os.Stdout); err == nil {
			spoils[spoil](h, now)
			err = h.ServeAndSummarise(os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// attendedRun is `optibfm run` on a robot that an operator arms, with safety.after_stop:
// hold.
type attendedRun struct {
	t      *testing.T
	robot  *watched
	cmd    *exec.Cmd
	socket string
	spoil  string // the file that starts the fault of the host
	output *syncBuffer
}

// syncBuffer is a file that a process writes while a test reads it.
type syncBuffer struct{ path string }

func (b *syncBuffer) String() string {
	text, _ := os.ReadFile(b.path)
	return string(text)
}

// runAttended starts a run. spoil names a fault of the host, or is empty.
func runAttended(t *testing.T, spoil string, set ...string) *attendedRun {
	t.Helper()
	r := prepareAttended(t, spoil, set...)
	r.start()
	return r
}

// prepareAttended returns a run that has not started.
func prepareAttended(t *testing.T, spoil string, set ...string) *attendedRun {
	t.Helper()
	w, base := serveWatched(t)
	dir := t.TempDir()
	r := &attendedRun{
		t: t, robot: w, socket: filepath.Join(dir, "s"),
		spoil: filepath.Join(dir, "now"), output: &syncBuffer{filepath.Join(dir, "output")},
	}
	base = append(base, "safety.arm=operator", "safety.after_stop=hold", "safety.socket="+r.socket,
		"controller.replan_every_ticks=1")
	r.cmd = program(t, append(base, set...)...)
	r.cmd.Env = append(r.cmd.Env, spoiledHost+"="+spoil, spoiledWhen+"="+r.spoil)
	return r
}

func (r *attendedRun) start() {
	r.t.Helper()
	out, err := os.Create(r.output.path)
	fatal.If(r.t, err)
	defer out.Close()
	r.cmd.Stdout, r.cmd.Stderr = out, out
	fatal.If(r.t, r.cmd.Start())
	r.t.Cleanup(func() {
		_ = r.cmd.Process.Signal(syscall.SIGCONT)
		_ = r.cmd.Process.Kill()
		_, _ = r.cmd.Process.Wait()
	})
}

// say sends a command to the socket. It fails if no answer comes.
func (r *attendedRun) say(word string) (c ipc.Status, err error) {
	line, err := control.Send(r.socket, word)
	if err == nil {
		err = json.Unmarshal(line, &c)
	}
	return c, err
}

// must repeats a command until the robot is in a state: a machine under load is slow.
func (r *attendedRun) must(word, state string) {
	r.t.Helper()
	var c ipc.Status
	var err error
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool {
		c, err = r.say(word)
		return err == nil && c.Error == "" && c.State == state
	}) {
		r.t.Fatalf("%s: want %s, found %+v, %v:\n%s", word, state, c, err, r.output)
	}
}

// arm arms the robot and waits until it moves.
func (r *attendedRun) arm() {
	r.t.Helper()
	acts := r.robot.acts.Load()
	r.must("arm", "armed")
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool { return r.robot.acts.Load() >= acts+3 }) {
		r.t.Fatalf("armed, it does not move:\n%s", r.output)
	}
}

// awaitStop waits until the status is stopped.
func (r *attendedRun) awaitStop() ipc.Status {
	r.t.Helper()
	var c ipc.Status
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool { c, _ = r.say("status"); return c.State == "stopped" }) {
		r.t.Fatalf("not stopped: %+v\n%s", c, r.output)
	}
	return c
}

// goesOn checks that the robot keeps moving for a second.
func (r *attendedRun) goesOn(why string) {
	r.t.Helper()
	acts := r.robot.acts.Load()
	time.Sleep(time.Second)
	if n := r.robot.acts.Load() - acts; n < 20 {
		r.t.Errorf("%s: %d acts in a second:\n%s", why, n, r.output)
	}
	select {
	case <-r.robot.halted:
		r.t.Errorf("%s: halted:\n%s", why, r.output)
	default:
	}
}

// End ends the run by SIGTERM and returns its error.
func (r *attendedRun) End() error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return r.cmd.Wait()
}

func (r *attendedRun) kill(pid int, signal syscall.Signal) {
	r.t.Helper()
	fatal.If(r.t, syscall.Kill(pid, signal))
}

func (r *attendedRun) spoilNow() {
	r.t.Helper()
	fatal.If(r.t, os.WriteFile(r.spoil, nil, 0o600))
}

// TestRun_HoldsAStopUntilResetAndArm tests the faults of docs/hazards.md that need two
// processes and that an operator can clear.
func TestRun_HoldsAStopUntilResetAndArm(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name   string
		set    []string
		inject func(*attendedRun)
		repair func(*attendedRun)
		want   controller.Fault
	}{
		{"the host is stopped for 2 s (SIGSTOP)", []string{"run.host_timeout_s=0.5"},
			func(r *attendedRun) { r.kill(hostOf(r.t, r.cmd), syscall.SIGSTOP) },
			func(r *attendedRun) { time.Sleep(2 * time.Second); r.kill(hostOf(r.t, r.cmd), syscall.SIGCONT) },
			controller.FaultHost},
		{"the planner's process is starved past the plan's age (SIGSTOP)", []string{"controller.max_plan_age_ticks=50"},
			func(r *attendedRun) { r.kill(hostOf(r.t, r.cmd), syscall.SIGSTOP) },
			func(r *attendedRun) { r.kill(hostOf(r.t, r.cmd), syscall.SIGCONT) },
			controller.FaultStalePlan},
		{"the control process is stopped for 2 s (SIGSTOP)", []string{"loop.max_missed_ticks=50"},
			func(r *attendedRun) {
				r.kill(r.cmd.Process.Pid, syscall.SIGSTOP)
				time.Sleep(2 * time.Second)
				r.kill(r.cmd.Process.Pid, syscall.SIGCONT)
			},
			func(*attendedRun) {}, controller.FaultOverrun},
		{"the sensor is unplugged and plugged in", nil,
			func(r *attendedRun) { r.robot.broken.Store(true) },
			func(r *attendedRun) { r.robot.broken.Store(false) }, controller.FaultSense},
		{"an operator stops it", nil,
			func(r *attendedRun) { _, _ = r.say("stop") },
			func(*attendedRun) {}, controller.FaultOperator},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := runAttended(t, "", f.set...)
			r.arm()
			sent := time.Now()
			f.inject(r)
			t.Logf("halted after %v", r.robot.waitHalted(t, sent))
			c := r.awaitStop()
			if c.Cause != f.want.String() || c.Found == "" {
				t.Errorf("the cause is %q (%s), want %q", c.Cause, c.Found, f.want)
			}
			f.repair(r)
			acts := r.robot.acts.Load()
			r.must("reset", "disarmed")
			time.Sleep(100 * time.Millisecond)
			if n := r.robot.acts.Load() - acts; n != 0 {
				t.Errorf("it acted %d times without being armed", n)
			}
			r.arm()
			errtest.Nil(t, r.End(), r.output)
			checkStopIsLogged(t, r, f.want, c.Found)
		})
	}
}

// checkStopIsLogged checks that the log has the stop once, with the cause of the status,
// and that the log verifies.
func checkStopIsLogged(t *testing.T, r *attendedRun, want controller.Fault, found string) {
	t.Helper()
	log := onlyLog(t, r.cmd)
	stops := eventsWith(t, log, "robot stopped: ")
	if len(stops) != 1 || !strings.HasPrefix(stops[0], "robot stopped: "+want.String()+": "+found) {
		t.Errorf("the log has the stops %q, the status %v: %s", stops, want, found)
	}
	summary, _, err := flightlog.Summarise(log)
	if err != nil || summary.Faults[want] != 1 {
		t.Errorf("the log has the faults %v, %v", summary.Faults, err)
	}
	checkVerified(t, log)
}

// eventsWith returns the texts of a log's events with a prefix.
func eventsWith(t *testing.T, log *flightlog.Reader, prefix string) (texts []string) {
	t.Helper()
	for r, err := range log.Records() {
		fatal.If(t, err)
		if r.Event != nil && strings.HasPrefix(r.Event.Text, prefix) {
			texts = append(texts, r.Event.Text)
		}
	}
	return texts
}

func TestRun_ReportsOneCauseEverywhere(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, set...)
	cmd.Args = append(cmd.Args, "--json")
	output := w.start(t, cmd)
	w.broken.Store(true)
	errtest.NotNil(t, cmd.Wait(), "the program ended without an error")
	var m summary.Summary
	for line := range strings.Lines(output.String()) {
		if strings.HasPrefix(line, "{") {
			fatal.If(t, json.Unmarshal([]byte(line), &m))
		}
	}
	if m.Fault != controller.FaultSense.String() || !strings.Contains(m.Found, "the sensor was unplugged") {
		t.Errorf("the summary says %q: %q", m.Fault, m.Found)
	}
	cause := m.Fault + ": " + m.Found
	if !strings.Contains(output.String(), "robot halted: "+cause) {
		t.Errorf("the error does not say %q:\n%s", cause, output)
	}
	log := onlyLog(t, cmd)
	if got := eventsWith(t, log, "robot "); len(got) != 1 || got[0] != "robot halted: "+cause {
		t.Errorf("the log says %q, the summary %q", got, cause)
	}
	if s, _, err := flightlog.Summarise(log); err != nil || s.End != cause || s.Faults[controller.FaultSense] != 1 {
		t.Errorf("log info says %q, %s, %v; want %q", s.End, s.Stops(), err, cause)
	}
}

// TestRun_EndsAfterAFaultOfTheHost tests faults that a reset cannot clear.
func TestRun_EndsAfterAFaultOfTheHost(t *testing.T) {
	t.Parallel()
	kill := func(r *attendedRun) { r.kill(hostOf(r.t, r.cmd), syscall.SIGKILL) }
	for _, f := range []struct {
		name, spoil string
		inject      func(*attendedRun)
	}{
		{"the host is killed (SIGKILL)", "", kill},
		{"the host's planner panics", "planner panics", (*attendedRun).spoilNow},
		{"the host's recorder panics", "recorder panics", (*attendedRun).spoilNow},
		{"any other goroutine of the host panics", "any other goroutine panics", (*attendedRun).spoilNow},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := runAttended(t, f.spoil)
			r.arm()
			sent := time.Now()
			f.inject(r)
			t.Logf("halted after %v", r.robot.waitHalted(t, sent))
			errtest.NotNil(t, r.cmd.Wait(), "the program ended without an error")
			if f.spoil != "" && !strings.Contains(r.output.String(), "goroutine ") {
				t.Errorf("the panic is not shown:\n%s", r.output)
			}
			errtest.Is(t, errtest.Of(os.Stat(r.socket)), os.ErrNotExist, "the socket is left")
			onlyLog(t, r.cmd)
		})
	}
}

func TestRun_DeadmanHaltsWhileTheControlProcessIsStopped(t *testing.T) {
	t.Parallel()
	r := runAttended(t, "", "robot.bridge.deadman_ms=1000", "loop.max_missed_ticks=200")
	r.arm()
	stopped := time.Now()
	r.kill(r.cmd.Process.Pid, syscall.SIGSTOP)
	t.Logf("halted by its own server after %v, its deadman is 1 s", r.robot.waitHalted(t, stopped))
	r.kill(r.cmd.Process.Pid, syscall.SIGCONT)
	r.awaitStop()
	time.Sleep(100 * time.Millisecond) // some ticks, in which the control process detects the loss
	acts := r.robot.acts.Load()
	for _, word := range []string{"reset", "arm"} {
		if c, err := r.say(word); err != nil || c.Error == "" || c.State != "stopped" {
			t.Errorf("%s of a robot that is lost: %+v, %v", word, c, err)
		}
	}
	if r.robot.acts.Load() != acts {
		t.Error("it moved")
	}
	_ = r.End() // the error is that the robot is lost
}

func TestRun_SignalEndsAHeldRunWithTheRobotHalted(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprintf("stopped=%v", stopped), func(t *testing.T) {
			r := runAttended(t, "")
			actAsDevices(t) // Halt waits a tenth of a second for the robot's server, which is in this process
			r.arm()
			if stopped {
				r.must("stop", "stopped")
				r.robot.waitHalted(t, time.Now())
			}
			sent := time.Now()
			errtest.Nil(t, r.End(), r.output)
			if !stopped {
				t.Logf("halted after %v", r.robot.waitHalted(t, sent))
			}
			if cut := onlyLog(t, r.cmd).Cut(); cut != nil {
				t.Errorf("the log was not finished: %+v", cut)
			}
		})
	}
}

func TestRun_KeepsMovingThroughNuisances(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name, spoil string
		inject      func(*attendedRun)
	}{
		{"the recorder stalls for 2 s, as on a slow disk", "recorder stalls for 2 s", (*attendedRun).spoilNow},
		{"the log's folder is removed", "", func(r *attendedRun) {
			fatal.If(r.t, os.RemoveAll(logDir(r.cmd)))
		}},
		{"the control socket is removed", "", func(r *attendedRun) { fatal.If(r.t, os.Remove(r.socket)) }},
		{"the host is stopped for less than its limit", "", func(r *attendedRun) {
			pid := hostOf(r.t, r.cmd)
			r.kill(pid, syscall.SIGSTOP)
			time.Sleep(150 * time.Millisecond)
			r.kill(pid, syscall.SIGCONT)
		}},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := runAttended(t, f.spoil)
			r.arm()
			f.inject(r)
			r.goesOn(f.name)
			_ = r.End()
		})
	}
}

func TestRun_KeepsMovingOnAFullDisk(t *testing.T) {
	if err := exec.Command("unshare", "-Urm", "true").Run(); err != nil {
		t.Skipf("no namespaces: %v", err)
	}
	t.Parallel()
	w, set := serveWatched(t)
	disk := t.TempDir()
	inner := program(t, append(set, "log.dir="+disk, "log.flush_ms=20", "log.min_free_gb=0")...)
	cmd := exec.Command("unshare", append([]string{"-Urm", "sh", "-c",
		`mount -t tmpfs -o size=96k tmpfs "$0" && exec "$@"`, disk}, append([]string{exe(t)}, inner.Args[1:]...)...)...)
	cmd.Env = inner.Env
	output := w.start(t, cmd)
	acts := w.acts.Load()
	time.Sleep(4 * time.Second) // 200 ticks of about 500 bytes, and the log's header
	if n := w.acts.Load() - acts; n < 80 {
		t.Errorf("%d acts in 4 s", n)
	}
	terminate(t, cmd) // the error of the log is the error of the program
	w.waitHalted(t, time.Now())
	rigtest.Contains(t, output.String(), "no space left")
}

// exe is the path of this test, for processes with another /proc/self/exe.
func exe(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	fatal.If(t, err)
	return path
}

func TestSocket_RefusesTheHostAndItsChildren(t *testing.T) {
	t.Parallel()
	r := runAttended(t, "host tries to arm")
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool {
		text := r.output.String()
		return strings.Count(text, "the host received") >= 3 && strings.Count(text, "its child received") >= 3
	}) {
		t.Fatalf("the host did not try:\n%s", r.output)
	}
	if n := r.robot.acts.Load(); n != 0 || strings.Contains(r.output.String(), `"state":"armed"`) {
		t.Errorf("%d acts:\n%s", n, r.output)
	}
	rigtest.Contains(t, r.output.String(), "belongs to the controller itself")
	checkNoListener(t, r)
	r.arm() // a person can
}

// checkNoListener checks that the host has no descriptor of the control socket.
func checkNoListener(t *testing.T, r *attendedRun) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/unix")
	fatal.If(t, err)
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 8 || fields[7] != r.socket {
			continue
		}
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", hostOf(t, r.cmd)))
		if err != nil || len(links) == 0 {
			t.Fatalf("the host's descriptors: %v, %v", links, err)
		}
		for _, link := range links {
			if target, _ := os.Readlink(link); target == "socket:["+fields[6]+"]" {
				t.Errorf("the host has the control socket as %s", link)
			}
		}
	}
}
