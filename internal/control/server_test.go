package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
	"optibfm/rtloop"
)

// servedRun is a run with a control socket.
type servedRun struct {
	*faultRun
	path   string
	socket *Server
	beside chan struct{} // halts beside the control thread
	mu     sync.Mutex    // held during a tick
	stop   chan struct{}
	ended  sync.WaitGroup
}

// serveRun opens the control socket of a run that is not armed. Without ticks the control thread
// hangs.
func serveRun(t *testing.T, ticks bool) *servedRun {
	t.Helper()
	a := &servedRun{
		faultRun: newFaultRun(t, configs.AfterStopHold), path: filepath.Join(t.TempDir(), "s"),
		beside: make(chan struct{}, 9), stop: make(chan struct{}),
	}
	a.ticks(5)
	var err error
	a.socket, err = Listen(configs.Safety{Socket: a.path})
	fatal.If(t, err)
	a.socket.mailbox, a.socket.period, a.socket.robot = &a.mailbox, time.Millisecond, "fake"
	a.socket.tasks = a.taskSwitch()
	a.socket.tasks.limit.SetLimit(rate.Inf)
	a.socket.live = func() rtloop.Live { return rtloop.Live{} }
	a.socket.console = a.link.Console
	a.socket.haltStuck = func(rtloop.Stall) { a.beside <- struct{}{} }
	go a.socket.serve()
	if ticks {
		a.ended.Go(func() {
			for {
				select {
				case <-a.stop:
					return
				case <-time.After(time.Millisecond):
				}
				a.mu.Lock()
				errtest.Nil(t, a.Tick())
				a.mu.Unlock()
			}
		})
	}
	t.Cleanup(func() {
		close(a.stop)
		a.ended.Wait()
		errtest.Nil(t, a.socket.Close())
	})
	return a
}

// send sends a command and returns the status in the reply.
func (a *servedRun) send(command string) (status ipc.Status) {
	a.t.Helper()
	line, err := Send(a.path, command)
	fatal.If(a.t, err)
	fatal.If(a.t, json.Unmarshal(line, &status))
	return status
}

func TestServer_StatusReportsAConsoleThatWaits(t *testing.T) {
	a := serveRun(t, true)
	for state, want := range map[ipc.ConsoleState]string{
		ipc.ConsoleNone: "", ipc.ConsoleListens: "", ipc.ConsoleWaits: "console: no browser can reach it",
	} {
		a.host.Console.Store(state)
		got := a.send("status")
		if text := got.Text(); (got.Console == "") != (want == "") || !strings.Contains(text, want) {
			t.Errorf("state %d: %q", state, text)
		}
	}
}

func TestServer_ArmsDisarmsStopsAndResets(t *testing.T) {
	a := serveRun(t, true)
	for _, step := range []struct{ command, state, refusal string }{
		{"status", "disarmed", ""},
		{"arm", "armed", ""},
		{"arm", "armed", ""},
		{"disarm", "disarmed", ""},
		{"reset", "disarmed", ""},
		{"arm", "armed", ""},
		{"stop", "stopped", ""},
		{"arm", "stopped", "reset"},
		{"disarm", "stopped", ""},
		{"reset", "disarmed", ""},
		{"dance", "disarmed", "unknown command"},
		{"ARM", "disarmed", "unknown command"},
		{"", "disarmed", "unknown command"},
		{"arm", "armed", ""},
		{"status", "armed", ""},
	} {
		got := a.send(step.command)
		refused := got.Error != ""
		if got.State != step.state || !strings.Contains(got.Error, step.refusal) || refused != (step.refusal != "") {
			t.Fatalf("%s: %+v, want %s", step.command, got, step.state)
		}
	}
}

func TestServer_StatusNamesTheDeadman(t *testing.T) {
	for silence, want := range map[time.Duration]string{0: "NONE is known", 300 * time.Millisecond: "after 300ms"} {
		a := serveRun(t, true)
		a.mu.Lock()
		a.robot.Silence = silence
		a.mu.Unlock()
		if c := a.send("status"); !strings.Contains(c.Deadman, "none is set") {
			t.Errorf("disarmed: %s", c.Deadman)
		}
		if c := a.send("arm"); !strings.Contains(c.Deadman, want) {
			t.Errorf("armed, %v: %s", silence, c.Deadman)
		}
	}
}

func TestServer_StatusNamesTheCauseAndPresentFaults(t *testing.T) {
	a := serveRun(t, true)
	a.send("arm")
	a.mu.Lock()
	a.robot.Pressed = true
	a.mu.Unlock()
	var c ipc.Status
	rigtest.WaitUntil(rigtest.HangGuard, func() bool { c = a.send("status"); return c.State == "stopped" })
	estop := controller.FaultEStop.String()
	if c.Cause != estop || c.Present != estop || !strings.Contains(c.Found, "release it") || !c.Planned {
		t.Errorf("%+v", c)
	}
	if c := a.send("reset"); !strings.Contains(c.Error, "emergency stop") {
		t.Errorf("reset with the button pressed: %+v", c)
	}
	var text, asJSON bytes.Buffer
	err := SendAndPrint(&text, a.path, "status", false)
	if err != nil || !strings.HasPrefix(text.String(), "fake is stopped: emergency stop (") {
		t.Errorf("%v:\n%s", err, text.String())
	}
	if err := SendAndPrint(&asJSON, a.path, "arm", true); err == nil || !json.Valid(asJSON.Bytes()) {
		t.Errorf("%v:\n%s", err, asJSON.String())
	}
}

func TestServer_SilentAndLongCallersDoNotBlockOthers(t *testing.T) {
	a := serveRun(t, true)
	for range 3 {
		c, err := net.Dial("unix", a.path)
		fatal.If(t, err)
		defer c.Close()
	}
	if c := a.send("stop"); c.State != "stopped" {
		t.Errorf("%+v", c)
	}
	c, err := net.Dial("unix", a.path)
	fatal.If(t, err)
	defer c.Close()
	_, _ = c.Write(bytes.Repeat([]byte("arm "), 1000)) // the server may close the connection
	if answer, _ := io.ReadAll(c); len(answer) != 0 {
		t.Errorf("an endless line was answered: %s", answer)
	}
	if c := a.send("status"); c.State != "stopped" {
		t.Errorf("%+v", c)
	}
}

func TestServer_EveryConnectionToTheSocketOfStopsIsAStop(t *testing.T) {
	a := serveRun(t, true)
	a.send("arm")
	c, err := net.Dial("unix", StopPath(a.path))
	fatal.If(t, err)
	defer c.Close()
	var status ipc.Status
	fatal.If(t, json.NewDecoder(c).Decode(&status))
	if status.State != "stopped" || status.Error != "" {
		t.Errorf("%+v", status)
	}
}

// occupy opens idle connections to a socket, and keeps opening busy ones until the test ends.
func occupy(t *testing.T, path string, idle, busy int) {
	var connections sync.WaitGroup
	stop := make(chan struct{})
	for range idle {
		connections.Go(func() {
			c, err := dialAgain(path)
			if err == nil {
				<-stop
				_ = c.Close()
			}
		})
	}
	for range busy {
		connections.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("unix", path)
				if err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				_, _ = io.WriteString(c, "status\n")
				_ = c.SetReadDeadline(time.Now().Add(time.Second))
				_, _ = io.ReadAll(c)
				_ = c.Close()
			}
		})
	}
	t.Cleanup(func() { close(stop); connections.Wait() })
}

func TestServer_StopWaitsForNoOtherCaller(t *testing.T) {
	for _, c := range []struct {
		name       string
		idle, busy int
		path       func(string) string
	}{
		{"idle callers", 100, 0, func(s string) string { return s }},
		{"busy callers", 0, 10, func(s string) string { return s }},
		{"both", 100, 10, func(s string) string { return s }},
		{"both at the socket of stops", 100, 10, StopPath},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := serveRun(t, true)
			a.send("arm")
			occupy(t, c.path(a.path), c.idle, c.busy)
			time.Sleep(100 * time.Millisecond)
			var longest time.Duration
			for range 20 {
				start := time.Now()
				line, err := Send(a.path, "stop")
				longest = max(longest, time.Since(start))
				if err != nil || !strings.Contains(string(line), `"state":"stopped"`) {
					t.Fatalf("%s, %v", line, err)
				}
			}
			t.Logf("at most %v", longest)
			if longest > 5*time.Second { // of a computer under load
				t.Errorf("a stop took %v", longest)
			}
			if c := a.send("disarm"); c.State != "stopped" { // after the others, but served
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestServer_UnansweredStopHaltsBesideTheControlThread(t *testing.T) {
	a := serveRun(t, false)
	if c := a.send("stop"); c.Error != errNoAnswer.Error() {
		t.Errorf("%+v", c)
	}
	select {
	case <-a.beside:
	default:
		t.Error("the robot was not halted beside the control thread")
	}
	if c := a.send("arm"); c.Error != errNoAnswer.Error() {
		t.Errorf("%+v", c)
	}
	a.ticks(3) // the thread recovers
	if a.agent.Armed() || a.agent.Mode() != controller.Stopped {
		t.Errorf("%v: it executed a command after the timeout", a.agent.Mode())
	}
}

func TestServer_PanicStopsTheRobotInTheNextTick(t *testing.T) {
	a := serveRun(t, false)
	a.socket.live = func() rtloop.Live { panic("a mistake of the server") }
	errtest.NotNil(t, errtest.Of(Send(a.path, "status")), "a reply after the panic")
	<-a.socket.done
	err := a.Tick()
	wantFault(t, err, controller.FaultPanic)
	errtest.Is(t, err, errServerPanic)
}

func TestListen_HasMode0660AndOneListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, err := Listen(configs.Safety{Socket: path})
	fatal.If(t, err)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	errtest.Is(t, errtest.Of(Listen(configs.Safety{Socket: path})), ErrSocketInUse, "a second listener")
	fd, err := s.listener.File()
	fatal.If(t, err)
	if flags, err := unix.FcntlInt(fd.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("a child would inherit the socket: %x, %v", flags, err)
	}
	_ = fd.Close()
	fatal.If(t, errors.Join(s.listener.Close(), s.stops.Close(), s.lock.Close())) // a kill: the files stay
	again, err := Listen(configs.Safety{Socket: path})
	if err != nil {
		t.Fatalf("the socket of a dead process: %v", err)
	}
	fatal.If(t, again.Close())
	for _, path := range []string{path, StopPath(path)} {
		errtest.Is(t, errtest.Of(os.Stat(path)), os.ErrNotExist, "Close leaves the socket")
	}
}

func TestListen_ARunThatDoesNotListenYetHoldsTheRobot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	lock, err := takeLock(lockPath(path)) // of a run that is delayed in listen(2)
	fatal.If(t, err)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	fatal.If(t, err)
	defer unix.Close(fd)
	fatal.If(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	errtest.Is(t, errtest.Of(Listen(configs.Safety{Socket: path})), ErrSocketInUse, "a second run")
	errtest.Nil(t, errtest.Of(os.Stat(path)), "the second run removed the socket of the first")
	fatal.If(t, lock.Close()) // the first run died
	again, err := Listen(configs.Safety{Socket: path})
	fatal.If(t, err)
	fatal.If(t, again.Close())
	errtest.Nil(t, errtest.Of(os.Stat(lockPath(path))), "the lock's file does not stay")
}

func TestListen_OneOfManyHoldsTheRobot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 50 {
		var starts sync.WaitGroup
		held := make(chan *Server, 8)
		for range cap(held) {
			starts.Go(func() {
				s, err := Listen(configs.Safety{Socket: path})
				switch {
				case err == nil:
					held <- s
				case !errors.Is(err, ErrSocketInUse):
					t.Error(err)
				}
			})
		}
		starts.Wait()
		close(held)
		if len(held) != 1 {
			t.Fatalf("%d runs hold the robot", len(held))
		}
		fatal.If(t, (<-held).Close())
	}
}

func TestListen_ErrorNamesTheKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s")
	fatal.If(t, os.WriteFile(file, []byte("precious"), 0o600))
	for want, safety := range map[string]configs.Safety{
		"safety.socket: " + file:          {Socket: file},
		"create the folder " + file + "-": {Socket: filepath.Join(file+"-missing", "s")},
		"safety.group":                    {Socket: file + "2", Group: "no-such-group-here"},
	} {
		errtest.Contains(t, errtest.Of(Listen(safety)), want)
	}
	if text, _ := os.ReadFile(file); string(text) != "precious" {
		t.Error("Listen removed a file")
	}
}

func TestServer_AcceptsRootItsUserAndTheGroup(t *testing.T) {
	const group, other = 4242, 4243
	self := uint32(os.Getuid())
	for _, c := range []struct {
		name     string
		uid, gid uint32
		group    int
		may      bool
	}{
		{"root", 0, 0, -1, true},
		{"user of the process", self, other, -1, true},
		{"member of the group", 3_999_999, group, group, true},
		{"other user", 3_999_999, other, group, false},
		{"other user without a group", 3_999_999, other, -1, false},
	} {
		if err := checkUser(&unix.Ucred{Pid: 1, Uid: c.uid, Gid: c.gid}, c.group); (err == nil) != c.may {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSend_ReadsARefusalThatComesBeforeTheCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	fatal.If(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "{}\n")
			_ = c.Close()
		}
	}()
	for range 500 {
		if line, err := Send(path, "arm"); err != nil || string(line) != "{}\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
}

func TestServer_RefusesAnotherUserWhateverTheMode(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	a := serveRun(t, true)
	dir := filepath.Dir(a.path)
	for path, mode := range map[string]os.FileMode{dir: 0o755, filepath.Dir(dir): 0o755} {
		fatal.If(t, os.Chmod(path, mode))
	}
	if got := sendAsStranger(a.path); got.err == nil || !strings.Contains(got.err.Error(), "member of safety.group") {
		t.Errorf("mode 0660: %v, %s", got.err, got.line)
	}
	fatal.If(t, os.Chmod(a.path, 0o666))
	if got := sendAsStranger(a.path); got.err != nil || !strings.Contains(string(got.line), "user 65534 may not operate") {
		t.Errorf("mode 0666: %v, %s", got.err, got.line)
	}
	if c := a.send("status"); c.State != "disarmed" {
		t.Errorf("the robot is %s", c.State)
	}
}

type answer struct {
	line []byte
	err  error
}

// sendAsStranger sends arm as user and group 65534, from a separate thread.
func sendAsStranger(path string) answer {
	replies := make(chan answer)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		const stranger, unchanged = 65534, ^uintptr(0)
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, unchanged, stranger, unchanged},
			{unix.SYS_SETRESUID, unchanged, stranger, unchanged},
		} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				replies <- answer{err: errno}
				return
			}
		}
		line, err := Send(path, "arm")
		replies <- answer{line, err}
	}()
	return <-replies
}

func TestServer_RefusesItsDescendants(t *testing.T) {
	// 10: control process, 11: host, 12: child of the host, 20: shell of an operator, 30: from
	// outside of the container, 40: ended.
	parents := map[int]int{10: 1, 11: 10, 12: 11, 20: 1, 21: 20, 30: 0}
	parent := func(pid int) (int, error) {
		p, ok := parents[pid]
		if !ok {
			return 0, os.ErrNotExist
		}
		return p, nil
	}
	for pid, want := range map[int]bool{11: true, 12: true, 20: false, 21: false, 30: false, 40: true, 1: false} {
		if got := isDescendant(pid, 10, parent); got != want {
			t.Errorf("process %d: %v", pid, got)
		}
	}
	if got, err := parentOf(os.Getpid()); err != nil || got != os.Getppid() {
		t.Errorf("%d, %v, want %d", got, err, os.Getppid())
	}
}

func TestServer_ReportsTheMotionsToPoses(t *testing.T) {
	motion := controller.DefaultMotion()
	motion.Pose = map[string]float64{"left_wheel": 0.3}
	motion.RampS, motion.SettleS, motion.BlendS = 0.2, 0.1, 0.1
	r := newRun(t, rigtest.NewSession(t, func(f *configs.File) {
		f.Safety.Start, f.Safety.Rest, f.Safety.Arm = motion, motion, configs.ArmOperator
		f.Safety.Socket, f.Run.EpisodeS = "unused", 0
	}), nil)
	live := func() rtloop.Live { return rtloop.Live{} }
	server := Server{mailbox: &r.mailbox, live: live, console: new(atomic.Uint64)}
	r.ticks(3)
	var states []string
	for _, command := range []command{commandArm, commandDisarm} {
		answered := make(chan error, 1)
		go func() { answered <- r.mailbox.call(command, rigtest.HangGuard) }()
		rigtest.WaitUntil(rigtest.HangGuard, func() bool { _, a := r.mailbox.next(); return a == command })
		for range 20 {
			r.ticks(1)
			if state := server.status(nil).State; len(states) == 0 || states[len(states)-1] != state {
				states = append(states, state)
			}
		}
		fatal.If(t, <-answered)
	}
	if want := "starting armed resting disarmed"; strings.Join(states, " ") != want {
		t.Errorf("states %q, want %q", states, want)
	}
}
