package rtloop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/fatal"
)

// serviceManager listens on NOTIFY_SOCKET.
type serviceManager struct{ *net.UnixConn }

func listen(t *testing.T, path string) serviceManager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	fatal.If(t, err)
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return serviceManager{conn}
}

// received returns the pending messages. It does not wait.
func (m serviceManager) received(t *testing.T) (messages []string) {
	t.Helper()
	raw, err := m.SyscallConn()
	fatal.If(t, err)
	buf := make([]byte, 4096)
	for {
		var n int
		var readErr error
		fatal.If(t, raw.Read(func(fd uintptr) bool { n, readErr = unix.Read(int(fd), buf); return true }))
		if readErr != nil {
			if readErr != unix.EAGAIN {
				t.Error(readErr)
			}
			return messages
		}
		messages = append(messages, string(buf[:n]))
	}
}

func notifier(t *testing.T) *Notifier {
	t.Helper()
	n, err := NewNotifier()
	fatal.If(t, err)
	return n
}

func TestNotifier_UsesPathAndAbstractName(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@optibfm-test-%d", os.Getpid())} {
		t.Run(path[:1], func(t *testing.T) {
			manager := listen(t, path)
			n := notifier(t)
			fatal.If(t, n.Ready(), n.send("STATUS=rolling"), n.Alive(), n.Stopping())
			want := []string{"READY=1", "STATUS=rolling", "WATCHDOG=1", "STOPPING=1"}
			if got := manager.received(t); !slices.Equal(got, want) {
				t.Fatalf("received %q, want %q", got, want)
			}
		})
	}
}

func TestNotifier_NilDoesNothing(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	n := notifier(t)
	if err := errors.Join(n.Ready(), n.Alive(), n.Stopping()); n != nil || err != nil {
		t.Fatalf("%v, error %v", n, err)
	}
	if n.WatchdogInterval() != 0 {
		t.Fatal("a watchdog interval without systemd")
	}
}

func TestNotifier_NeverBlocks(t *testing.T) {
	listen(t, filepath.Join(t.TempDir(), "notify"))
	n := notifier(t)
	var err error
	for range 100_000 {
		if err = n.Alive(); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("error %v, want EAGAIN once its queue is full", err)
	}
}

func TestNewNotifier_RefusesBadEnvironment(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "vsock:2:1234")
	if _, err := NewNotifier(); err == nil || !strings.Contains(err.Error(), "vsock:2:1234") {
		t.Errorf("error %v", err)
	}
	t.Setenv("NOTIFY_SOCKET", "/nowhere/at/all")
	t.Setenv("WATCHDOG_USEC", "soon")
	if _, err := NewNotifier(); err == nil || !strings.Contains(err.Error(), "WATCHDOG_USEC") {
		t.Errorf("error %v", err)
	}
	t.Setenv("WATCHDOG_USEC", "")
	if err := notifier(t).Ready(); !errors.Is(err, unix.ENOENT) {
		t.Errorf("error %v, want ENOENT", err)
	}
}

func TestNotifier_IgnoresWatchdogOfAnotherProcess(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/nowhere")
	t.Setenv("WATCHDOG_USEC", "1000000")
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()+1))
	if d := notifier(t).WatchdogInterval(); d != 0 {
		t.Fatalf("interval %v", d)
	}
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	if d := notifier(t).WatchdogInterval(); d != time.Second {
		t.Fatalf("interval %v, want 1s", d)
	}
}

func TestLoop_NotifiesReadyAndStopping(t *testing.T) {
	manager := listen(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "160000")
	t.Setenv("WATCHDOG_PID", "")
	l := prepare(t, modest())
	l.Notify = notifier(t)
	if got := manager.received(t); len(got) > 0 {
		t.Fatalf("before the run: %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	early := make(chan []string, 1)
	go func() {
		defer cancel()
		var got []string
		for ctx.Err() == nil && !slices.Contains(got, "WATCHDOG=1") {
			got = append(got, manager.received(t)...)
			time.Sleep(time.Millisecond)
		}
		early <- got
	}()
	l.Halt = func(error) { _ = l.Notify.send("STATUS=halted") }
	r, err := l.Run(ctx, func(Beat) error { return nil })
	if err != nil || r.NotifyError != nil {
		t.Fatal(err, r.NotifyError)
	}
	got := append(<-early, manager.received(t)...)
	halted, stopping := slices.Index(got, "STATUS=halted"), slices.Index(got, "STOPPING=1")
	if got[0] != "READY=1" || halted < 2 || stopping < halted {
		t.Fatalf("received %q", got)
	}
}
