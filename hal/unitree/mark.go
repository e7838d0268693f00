package unitree

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ownerDied is FUTEX_OWNER_DIED.
const ownerDied = 0x40000000

// robustList is struct robust_list_head of the kernel: a ring with one entry.
type robustList struct {
	next    uintptr // of the entry
	offset  int     // of the futex from its entry
	pending uintptr
	entry   uintptr // the entry: next of the last one is the head
}

// hold marks a word of the segment with a thread that lives as long as this process, or until
// release. The word is a robust futex: the kernel changes it when the thread ends, for any reason.
// The others find a killed process within a cycle, before the kernel has removed its memory and
// closed its pipes. Without robust futexes (qemu-user), only the heartbeat timeout shows a death.
func hold(word *atomic.Uint64) (release func(), err error) {
	held, stop := make(chan error), make(chan struct{})
	list := new(robustList) // outside the goroutine: its stack may move, and the kernel keeps the address
	var ended sync.WaitGroup
	ended.Go(func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		head, entry := uintptr(unsafe.Pointer(list)), uintptr(unsafe.Pointer(&list.entry))
		list.next, list.entry = entry, head
		list.offset = int(uintptr(unsafe.Pointer(word)) - entry) // the futex is the lower half of the word
		word.Store(uint64(unix.Gettid()))
		err := setRobustList(head)
		if held <- err; err == nil {
			<-stop
			err = setRobustList(0) // the kernel must not follow memory that Go has freed
		}
		runtime.KeepAlive(list)
		if err == nil {
			word.Store(0)
		}
	})
	if err := <-held; err != nil {
		word.Store(0)
		return func() {}, fmt.Errorf("unitree: robust futex: %w", err)
	}
	return sync.OnceFunc(func() { close(stop); ended.Wait() }), nil
}

func setRobustList(head uintptr) error {
	const size = unsafe.Offsetof(robustList{}.entry) // of the kernel's part
	if _, _, errno := unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, head, size, 0); errno != 0 {
		return errno
	}
	return nil
}

// died reports whether the process that held a word has died.
func died(word *atomic.Uint64) bool { return word.Load()&ownerDied != 0 }

// During runs f as the process of a role. If f fails, the mark stays held and the process must end:
// the kernel then marks it dead, and the others need not wait for the heartbeat timeout.
func (s *Shared) During(role string, f func() error) error {
	release := s.Hold(role)
	err := f()
	if err == nil {
		release()
	}
	return err
}

// Hold marks the process of a role as alive in the segment. Without robust futexes it does nothing.
// Call release before you close the segment.
func (s *Shared) Hold(role string) (release func()) {
	release, err := hold(s.mark(role))
	if err != nil {
		return func() {} // the heartbeat timeout shows its death
	}
	return release
}

// Died reports whether the process of a role has died.
func (s *Shared) Died(role string) bool { return died(s.mark(role)) }

func (s *Shared) mark(role string) *atomic.Uint64 {
	switch role {
	case RolePrimary:
		return s.primaryMark
	case RoleStandby:
		return s.standbyMark
	}
	return s.controlMark
}
