package ipc

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Wake is a word of the segment with which the control process wakes one goroutine of the host
// process (futex(2)). The two processes share no descriptor for it: the status flags of a shared
// descriptor, such as O_NONBLOCK, belong to both, so the host could make a system call of the
// control thread block. The kernel compares the low half of the word, at its address: amd64 and
// arm64 are little-endian.
type Wake struct {
	word *atomic.Uint64 // number of signals
	seen uint32         // by Wait
}

// Signal wakes the host's goroutine. It neither blocks nor allocates, for any value that the host
// writes to the word. The system call does not release the goroutine's processor, so the Go
// scheduler cannot delay a tick.
func (w *Wake) Signal() {
	w.word.Add(1)
	_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w.word)), futexWake, 1)
}

// Operations of futex(2) on memory that processes share.
const (
	futexWait = 0
	futexWake = 1
)

// Wait returns after the next Signal, after one since the last Wait, or after timeout. A signal of
// the operating system may end it earlier. It must not be called by two goroutines at a time.
func (w *Wake) Wait(timeout time.Duration) {
	if now := uint32(w.word.Load()); now != w.seen {
		w.seen = now
		return
	}
	limit := unix.NsecToTimespec(int64(max(timeout, 0)))
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w.word)), futexWait, uintptr(w.seen),
		uintptr(unsafe.Pointer(&limit)), 0, 0)
	w.seen = uint32(w.word.Load())
}
