package rtloop

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// clock is what a loop needs of time. Tests have one that they turn by hand.
type clock interface {
	now() int64            // nanoseconds
	sleepUntil(when int64) // returns at once when that has passed
}

// monotonic is CLOCK_MONOTONIC.
type monotonic struct{}

func (monotonic) now() int64            { return Now() }
func (monotonic) sleepUntil(when int64) { sleepUntil(when) }

// Now is CLOCK_MONOTONIC in nanoseconds, the time of every Beat. It does not
// run while the computer is suspended.
func Now() int64 {
	var ts unix.Timespec
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// sleepUntil returns when CLOCK_MONOTONIC has reached a time. The deadline is
// absolute, so a signal (EINTR: the Go runtime sends itself many) or a late
// wake-up cannot make the clock drift.
//
// It is a raw system call: the thread keeps its scheduler slot (its P) while
// it sleeps. An ordinary Syscall gives the slot back, at the latest after
// 10 ms, and the thread that wakes must find another one before it may run Go
// code; with every slot busy it queues. The price is that one slot is always
// taken, which is why Prepare makes sure that there are enough, and that a
// stop of the world must interrupt the sleep with a signal.
func sleepUntil(when int64) {
	ts := unix.NsecToTimespec(when)
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP,
			unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		if errno != unix.EINTR {
			return
		}
	}
}
