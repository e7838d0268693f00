package bridge_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"optibfm/hal/bridge"
	"optibfm/hal/bridge/bridgetest"
	"optibfm/hal/haltest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// dialUntil dials, ends the context at an event, and returns Dial's error.
func dialUntil(t *testing.T, config bridge.Config, event <-chan struct{}) error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		robot, err := bridge.Dial(ctx, config)
		if err == nil {
			err = errors.Join(errors.New("it was dialled"), robot.Close())
		}
		ended <- err
	}()
	guard := time.After(hangGuard / 3)
	select {
	case <-event:
		cancel()
	case <-guard:
		t.Fatal("the server was not started or called")
	}
	select {
	case err := <-ended:
		return err
	case <-guard:
		t.Fatal("Dial does not end with its context")
		return nil
	}
}

// fault is the fault of a name that a server can commit at hello.
func fault(t *testing.T, name string) bridgetest.Fault {
	t.Helper()
	for _, f := range bridgetest.Faults(bridgetest.Hello, false) {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no fault %q", name)
	return bridgetest.Fault{}
}

func unwelcoming(t *testing.T, name string) *bridgetest.Server {
	return bridgetest.Serve(t, bridgetest.Options{
		Spec: haltest.Spec(2, 1), At: bridgetest.Hello, Fault: fault(t, name),
	})
}

func TestDial_EndsWithItsContextWhileItWaitsForTheWelcome(t *testing.T) {
	for _, name := range []string{"no answer", "silent within the frame", "a byte every 60 ms"} {
		t.Run(name, func(t *testing.T) {
			server := unwelcoming(t, name)
			err := dialUntil(t, bridge.Config{Address: server.Address}, server.Committed())
			errtest.Is(t, err, context.Canceled)
			errtest.Contains(t, err, "waiting for the welcome")
			<-server.Ended()
		})
	}
}

// firstWrite closes a channel at the first write.
type firstWrite struct {
	once sync.Once
	seen chan struct{}
}

func (w *firstWrite) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.seen) })
	return len(b), nil
}

func TestDial_EndsWithItsContextAndEndsTheServerThatItStarted(t *testing.T) {
	started := &firstWrite{seen: make(chan struct{})}
	err := dialUntil(t, bridge.Config{
		Command: []string{"sh", "-c", "echo started; sleep 1000"}, Output: started,
	}, started.seen)
	errtest.Is(t, err, context.Canceled, "not listening")
	errtest.Contains(t, err, "waiting until the server listens", "not listening")
	server := unwelcoming(t, "no answer")
	err = dialUntil(t, bridge.Config{Address: server.Address, Command: []string{"sleep", "1000"}}, server.Committed())
	errtest.Is(t, err, context.Canceled, "not answering")
	errtest.Contains(t, err, "waiting for the welcome", "not answering")
}

func TestDial_BoundsTheWholeWelcome(t *testing.T) {
	server := unwelcoming(t, "a byte every 60 ms")
	err := dialUntil(t, bridge.Config{Address: server.Address, StartTimeoutMs: 300}, server.Ended())
	errtest.Contains(t, err, "no complete welcome within 300ms")
}

func TestRobot_LetsAServerThatItStartedHaltBeforeItIsKilled(t *testing.T) {
	robot, printed, err := dialPython(t, bridge.Config{})
	fatal.If(t, err)
	robot.HaltBeside()
	errtest.Is(t, robot.Halt(), bridge.ErrLost)
	errtest.Nil(t, robot.Close())
	// Before its client, after it, and at its end.
	if n := strings.Count(printed.String(), "halted\n"); n != 3 {
		t.Errorf("halted %d times: %q", n, printed)
	}
}

func TestDial_ReportsAMissingWelcome(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for longer than noticeAfter")
	}
	t.Parallel()
	server, notice := unwelcoming(t, "no answer"), &firstWrite{seen: make(chan struct{})}
	config := bridge.Config{Address: server.Address, Output: notice, StartTimeoutMs: 5000}
	errtest.Contains(t, dialUntil(t, config, server.Ended()), "within 5s")
	select {
	case <-notice.seen:
	default:
		t.Error("no notice")
	}
}
