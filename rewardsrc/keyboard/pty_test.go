package keyboard

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"optibfm/internal/fatal"
)

// openPTY returns both ends of a new pseudo-terminal: the end of the test and that
// of the keyboard.
func openPTY(t *testing.T) (person, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	fatal.If(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	fatal.If(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	fatal.If(t, err)
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func modes(t *testing.T, terminal *os.File) unix.Termios {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	fatal.If(t, err)
	return *m
}
