package terminal

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/gdamore/tcell/v2/terminfo"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const (
	screenWidth, screenHeight = 80, 24 // the smallest full screen
	maxWidth, maxHeight       = 500, 200

	// closeTimeout bounds the wait of Close for a terminal that accepts no output.
	closeTimeout = 250 * time.Millisecond
	// repaintEvery is the number of frames after which the whole screen is written, which removes
	// the output of other programs.
	repaintEvery = 20

	// rescueScreen shows the cursor, wraps lines again and leaves the alternate screen. On a
	// terminal that was restored it only moves the cursor to the last line.
	rescueScreen = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1047l\x1b[999;1H\r\n"
	// A terminal with synchronized output shows what comes between these at once.
	beginUpdate, endUpdate = "\x1b[?2026h", "\x1b[?2026l"
)

// terminal shows frames. A goroutine writes them; while it writes, frame returns nil and the caller
// drops its frame. The caller uses one goroutine.
type terminal struct {
	screen tcell.Screen
	canvas canvas

	idle   chan struct{} // holds a token while the caller may draw
	frames chan bool     // true: with a bell
	done   chan struct{}
	closed bool
}

// TakesScreen reports whether a display with this name uses the whole terminal on standard output.
func TakesScreen(show string) bool { return show == ShowAuto && hasFullScreen(os.Stdout) }

// hasFullScreen reports whether out is a terminal of at least 80 x 24, TERM is neither empty nor
// dumb, and this job is in the foreground.
func hasFullScreen(out *os.File) bool {
	w, h, err := term.GetSize(int(out.Fd()))
	name := os.Getenv("TERM")
	return err == nil && w >= screenWidth && h >= screenHeight && name != "" && name != "dumb" &&
		!InBackground(int(out.Fd()))
}

// InBackground reports whether another job is in the foreground of the terminal.
func InBackground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}

// newTerminal returns the terminal behind out, which env describes. It writes nothing yet. It uses
// the output sequences of xterm, which all present terminals accept, without those that change the
// input: keypad mode, mouse, focus and paste belong to the keyboard source.
func newTerminal(out io.Writer, size func() (w, h int, err error), env func(string) string) (*terminal, error) {
	name, colours := "xterm-256color", countColours(env)
	if colours == trueColour {
		name = "xterm-truecolor"
	}
	known, err := terminfo.LookupTerminfo(name)
	if err != nil {
		return nil, fmt.Errorf("terminal: %s: %w", name, err)
	}
	xterm := *known
	xterm.Name, xterm.XTermLike, xterm.Mouse, xterm.EnterKeypad, xterm.ExitKeypad = "", false, "", "", ""
	xterm.Colors = min(colours, 256)
	if colours != trueColour {
		xterm.SetFgRGB, xterm.SetBgRGB, xterm.SetFgBgRGB = "", "", ""
	}
	tcell.SetEncodingFallback(tcell.EncodingFallbackASCII) // for a locale that tcell does not support
	screen, err := tcell.NewTerminfoScreenFromTtyTerminfo(&tty{out, size, make(chan struct{})}, &xterm)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	return &terminal{screen: screen, canvas: canvas{glyphs: chooseGlyphs(env), palette: newPalette(colours)}}, nil
}

// tty is the output of a terminal. tcell reads no key from it.
type tty struct {
	out   io.Writer
	size  func() (w, h int, err error)
	ended chan struct{}
}

func (t *tty) Start() error        { return nil }
func (t *tty) Stop() error         { return nil }
func (t *tty) Close() error        { return nil }
func (t *tty) NotifyResize(func()) {} // tcell asks for the size before each frame

// Drain ends Read. tcell calls it once.
func (t *tty) Drain() error {
	close(t.ended)
	return nil
}

// Read blocks until the screen ends.
func (t *tty) Read([]byte) (int, error) {
	<-t.ended
	return 0, io.EOF
}

func (t *tty) Write(p []byte) (int, error) {
	b := append(append([]byte(beginUpdate), p...), endUpdate...)
	if _, err := t.out.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (t *tty) WindowSize() (tcell.WindowSize, error) {
	w, h, err := t.size()
	if err == nil && (w < 1 || h < 1) {
		err = fmt.Errorf("terminal: invalid size (found %d x %d)", w, h)
	}
	return tcell.WindowSize{Width: min(w, maxWidth), Height: min(h, maxHeight)}, err
}

// start starts the goroutine that writes frames.
func (t *terminal) start() {
	t.idle, t.frames, t.done = make(chan struct{}, 1), make(chan bool, 1), make(chan struct{})
	go t.write()
}

// frame returns an empty canvas, or nil while the terminal does not accept one. The caller draws on
// it and calls show.
func (t *terminal) frame() *canvas {
	if t.closed {
		return nil
	}
	select {
	case <-t.idle:
		t.canvas.clear(t.screen.Size())
		return &t.canvas
	default:
		return nil
	}
}

// show passes the frame to that goroutine. bell adds a bell.
func (t *terminal) show(bell bool) { t.frames <- bell }

// Close restores the terminal. It does not wait long for a terminal that does not read.
func (t *terminal) Close() {
	if t.closed || t.frames == nil {
		return
	}
	t.closed = true
	close(t.frames)
	waitBriefly(t.done)
}

// write sets the terminal up, writes frames and restores the terminal. Errors of the terminal do
// not matter here: the keyboard source reports a lost terminal.
func (t *terminal) write() {
	defer close(t.done)
	if err := t.screen.Init(); err != nil {
		return // no token: the caller never draws
	}
	t.idle <- struct{}{}
	n := 0
	for bell := range t.frames {
		if n++; n%repaintEvery == 0 {
			t.screen.LockRegion(0, 0, maxWidth, maxHeight, false) // marks every cell as changed
		}
		if bell {
			_ = t.screen.Beep()
		}
		t.canvas.copyTo(t.screen)
		t.screen.Show()
		t.idle <- struct{}{}
	}
	t.screen.Fini()
}

// RescueTerminal restores the terminal after the death of the process that used the full screen. It
// does not wait long for a terminal that accepts no output.
func RescueTerminal(out io.Writer) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(out, rescueScreen)
	}()
	waitBriefly(done)
}

func waitBriefly(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(closeTimeout):
	}
}
