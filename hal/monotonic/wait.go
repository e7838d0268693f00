// Package monotonic reads CLOCK_MONOTONIC and waits on file descriptors until a moment on that
// clock. Drivers use it on the control thread: it allocates nothing and starts no goroutine.
//
//	deadline := monotonic.After(3 * time.Millisecond)
//	ready, err := waiter.Wait(fd, unix.POLLIN, deadline)
package monotonic

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns CLOCK_MONOTONIC in nanoseconds.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux kernel has this clock
	}
	return t.Nano()
}

// After returns the moment d from now.
func After(d time.Duration) int64 { return Now() + int64(d) }

// interruptEvery is the longest time that Wait blocks between two looks at the context.
const interruptEvery = 50 * time.Millisecond

// Waiter waits on one file descriptor at a time. The zero value is ready to use.
type Waiter struct {
	ctx     context.Context // while a device is being opened; nil: waits end at their deadline only
	poll    [1]unix.PollFd
	timeout unix.Timespec
}

// Interrupt makes Wait and Err return ctx.Err() within 50 ms after ctx ends, until end is called.
// It is for opening a device, which may take seconds, and not for a tick.
func (w *Waiter) Interrupt(ctx context.Context) (end func()) {
	w.ctx = ctx
	return func() { w.ctx = nil }
}

// Err returns the error of the context given to Interrupt, if it has ended.
func (w *Waiter) Err() error {
	if w.ctx == nil {
		return nil
	}
	return w.ctx.Err()
}

// Wait blocks until fd is ready for one of the events or has failed, and returns poll(2)'s revents.
// The error is os.ErrDeadlineExceeded, the context's, or the kernel's.
func (w *Waiter) Wait(fd int, events int16, deadline int64) (revents int16, err error) {
	for {
		if err := w.Err(); err != nil {
			return 0, err
		}
		left := max(deadline-Now(), 0)
		timeout := left
		if w.ctx != nil {
			timeout = min(left, int64(interruptEvery))
		}
		w.poll[0] = unix.PollFd{Fd: int32(fd), Events: events}
		w.timeout = unix.NsecToTimespec(timeout)
		n, err := unix.Ppoll(w.poll[:], &w.timeout, nil)
		switch {
		case n > 0:
			return w.poll[0].Revents, nil
		case err != nil && err != unix.EINTR:
			return 0, err
		case left == 0:
			return 0, os.ErrDeadlineExceeded
		}
	}
}
