package monotonic

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// pipe returns the reading end of a pipe, and the end to write to.
func pipe(t *testing.T) (read, write int) {
	t.Helper()
	var ends [2]int
	fatal.If(t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
	t.Cleanup(func() { _ = unix.Close(ends[0]); _ = unix.Close(ends[1]) })
	return ends[0], ends[1]
}

func TestWaiter_ReturnsWhenDescriptorIsReady(t *testing.T) {
	read, write := pipe(t)
	fatal.If(t, errtest.Of(unix.Write(write, []byte{1})))
	var w Waiter
	if events, err := w.Wait(read, unix.POLLIN, After(time.Hour)); err != nil || events&unix.POLLIN == 0 {
		t.Errorf("events %#x, %v", events, err)
	}
}

func TestWaiter_EndsAtDeadlineAndNotBefore(t *testing.T) {
	read, _ := pipe(t)
	var w Waiter
	deadline := After(5 * time.Millisecond)
	errtest.Is(t, errtest.Of(w.Wait(read, unix.POLLIN, deadline)), os.ErrDeadlineExceeded)
	if Now() < deadline {
		t.Error("returned before the deadline")
	}
}

func TestWaiter_EndsWithContext(t *testing.T) {
	read, _ := pipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	var w Waiter
	end := w.Interrupt(ctx)
	time.AfterFunc(time.Millisecond, cancel)
	errtest.Is(t, errtest.Of(w.Wait(read, unix.POLLIN, After(time.Hour))), context.Canceled)
	end()
	if _, err := w.Wait(read, unix.POLLIN, 0); !errors.Is(err, os.ErrDeadlineExceeded) || w.Err() != nil {
		t.Errorf("after end: %v, %v", err, w.Err())
	}
}
