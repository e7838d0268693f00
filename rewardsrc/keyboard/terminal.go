package keyboard

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoTerminal is wrapped by the errors for a file that is not a terminal.
var ErrNoTerminal = errors.New("not a terminal")

// ErrBackground is wrapped by the errors for a terminal that belongs to
// another job: touching it would stop the process.
var ErrBackground = errors.New("the process runs in the background")

const (
	pasteOn  = "\x1b[?2004h" // the terminal brackets pastes
	pasteOff = "\x1b[?2004l"
	cursorOn = "\x1b[?25h"

	// patience is the longest wait for a terminal that does not read.
	patience = 100 * time.Millisecond
)

// Save returns a function that restores the current modes of a terminal, shows
// the cursor and discards pending input. A process calls Save before it starts
// a child that opens a keyboard on the same terminal, and restore when the
// child has ended for any reason. The file must stay open.
func Save(terminal *os.File) (restore func() error, err error) {
	fd := int(terminal.Fd())
	saved, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("keyboard: %s: %w (%v); use a terminal", terminal.Name(), ErrNoTerminal, err)
	}
	return func() error {
		// TCSETSF would wait for the output to drain, and hang on a
		// terminal that stopped reading.
		flushErr := unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH)
		setErr := unix.IoctlSetTermios(fd, unix.TCSETS, saved)
		writeBriefly(fd, pasteOff+cursorOn)
		if err := errors.Join(flushErr, setErr); err != nil {
			return fmt.Errorf("keyboard: restoring %s: %w; type 'stty sane'", terminal.Name(), err)
		}
		return nil
	}, nil
}

// writeBriefly writes to a terminal and gives up after patience; its goroutine
// then stays until the terminal goes. It bypasses os.File, because another
// blocked write may hold the lock of the file. It ignores errors: only the
// modes matter.
func writeBriefly(fd int, s string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = unix.Write(fd, []byte(s))
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// makeRaw delivers every byte at once, without echo and, unless signals is true, without
// signals. Output processing stays on, so that other output needs no carriage returns.
func makeRaw(fd int, signals bool) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	if signals {
		t.Lflag |= unix.ISIG
	}
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}

// checkForeground returns an error for the controlling terminal of this session
// when another process group is in the foreground.
func checkForeground(terminal *os.File) error {
	foreground, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	if err != nil { // not the controlling terminal: no job control
		return nil
	}
	if own := unix.Getpgrp(); foreground != own {
		return fmt.Errorf("keyboard: %s: %w (group %d, foreground group %d); start it in the foreground",
			terminal.Name(), ErrBackground, own, foreground)
	}
	return nil
}
