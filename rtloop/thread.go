package rtloop

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Stall describes a watched thread without progress.
type Stall struct {
	For time.Duration // without progress
	// Looks is the number of times that the watchdog read the state of the
	// thread from the kernel, in the second half of that time. Runnable is how
	// often the thread was running or ready to run. A thread that is stuck in
	// a system call is neither.
	Looks, Runnable int
}

// String returns the time and the state of the thread.
func (s Stall) String() string {
	text := s.For.Round(time.Millisecond).String()
	switch {
	case s.Looks == 0:
		return text
	case s.Runnable == 0:
		return text + ", waiting in a system call"
	case s.Runnable == s.Looks:
		return text + ", computing or ready without a processor"
	}
	return fmt.Sprintf("%s, computing or ready without a processor in %d of %d looks, "+
		"waiting in a system call in the others", text, s.Runnable, s.Looks)
}

// threadStat is the open file /proc/.../stat of a thread; nil: unknown.
type threadStat struct{ file *os.File }

func openThreadStat() *threadStat {
	f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/stat", unix.Gettid()))
	if err != nil {
		return nil // only a message needs it
	}
	return &threadStat{f}
}

// runnable reports whether the thread is running or ready to run, and whether its
// state is known.
func (t *threadStat) runnable() (yes, known bool) {
	if t == nil {
		return false, false
	}
	var buf [256]byte
	n, err := t.file.ReadAt(buf[:], 0)
	if n == 0 && err != nil {
		return false, false
	}
	// The state follows the name, which may contain anything, in parentheses.
	end := bytes.LastIndexByte(buf[:n], ')')
	if end < 0 || end+2 >= n {
		return false, false
	}
	return buf[end+2] == 'R', true
}

func (t *threadStat) close() {
	if t != nil {
		_ = t.file.Close()
	}
}
