package rtloop

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// clock is the time source of a loop. Tests have a manual one.
type clock interface {
	now() int64            // nanoseconds
	sleepUntil(when int64) // returns at once if that has passed
}

// monotonic is CLOCK_MONOTONIC.
type monotonic struct{}

func (monotonic) now() int64            { return Now() }
func (monotonic) sleepUntil(when int64) { sleepUntil(when) }

// Now returns CLOCK_MONOTONIC in nanoseconds, the time of every Beat. It stands
// still while the computer is suspended.
func Now() int64 {
	var ts unix.Timespec
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// sleepUntil returns when CLOCK_MONOTONIC has reached a time. The deadline is
// absolute: a signal (EINTR; the Go runtime sends many) or a late wake-up cannot
// make the clock drift.
//
// It must be an ordinary system call, not a raw one: the Go scheduler considers a
// thread in a raw call to be running, and marks its goroutine for preemption after
// 10 ms of sleep.
func sleepUntil(when int64) {
	ts := unix.NsecToTimespec(when)
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) == unix.EINTR {
	}
}
