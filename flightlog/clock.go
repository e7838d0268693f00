package flightlog

import (
	"bytes"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/safefile"
)

// wallOffset is the wall clock minus the time since boot, in ns, when the program started.
var wallOffset = readWallOffset()

// largestJump is far above what the synchronisation of a running clock changes.
const largestJump = time.Minute

func readWallOffset() int64 {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return 0
	}
	return time.Now().UnixNano() - boot.Nano()
}

// clockSynchronised reports whether the kernel's wall clock is synchronised and has not jumped
// since the program started. The kernel ends its synchronisation when somebody sets the clock.
func clockSynchronised() bool {
	var t unix.Timex // no modes: read only
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0 &&
		time.Duration(readWallOffset()-wallOffset).Abs() < largestJump
}

// dated reports whether the wall clock was synchronised when a file of pictures began. Files of
// earlier programs do not have this.
func (l *logFile) dated() bool {
	const preamble = 256 << 10 // at most
	f, _, err := safefile.Open(l.path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	begin, err := io.ReadAll(io.LimitReader(f, preamble))
	return err == nil && bytes.Contains(begin, []byte(keySynchronised))
}
