package link

import (
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Wake is an eventfd(2) with which the control process wakes one goroutine of the host process.
// A nil *Wake does nothing: both halves of a test run in one goroutine.
type Wake struct {
	fd   int
	file *os.File // of the host, in the runtime's poller; nil in the control process
	buf  [8]byte
}

// NewWake returns a new eventfd for the control process.
func NewWake() (*Wake, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("link: eventfd: %w", err)
	}
	return &Wake{fd: fd}, nil
}

// OpenWake returns the host's end of an inherited eventfd.
func OpenWake(fd uintptr) (*Wake, error) {
	if err := unix.SetNonblock(int(fd), true); err != nil {
		return nil, fmt.Errorf("link: eventfd %d: %w", fd, err)
	}
	file := os.NewFile(fd, "wake")
	if err := file.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("link: eventfd %d: %w", fd, err)
	}
	return &Wake{fd: int(fd), file: file}, nil
}

// Inheritable returns a duplicate for a child process. The caller closes it.
func (w *Wake) Inheritable() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(w.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("link: eventfd: %w", err)
	}
	return os.NewFile(uintptr(fd), "wake"), nil
}

var one = uint64(1)

// Signal wakes the host's goroutine. It neither blocks nor allocates: the counter of an eventfd holds 2^64-2
// signals. The system call does not release the goroutine's processor, so the Go scheduler cannot delay a tick.
func (w *Wake) Signal() {
	if w != nil {
		_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(w.fd), uintptr(unsafe.Pointer(&one)), 8)
	}
}

// Wait returns after the next Signal, after one since the last Wait, or after timeout.
// It must not be called by two goroutines at a time.
func (w *Wake) Wait(timeout time.Duration) {
	if err := w.file.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		time.Sleep(timeout) // closed
		return
	}
	_, _ = w.file.Read(w.buf[:]) // the only errors are the deadline and the end
}

// Close releases the descriptor.
func (w *Wake) Close() error {
	switch {
	case w == nil:
		return nil
	case w.file != nil:
		return w.file.Close()
	}
	return unix.Close(w.fd)
}
