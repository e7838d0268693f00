// Package serialtest provides a serial line without hardware: a pseudo-terminal, or, with
// OPTIBFM_VM in the environment, two USB adapters with their lines crossed. The driver opens one
// end as its port; the test, or a fake device, holds the far end.
package serialtest

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Line is the far end of a serial line. Several goroutines may use it.
type Line struct {
	*os.File        // reads what the port writes, and writes what it reads
	Path     string // of the near end, for serial.Config

	near int // keeps the near end alive while no port has it open
	once sync.Once
	pair *pair // of adapters
}

// Open creates a line.
func Open() (*Line, error) {
	if os.Getenv("OPTIBFM_VM") != "" {
		return openAdapters()
	}
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("serialtest: %w", err)
	}
	l, err := connect(far)
	if err != nil {
		_ = far.Close()
		return nil, fmt.Errorf("serialtest: %w", err)
	}
	return l, nil
}

func connect(far *os.File) (*Line, error) {
	raw, err := far.SyscallConn()
	if err != nil {
		return nil, err
	}
	var number int
	var unlockErr, numberErr error
	err = raw.Control(func(fd uintptr) {
		unlockErr = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		number, numberErr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	})
	for _, e := range []error{err, unlockErr, numberErr} {
		if e != nil {
			return nil, e
		}
	}
	l := &Line{File: far, Path: fmt.Sprintf("/dev/pts/%d", number)}
	l.near, err = unix.Open(l.Path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return l, disableEcho(l.near)
}

// disableEcho disables the echo that is on before a port configures the line.
func disableEcho(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}

// Close hangs the line up, as unplugging an adapter does.
func (l *Line) Close() error {
	var err error
	l.once.Do(func() {
		if l.pair != nil {
			err = errors.Join(l.File.Close(), l.pair.unplug())
			return
		}
		err = l.File.Close()
		_ = unix.Close(l.near)
	})
	return err
}
