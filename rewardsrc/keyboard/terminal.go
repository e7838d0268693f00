package keyboard

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoTerminal is wrapped by the errors for a file that is no terminal.
var ErrNoTerminal = errors.New("not a terminal")

// ErrBackground is wrapped by the errors for a terminal that belongs to
// another job: touching it would stop the process.
var ErrBackground = errors.New("the process runs in the background")

const (
	pasteOn  = "\x1b[?2004h" // the terminal brackets pastes
	pasteOff = "\x1b[?2004l"
	cursorOn = "\x1b[?25h"

	// patience is how long a terminal that does not read is waited for.
	patience = 100 * time.Millisecond
)

// Save notes the modes of a terminal and returns a function that restores
// them, shows the cursor and discards what was typed meanwhile. A process calls
// it before it starts a child that opens a keyboard on the same terminal, and
// restore when the child is gone, however it went. The file must stay open.
func Save(terminal *os.File) (restore func() error, err error) {
	fd := int(terminal.Fd())
	saved, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("keyboard: %s: %w (%v): give a terminal", terminal.Name(), ErrNoTerminal, err)
	}
	return func() error {
		// Flushing apart from setting: a set that waits for the output
		// to drain hangs on a terminal that stopped reading.
		flushErr := unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH)
		setErr := unix.IoctlSetTermios(fd, unix.TCSETS, saved)
		writeBriefly(fd, pasteOff+cursorOn)
		if err := errors.Join(flushErr, setErr); err != nil {
			return fmt.Errorf("keyboard: restoring %s: %w: type 'stty sane'", terminal.Name(), err)
		}
		return nil
	}, nil
}

// writeBriefly writes to a terminal but does not wait long for one that stopped
// reading; it then gives up, and a goroutine stays until the terminal goes. It
// goes around os.File, whose lock another blocked write may hold. A failure is
// not told: the modes matter, this is decoration.
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

// makeRaw lets every byte through at once, without echo and without signals.
// Output keeps its processing: what others print needs no carriage returns.
func makeRaw(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}

// checkForeground refuses a terminal that controls this session but whose
// foreground is another process group.
func checkForeground(terminal *os.File) error {
	foreground, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	if err != nil { // not the controlling terminal: nobody stops us
		return nil
	}
	if own := unix.Getpgrp(); foreground != own {
		return fmt.Errorf("keyboard: %s: %w (its group is %d, the terminal's %d): start it in the foreground", terminal.Name(), ErrBackground, own, foreground)
	}
	return nil
}
