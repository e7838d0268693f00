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
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal/haltest"
	"optibfm/internal/link"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// attended is a rig whose ticks go on by themselves, and its socket.
type attended struct {
	*faultRig
	path   string
	socket *Server
	cuts   chan struct{}
	mu     sync.Mutex // held during a tick
	stop   chan struct{}
	ended  sync.WaitGroup
}

// attend opens the socket of a rig that is armed by nobody yet. Without ticks
// its control thread hangs.
func attend(t *testing.T, ticks bool) *attended {
	t.Helper()
	a := &attended{faultRig: newFaultRig(t, configs.AfterStopHold), path: filepath.Join(t.TempDir(), "s"), cuts: make(chan struct{}, 9), stop: make(chan struct{})}
	a.ticks(5)
	var err error
	if a.socket, err = Listen(configs.Safety{Socket: a.path}); err != nil {
		t.Fatal(err)
	}
	a.socket.mailbox, a.socket.live, a.socket.period = &a.mailbox, func() rtloop.Live { return rtloop.Live{} }, time.Millisecond
	a.socket.robot, a.socket.haltStuck = "fake", func(rtloop.Stall) { a.cuts <- struct{}{} }
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
				if err := a.Tick(); err != nil {
					t.Error(err)
				}
				a.mu.Unlock()
			}
		})
	}
	t.Cleanup(func() {
		close(a.stop)
		a.ended.Wait()
		if err := a.socket.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// hear says a word and returns the answer.
func (a *attended) hear(word string) link.Status {
	a.t.Helper()
	line, err := Send(a.path, word)
	if err != nil {
		a.t.Fatalf("%s: %v", word, err)
	}
	var c link.Status
	if err := json.Unmarshal(line, &c); err != nil {
		a.t.Fatalf("%s: %v", line, err)
	}
	return c
}

func TestAnOperatorArmsDisarmsStopsAndResetsARobotThroughTheSocket(t *testing.T) {
	a := attend(t, true)
	for _, step := range []struct{ word, state, refusal string }{
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
		c := a.hear(step.word)
		if c.State != step.state || !strings.Contains(c.Error, step.refusal) || (c.Error == "") != (step.refusal == "") {
			t.Fatalf("%s: %+v, want %s", step.word, c, step.state)
		}
	}
}

func TestAStatusSaysWhatStopsTheRobotWhenTheComputerDies(t *testing.T) {
	for silence, want := range map[time.Duration]string{0: "NONE is known", 300 * time.Millisecond: "after 300ms"} {
		a := attend(t, true)
		a.mu.Lock()
		a.robot.Silence = silence
		a.mu.Unlock()
		if c := a.hear("status"); !strings.Contains(c.Deadman, "none is set") {
			t.Errorf("disarmed: %s", c.Deadman)
		}
		if c := a.hear("arm"); !strings.Contains(c.Deadman, want) {
			t.Errorf("armed, %v: %s", silence, c.Deadman)
		}
	}
	s := configs.Safety{ExternalDeadman: "relay K2"}
	if got := setup.DescribeDeadman(haltest.New(haltest.Spec(1, 1)), s); got != "relay K2" {
		t.Error(got)
	}
}

func TestAStatusSaysWhatStoppedTheRobotAndWhatStillDoes(t *testing.T) {
	a := attend(t, true)
	a.hear("arm")
	a.mu.Lock()
	a.robot.Pressed = true
	a.mu.Unlock()
	var c link.Status
	waitUntil(10*time.Second, func() bool { c = a.hear("status"); return c.State == "stopped" })
	if c.Cause != controller.FaultEStop.String() || c.Present != c.Cause || !strings.Contains(c.Found, "release it") || !c.Planned {
		t.Errorf("%+v", c)
	}
	if c := a.hear("reset"); !strings.Contains(c.Error, "emergency stop") {
		t.Errorf("reset with the button pressed: %+v", c)
	}
	var text, asJSON bytes.Buffer
	if err := SendAndPrint(&text, a.path, "status", false); err != nil || !strings.HasPrefix(text.String(), "fake is stopped: emergency stop (") {
		t.Errorf("%v:\n%s", err, text.String())
	}
	if err := SendAndPrint(&asJSON, a.path, "arm", true); err == nil || !json.Valid(asJSON.Bytes()) {
		t.Errorf("%v:\n%s", err, asJSON.String())
	}
}

func TestACallerWhoSaysNothingOrTooMuchHoldsNobodyUp(t *testing.T) {
	a := attend(t, true)
	for range 3 {
		c, err := net.Dial("unix", a.path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if c := a.hear("stop"); c.State != "stopped" {
		t.Errorf("%+v", c)
	}
	c, err := net.Dial("unix", a.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write(bytes.Repeat([]byte("arm "), 1000)) // it may hang up in between
	if answer, _ := io.ReadAll(c); len(answer) != 0 {
		t.Errorf("a line without an end was answered: %s", answer)
	}
	if c := a.hear("status"); c.State != "stopped" {
		t.Errorf("%+v", c)
	}
}

func TestAStopThatTheControlThreadDoesNotAnswerIsMadeBesideIt(t *testing.T) {
	a := attend(t, false)
	if c := a.hear("stop"); c.Error != errNoAnswer.Error() {
		t.Errorf("%+v", c)
	}
	select {
	case <-a.cuts:
	default:
		t.Error("the robot was not halted past the control thread")
	}
	if c := a.hear("arm"); c.Error != errNoAnswer.Error() {
		t.Errorf("%+v", c)
	}
	a.ticks(3) // it comes loose
	if a.agent.Armed() || a.agent.Mode() != controller.Stopped {
		t.Errorf("%v: an act that nobody waits for any more was done", a.agent.Mode())
	}
}

func TestAPanicInTheSocketsGoroutineStopsTheRobotInTheNextTick(t *testing.T) {
	a := attend(t, false)
	a.socket.live = func() rtloop.Live { panic("a mistake") }
	if _, err := Send(a.path, "status"); err == nil {
		t.Error("it was answered")
	}
	<-a.socket.done
	err := a.Tick()
	wantFault(t, err, controller.FaultPanic)
	if !errors.Is(err, errServerPanic) {
		t.Error(err)
	}
}

func TestTheSocketIsForItsOwnerAndGroupAndForOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, err := Listen(configs.Safety{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := Listen(configs.Safety{Socket: path}); !errors.Is(err, ErrSocketInUse) {
		t.Errorf("a second listener: %v", err)
	}
	fd, err := s.listener.File()
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	if flags, err := unix.FcntlInt(fd.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("a child would inherit the socket: %x, %v", flags, err)
	}
	_ = fd.Close()
	if err := s.listener.Close(); err != nil { // as if it was killed: the file stays
		t.Fatal(err)
	}
	again, err := Listen(configs.Safety{Socket: path})
	if err != nil {
		t.Fatalf("a dead process's socket is in the way: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(configs.Safety{Socket: path}); err == nil {
		t.Error("a file was taken for a socket")
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Error("it was removed")
	}
	for want, safety := range map[string]configs.Safety{
		"create the folder": {Socket: filepath.Join(path+"-missing", "s")},
		"safety.group":    {Socket: path + "2", Group: "no-such-group-here"},
	} {
		if _, err := Listen(safety); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestOnlyRootTheServicesUserAndTheGroupMayOperate(t *testing.T) {
	const group, other = 4242, 4243
	self := uint32(os.Getuid())
	for _, c := range []struct {
		name     string
		uid, gid uint32
		group    int
		may      bool
	}{
		{"root", 0, 0, -1, true},
		{"the service's user", self, other, -1, true},
		{"somebody of the group", 3_999_999, group, group, true},
		{"somebody else", 3_999_999, other, group, false},
		{"somebody else, where there is no group", 3_999_999, other, -1, false},
	} {
		if err := checkUser(&unix.Ucred{Pid: 1, Uid: c.uid, Gid: c.gid}, c.group); (err == nil) != c.may {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestARefusalIsHeardAlsoWhereItComesBeforeTheWord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
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

func TestAStrangerIsRefusedAlsoWhereTheSocketsModeLetsHimIn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	a := attend(t, true)
	for path, mode := range map[string]os.FileMode{a.path: 0o666, filepath.Dir(a.path): 0o755, filepath.Dir(filepath.Dir(a.path)): 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	type answer struct {
		line []byte
		err  error
	}
	said := make(chan answer)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		const nobody, asItWas = 65534, ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, asItWas, nobody, asItWas); errno != 0 {
			said <- answer{err: errno}
			return
		}
		line, err := Send(a.path, "arm")
		said <- answer{line, err}
	}()
	got := <-said
	if got.err != nil || !strings.Contains(string(got.line), "user 65534 may not operate") {
		t.Errorf("%v, %s", got.err, got.line)
	}
	if c := a.hear("status"); c.State != "disarmed" {
		t.Errorf("the robot is %s", c.State)
	}
}

func TestWhatTheControlProcessStartedMayNotOperate(t *testing.T) {
	// 10 is the control process, 11 its host, 12 a child of the host, 20 a
	// person's shell, 30 came from outside of the container, 40 has ended.
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
