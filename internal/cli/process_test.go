package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/hal/assembly"
	"optibfm/hal/bridge"
	"optibfm/hal/bridge/bridgetest"
	"optibfm/hal/haltest"
	"optibfm/internal/control"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/host"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
	"optibfm/internal/summary"
	"optibfm/internal/taskstore"
	"optibfm/internal/testturns"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/evdev/evdevtest"
	"optibfm/rtloop"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// actAsProgram makes the test binary run the program.
const actAsProgram = "OPTIBFM_TEST_PROGRAM"

// inputFolder gives that program the devices of an evdevtest.Machine.
const inputFolder = "OPTIBFM_TEST_INPUT"

func TestMain(m *testing.M) {
	if os.Getenv(actAsProgram) != "" {
		if os.Getenv(rigtest.RigVariable) != "" {
			assembly.LocalHardware = rigtest.NewRig().Hardware()
		}
		if os.Getenv(tidyOften) != "" {
			host.TidyEvery = 20 * time.Millisecond
		}
		if dir := os.Getenv(inputFolder); dir != "" {
			evdev.Local = evdevtest.Machine{Dir: dir}
		}
		if spoil := os.Getenv(spoiledHost); spoil != "" && len(os.Args) > 1 && os.Args[1] == "host" {
			runSpoiledHost(spoil)
			return
		}
		Main()
		return
	}
	os.Setenv("XDG_STATE_HOME", "/nonexistent") // no saved tasks of the user
	os.Exit(testturns.Run(m))
}

// raced is true with the race detector. Its spin locks hang if real-time threads keep all
// processors from the holder of a lock, so programs then run without a real-time priority.
var raced bool

// program returns the command `optibfm run` with these overrides, a log folder and an
// untrained model. It does not lock its memory, which takes most of the processor time of a short
// run.
func program(t *testing.T, set ...string) *exec.Cmd {
	t.Helper()
	args := []string{"run", "--plain"}
	if raced {
		args = append(args, "--set", "loop.fifo_priority=0")
	}
	for _, s := range append([]string{
		"log.dir=" + t.TempDir(), "model.bundle=" + randomBundle(t), "loop.posture=warn", "loop.lock_memory=false",
		"loop.max_missed_ticks=-1", "controller.max_plan_age_ticks=1000",
	}, set...) {
		args = append(args, "--set", s)
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), actAsProgram+"=1")
	return cmd
}

// logDir is the log folder of a command of program.
func logDir(cmd *exec.Cmd) string {
	for _, arg := range cmd.Args {
		if dir, ok := strings.CutPrefix(arg, "log.dir="); ok {
			return dir
		}
	}
	panic("program gives every command a log.dir")
}

// randomBundle writes an untrained model for a robot of the rover's size.
func randomBundle(t *testing.T) string {
	t.Helper()
	dims := tflite.Dims{Obs: 6, Action: 2, Latent: 8, Ensemble: 2}
	dir := filepath.Join(t.TempDir(), "bundle")
	m := tflitetest.Manifest(dims)
	fatal.If(t, tflite.Save(dir, m, tflitetest.Tensors(m.Architecture, 1)))
	return dir
}

// onlyLog opens the only log of a command.
func onlyLog(t *testing.T, cmd *exec.Cmd) *flightlog.Reader {
	t.Helper()
	r, err := flightlog.Open(onlyLogPath(t, cmd))
	if err != nil {
		t.Fatalf("the log does not open: %v", err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func onlyLogPath(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(logDir(cmd), "*.mcap"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("want one log, have %v, %v", paths, err)
	}
	return paths[0]
}

// watched is a robot that another process controls through the bridge. It reports the
// times of its halts.
type watched struct {
	*haltest.Robot
	address string
	mu      sync.Mutex
	armed   bool
	acts    atomic.Int64
	broken  atomic.Bool // its sensor fails
	halted  chan time.Time
}

func (w *watched) Arm() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = true
	return w.Robot.Arm()
}

// Sense stamps samples with the present: the bridge checks their age.
func (w *watched) Sense(obs []float32) (int64, error) {
	_, err := w.Robot.Sense(obs)
	return rtloop.Now(), err
}

func (w *watched) Act(a []float32) error {
	w.acts.Add(1)
	return w.Robot.Act(a)
}

func (w *watched) Halt() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed {
		w.armed = false
		w.halted <- time.Now()
	}
	return w.Robot.Halt()
}

// serveWatched serves a robot and returns it with the settings that reach it. The time limits
// are too long for a busy machine to reach: a test of a limit sets it.
func serveWatched(t *testing.T) (*watched, []string) {
	t.Helper()
	spec := haltest.Spec(6, 2)
	spec.Period = 20 * time.Millisecond
	w := &watched{Robot: haltest.New(spec), halted: make(chan time.Time, 16)}
	w.Observe = func(int, []float32) error {
		if w.broken.Load() {
			return errors.New("the sensor was unplugged")
		}
		return nil
	}
	address := "unix:" + filepath.Join(t.TempDir(), "robot")
	l, err := bridge.Listen(address)
	fatal.If(t, err)
	w.address = address
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- bridge.Serve(ctx, l, hal.Robot(w), func(err error) { t.Logf("a client of the robot left: %v", err) })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("the robot's server: %v", err)
		}
	})
	return w, []string{
		"robot.driver=" + "bridge", "robot.bridge.address=" + address, "robot.bridge.mode=free",
		"robot.bridge.stale_ms=5000", "robot.bridge.timeout_ms=1000", "robot.bridge.deadman_ms=60000",
		"loop.period_ms=20", "loop.watchdog_ms=0", "operator.source=none", "run.duration_s=0", "run.episode_s=0",
		"run.host_timeout_s=30",
	}
}

// start starts a command and waits until the robot moves.
func (w *watched) start(t *testing.T, cmd *exec.Cmd) *strings.Builder {
	t.Helper()
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	fatal.If(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for deadline := time.Now().Add(rigtest.HangGuard); w.acts.Load() < 3; {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("the robot never moved:\n%s", output.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return &output
}

// waitHalted waits for the robot to be halted and returns how long after.
func (w *watched) waitHalted(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	select {
	case at := <-w.halted:
		return at.Sub(since)
	case <-time.After(rigtest.HangGuard):
		t.Fatal("the robot was not halted")
		return 0
	}
}

// checkVerified fails unless a replay of the log agrees.
func checkVerified(t *testing.T, log *flightlog.Reader) flightlog.Result {
	t.Helper()
	result, err := flightlog.Verify(log)
	if err != nil || !result.OK() {
		t.Errorf("the replay: %v, %v", err, result.First)
	}
	return result
}

// checkClosed fails unless the log of a command was closed.
func checkClosed(t *testing.T, cmd *exec.Cmd) *flightlog.Reader {
	t.Helper()
	log := onlyLog(t, cmd)
	if cut := log.Cut(); cut != nil {
		t.Errorf("the log was not closed: %+v", cut)
	}
	return log
}

// terminate ends a run by SIGTERM.
func terminate(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	fatal.If(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
}

// startShared starts a command and returns its output, which grows while it runs.
func startShared(t *testing.T, cmd *exec.Cmd) *rigtest.SyncBuffer {
	t.Helper()
	output := &rigtest.SyncBuffer{}
	cmd.Stdout, cmd.Stderr = output, output
	fatal.If(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return output
}

// hostOf returns the process ID of a control process's host.
func hostOf(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
	fatal.If(t, err)
	for _, path := range tasks {
		text, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(field)
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.Contains(string(line), "\x00host") {
				return pid
			}
		}
	}
	t.Fatal("no host process")
	return 0
}

func TestRun_HaltsWhenTheHostDiesOrHangs(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGABRT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			w, set := serveWatched(t)
			cmd := program(t, append(set, "run.host_timeout_s=0.5")...)
			output := w.start(t, cmd)
			sent := time.Now()
			fatal.If(t, syscall.Kill(hostOf(t, cmd), signal))
			t.Logf("halted after %v", w.waitHalted(t, sent))
			errtest.NotNil(t, cmd.Wait(), "the program ended without an error")
			rigtest.Contains(t, output.String(), controller.FaultHost.String(), "host process")
			onlyLog(t, cmd)
		})
	}
}

// TestRun_SimulatorSurvivesPausesOfItsProcesses stops each process for longer than the deadlines of
// a physical robot.
func TestRun_SimulatorSurvivesPausesOfItsProcesses(t *testing.T) {
	t.Parallel()
	spec := haltest.Spec(6, 2)
	spec.Period = 20 * time.Millisecond
	server := bridgetest.Serve(t, bridgetest.Options{Spec: spec, Free: true})
	for name, set := range map[string][]string{
		"simulated time": {"operator.source=none", "run.duration_s=0", "run.episode_s=0"},
		"real time": append(bridgeSettings(server, "free"), "robot.bridge.stale_ms=100", "robot.bridge.timeout_ms=10",
			"run.simulator_wait_s=60", "loop.watchdog_ms=200"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := program(t, append(set, "loop.max_missed_ticks=5", "controller.max_plan_age_ticks=5",
				"run.host_timeout_s=0.2")...)
			output := startToFile(t, cmd)
			started := func() bool { return strings.Contains(output.String(), "run started") }
			if !rigtest.WaitUntil(rigtest.ExitTimeout, started) {
				t.Fatalf("it did not start:\n%s", output)
			}
			time.Sleep(300 * time.Millisecond) // it moves
			for _, pid := range []int{cmd.Process.Pid, hostOf(t, cmd)} {
				fatal.If(t, syscall.Kill(pid, syscall.SIGSTOP))
				time.Sleep(time.Second)
				fatal.If(t, syscall.Kill(pid, syscall.SIGCONT))
				time.Sleep(300 * time.Millisecond)
			}
			state := interrupt(t, cmd, output)
			if state.ExitCode() != 0 || strings.Contains(output.String(), "HALTED") {
				t.Errorf("it ended with %v:\n%s", state, output)
			}
		})
	}
}

func TestRun_HostReportsAKilledControlProcess(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, set...)
	output := w.start(t, cmd)
	killed := time.Now()
	fatal.If(t, cmd.Process.Kill())
	t.Logf("halted by its own server %v after the kill", w.waitHalted(t, killed))
	_ = cmd.Wait() // returns when the host has closed the output
	rigtest.Contains(t, output.String(), "control process died")
	checkClosed(t, cmd)
}

func TestHostProcess_HasANameAndNoRealTimeRights(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, set...)
	w.start(t, cmd)
	host := fmt.Sprintf("/proc/%d/", hostOf(t, cmd))
	for file, want := range map[string]string{
		"comm": "^optibfm-host\n$", "cmdline": "^optibfm-host\x00host\x00$",
		"status": `NoNewPrivs:\s+1`, "limits": `Max realtime priority\s+0\s+0`,
	} {
		if text, err := os.ReadFile(host + file); err != nil || !regexp.MustCompile(want).Match(text) {
			t.Errorf("%s: %v, no %q in\n%s", file, err, want, text)
		}
	}
	terminate(t, cmd)
}

func TestRun_HaltsOnSignals(t *testing.T) {
	t.Parallel()
	for _, s := range ipc.StopSignals {
		signal := s.(syscall.Signal)
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			w, set := serveWatched(t)
			cmd := program(t, set...)
			output := w.start(t, cmd)
			sent := time.Now()
			fatal.If(t, cmd.Process.Signal(signal))
			t.Logf("halted after %v", w.waitHalted(t, sent))
			errtest.Nil(t, cmd.Wait(), output)
			checkClosed(t, cmd)
		})
	}
}

func TestRun_ReportsALostRobot(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	f, through := freeze(t, w)
	cmd := program(t, append(set, through)...)
	output := w.start(t, cmd)
	f.cut()
	w.waitHalted(t, time.Now())
	if err := cmd.Wait(); err == nil || !strings.Contains(output.String(), "the robot is lost") {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestRun_WatchdogHaltsWhenTheDriverHangs(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	f, through := freeze(t, w)
	cmd := program(t, append(set, through,
		"robot.bridge.mode=lockstep", "robot.bridge.timeout_ms=600000", "loop.watchdog_ms=200")...)
	output := w.start(t, cmd)
	hung := time.Now()
	f.frozen.Store(true)
	t.Logf("halted after %v", w.waitHalted(t, hung)) // before the driver's timeout of 10 minutes
	errtest.NotNil(t, cmd.Wait(), "the program ended without an error:\n", output)
}

func TestRun_AnInterruptOfItsStartEndsIt(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{10, 30, 60, 100, 200} {
		w, set := serveWatched(t)
		cmd := program(t, set...)
		var output strings.Builder
		cmd.Stdout, cmd.Stderr = &output, &output
		fatal.If(t, cmd.Start())
		time.Sleep(after * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ended:
		case <-time.After(control.HostFinishTimeout / 2):
			_ = cmd.Process.Signal(syscall.SIGABRT) // prints its goroutines
			<-ended
			t.Fatalf("interrupted %d ms after the start, it still runs:\n%s", after, output.String())
		}
		w.mu.Lock()
		if w.armed {
			t.Errorf("interrupted %d ms after the start: the robot is still armed", after)
		}
		w.mu.Unlock()
	}
}

func TestRun_SurvivesAClosedPipe(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, append(set, "run.duration_s=1")...)
	out, err := cmd.StdoutPipe()
	fatal.If(t, err)
	var messages strings.Builder
	cmd.Stderr = &messages
	fatal.If(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	fatal.If(t, errtest.Of(bufio.NewReader(out).ReadString('\n')))
	out.Close()
	w.waitHalted(t, time.Now())
	errtest.Nil(t, cmd.Wait(), messages.String())
	checkClosed(t, cmd)
}

func TestRun_JSONIsTheOnlyOutput(t *testing.T) {
	t.Parallel()
	cmd := program(t, "operator.source=console", "operator.keyboard.reaction_ms=0", "run.duration_s=1",
		"run.episode_s=0", "controller.gate.kappa=0", "loop.cpus=[1023]")
	cmd.Args = append(cmd.Args, "--json")
	stdin, err := cmd.StdinPipe()
	fatal.If(t, err)
	stderr, err := cmd.StderrPipe()
	fatal.If(t, err)
	var out bytes.Buffer
	cmd.Stdout = &out
	fatal.If(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_, _ = io.WriteString(stdin, "+\n") // starts the rover
	warned := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		warned = warned || strings.HasPrefix(lines.Text(), "warning: loop.cpus: ")
		if strings.HasPrefix(lines.Text(), "wanted") {
			_, _ = io.WriteString(stdin, "+\nnonsense\n") // fails after the end
		}
	}
	fatal.If(t, cmd.Wait())
	var got summary.Summary
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	if got.Labels == 0 || got.Returns == nil || !warned {
		t.Errorf("%d labels, returns %v, a warning about loop.cpus: %v", got.Labels, got.Returns, warned)
	}
}

func TestRun_RefusesBeforeTheRobotMoves(t *testing.T) {
	t.Parallel()
	damaged := t.TempDir()
	fatal.If(t, os.WriteFile(taskstore.Store{State: damaged}.Path(taskstore.Last), []byte("{}\nnot a belief"), 0o600))
	for name, c := range map[string]struct {
		set  []string
		want []string
	}{
		"log folder": {[]string{"log.dir=/dev/null/logs"}, []string{"log.dir", "nothing moved"}},
		"full disk":  {[]string{"log.min_free_gb=1000000"}, []string{"log.min_free_gb", "nothing moved"}},
		"malformed console address": {[]string{"operator.source=web", "operator.web.listen=here"},
			[]string{"listen is not an address"}},
		"slow driver": {[]string{"robot.bridge.timeout_ms=100", "loop.watchdog_ms=150"},
			[]string{"Sense and Act may take 200ms together"}},
		"damaged belief": {[]string{"run.state_dir=" + damaged, "controller.rho=1"}, []string{"damaged file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, set := serveWatched(t)
			out, err := program(t, slices.Concat(set, []string{"run.duration_s=1"}, c.set)...).CombinedOutput()
			text := strings.Join(strings.Fields(string(out)), " ")
			for _, want := range c.want {
				if err == nil || !strings.Contains(text, want) {
					t.Errorf("%v, no %q in\n%s", err, want, out)
				}
			}
			if n := w.acts.Load(); n != 0 || w.Arms != 0 {
				t.Errorf("%d acts, armed %d times", n, w.Arms)
			}
		})
	}
}

func TestRun_RefusesEpisodesOfARemoteSimulatorInRealTime(t *testing.T) {
	t.Parallel()
	_, set := serveArmable(t)
	output, err := program(t, append(set, "run.episode_s=1", "run.duration_s=0.5")...).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "run.episode_s") {
		t.Errorf("%v:\n%s", err, output)
	}
}

// freezer is a proxy of a robot's server. It forwards the server's answers until it is
// frozen, and always forwards the end of a connection.
type freezer struct {
	net.Listener
	server string
	frozen atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

// cut ends all connections, as the end of the server's process does.
func (f *freezer) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
}

func (f *freezer) serve() {
	for {
		client, err := f.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", f.server)
		if err != nil {
			client.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, client, server)
		f.mu.Unlock()
		go func() {
			_, _ = io.Copy(server, client)
			server.Close()
		}()
		go f.forward(client, server)
	}
}

func (f *freezer) forward(client, server net.Conn) {
	defer client.Close()
	buf := make([]byte, 4096)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if f.frozen.Load() {
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// freeze puts a freezer before a robot and returns the setting that reaches it.
func freeze(t *testing.T, w *watched) (f *freezer, set string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "proxy")
	l, err := net.Listen("unix", path)
	fatal.If(t, err)
	t.Cleanup(func() { l.Close() })
	f = &freezer{Listener: l, server: strings.TrimPrefix(w.address, "unix:")}
	go f.serve()
	return f, "robot.bridge.address=unix:" + path
}

// kills is the number of kills of the kill test; OPTIBFM_KILLS overrides it.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("OPTIBFM_KILLS")); err == nil {
		return n
	}
	if testing.Short() {
		return 2
	}
	return 5
}

var saved = regexp.MustCompile(`saved \((\d+)\)`)

func TestRun_KeepsAcknowledgedLabelsAfterAKill(t *testing.T) {
	t.Parallel()
	var worst killed
	for i := range kills() {
		k := killOnce(t, rand.New(rand.NewPCG(uint64(i), 7)))
		worst = killed{max(worst.lost, k.lost), max(worst.halted, k.halted), worst.labels + k.labels}
	}
	t.Logf("%d kills: %d labels acknowledged and found, at most the last %v of ticks lost, halted within %v",
		kills(), worst.labels, worst.lost, worst.halted)
}

// killed is the result of killOnce.
type killed struct {
	lost   time.Duration // ticks that are not in the log
	halted time.Duration // from the kill to the Halt of the robot
	labels int           // acknowledged, all in the log
}

// killOnce runs with labels from the keyboard, kills both processes at a random moment,
// and compares the acknowledged labels with the log.
func killOnce(t *testing.T, rng *rand.Rand) killed {
	t.Helper()
	robot, base := serveWatched(t)
	person, terminal := rigtest.OpenPTY(t)
	defer person.Close()
	cmd := program(t, append(base, "operator.source=keyboard", "operator.keyboard.refractory_ms=0")...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	fatal.If(t, cmd.Start())
	terminal.Close()
	seen := make(chan []uint64)
	first := make(chan struct{})
	go readAcknowledged(person, first, seen)
	pressing := make(chan struct{})
	go func() {
		defer close(pressing)
		for {
			if _, err := person.WriteString("+"); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	select {
	case <-first:
	case <-time.After(rigtest.HangGuard):
		t.Fatal("no label was acknowledged")
	}
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool { return robot.acts.Load() >= 3 }) {
		t.Fatal("the robot never moved")
	}
	time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
	host := hostOf(t, cmd)
	at, now := time.Now(), rtloop.Now()
	if rng.IntN(2) == 0 { // either process may die first
		_ = syscall.Kill(host, syscall.SIGKILL)
	}
	_ = cmd.Process.Kill()
	_ = syscall.Kill(host, syscall.SIGKILL)
	_ = cmd.Wait()
	acknowledged := <-seen
	person.Close()
	<-pressing
	checkLabels(t, onlyLog(t, cmd), acknowledged)
	return killed{
		lost: time.Duration(now - lastTickAt(t, onlyLog(t, cmd))), halted: robot.waitHalted(t, at),
		labels: len(acknowledged),
	}
}

// TestRun_RefusesLabelsForALostLog loses the log of a run and presses a key.
func TestRun_RefusesLabelsForALostLog(t *testing.T) {
	for name, lose := range map[string]func(dir, log string) error{
		"the folder is removed": func(dir, _ string) error { return os.RemoveAll(dir) },
		"the log is truncated":  func(_, log string) error { return os.Truncate(log, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			person, terminal := rigtest.OpenPTY(t)
			defer person.Close()
			cmd := program(t, "operator.source=keyboard", "operator.keyboard.refractory_ms=0", "run.duration_s=0")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
			fatal.If(t, cmd.Start())
			terminal.Close()
			lines := make(chan string, 1000)
			go func() {
				defer close(lines)
				for in := bufio.NewScanner(person); in.Scan(); {
					lines <- in.Text()
				}
			}()
			press(t, person, lines, saved.MatchString)
			fatal.If(t, lose(logDir(cmd), onlyLogPath(t, cmd)))
			press(t, person, lines, func(line string) bool {
				return strings.Contains(line, "NOT count") && strings.Contains(line, flightlog.ErrLost.Error())
			})
			fatal.If(t, cmd.Process.Signal(syscall.SIGTERM))
			for line := range lines {
				if saved.MatchString(line) {
					t.Errorf("acknowledged: %s", line)
				}
			}
			errtest.NotNil(t, cmd.Wait(), "the run ends without an error")
		})
	}
}

// press presses + until a line of the run is as wanted.
func press(t *testing.T, person *os.File, lines <-chan string, wanted func(string) bool) {
	t.Helper()
	var all []string
	guard := time.After(rigtest.HangGuard)
	for {
		_, _ = person.WriteString("+")
		select {
		case line := <-lines:
			if all = append(all, line); wanted(line) {
				return
			}
		case <-time.After(20 * time.Millisecond):
		case <-guard:
			t.Fatalf("no such line:\n%s", strings.Join(all, "\n"))
		}
	}
}

// readAcknowledged reads the acknowledged labels from a terminal until it closes.
func readAcknowledged(person *os.File, first chan<- struct{}, seen chan<- []uint64) {
	var ids []uint64
	lines := bufio.NewScanner(person)
	for lines.Scan() {
		m := saved.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		id, _ := strconv.ParseUint(m[1], 10, 64)
		if ids = append(ids, id); len(ids) == 1 {
			close(first)
		}
	}
	seen <- ids
}

func checkLabels(t *testing.T, r *flightlog.Reader, acknowledged []uint64) {
	t.Helper()
	found := map[uint64]bool{}
	for record, err := range r.Records() {
		fatal.If(t, err)
		if record.Label != nil {
			found[record.Label.ID] = true
		}
	}
	for _, id := range acknowledged {
		if !found[id] {
			t.Errorf("label %d was acknowledged and is not in the log", id)
		}
	}
}

// lastTickAt returns the end of the last tick of a log, or the start of a log without ticks.
func lastTickAt(t *testing.T, r *flightlog.Reader) int64 {
	t.Helper()
	at := r.Metadata().Clock.MonoNS
	for record, err := range r.Records() {
		fatal.If(t, err)
		if record.Tick != nil {
			at = record.Tick.Done
		}
	}
	return at
}
