package terminal

import (
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const (
	screenWidth, screenHeight = 80, 24 // the smallest full screen

	// terminalPatience is how long a terminal that does not read is waited
	// for at the end.
	terminalPatience = 250 * time.Millisecond
	// repaintEvery is how many frames something that another program wrote
	// stays on the screen.
	repaintEvery = 20
)

const (
	// The alternate screen, an invisible cursor, no wrapping of lines.
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	leaveScreen = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
	// rescueScreen is for a terminal whose program is dead: it does nothing
	// to one that was left properly but move the cursor to the last line.
	rescueScreen = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1047l\x1b[999;1H\r\n"
	// Between these a terminal that knows them shows nothing half drawn.
	beginFrame, endFrame = "\x1b[?2026h", "\x1b[?2026l"
)

// terminal takes whole frames and writes them on a goroutine of its own: where
// it falls behind, because the other end does not read, frames are lost and
// nobody waits. One goroutine uses it.
type terminal struct {
	out     io.Writer
	size    func() (w, h int, err error)
	glyphs  *glyphs
	palette *palette

	frames chan *canvas
	free   chan *canvas // those that nobody draws on, writes or compares with
	done   chan struct{}
	closed bool
}

// TakesScreen reports whether a display takes the whole terminal on standard output.
func TakesScreen(show string) bool { return show == ShowAuto && fullScreen(os.Stdout) != nil }

// fullScreen returns the terminal behind out, or nil where only lines should be
// written: no terminal, a small or a dumb one, or one that another job uses.
func fullScreen(out io.Writer) *terminal {
	f, ok := out.(*os.File)
	if !ok {
		return nil
	}
	fd := int(f.Fd())
	w, h, err := term.GetSize(fd)
	name := os.Getenv("TERM")
	if err != nil || w < screenWidth || h < screenHeight || name == "" || name == "dumb" || InBackground(fd) {
		return nil
	}
	return &terminal{
		out: f, size: func() (int, int, error) { return term.GetSize(fd) },
		glyphs: chooseGlyphs(name, os.Getenv), palette: choosePalette(name, os.Getenv),
	}
}

// InBackground reports whether another job is at the terminal.
func InBackground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}

// chooseGlyphs follows the locale; the kernel's own console lacks most glyphs.
func chooseGlyphs(terminal string, env func(string) string) *glyphs {
	locale := env("LC_ALL")
	for _, key := range []string{"LC_CTYPE", "LANG"} {
		if locale == "" {
			locale = env(key)
		}
	}
	locale = strings.ToLower(locale)
	if terminal != "linux" && (strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")) {
		return &unicodeGlyphs
	}
	return &asciiGlyphs
}

// choosePalette follows TERM and COLORTERM, and https://no-color.org.
func choosePalette(terminal string, env func(string) string) *palette {
	switch {
	case env("NO_COLOR") != "":
		return &monochrome
	case env("COLORTERM") == "truecolor", env("COLORTERM") == "24bit":
		return &trueColours
	case strings.Contains(terminal, "256color"), env("COLORTERM") != "":
		return &colours256
	}
	return &colours16
}

// start takes the terminal over.
func (t *terminal) start() {
	const frames = 3 // one drawn on, one written, one to compare with
	t.frames, t.free, t.done = make(chan *canvas, 1), make(chan *canvas, frames), make(chan struct{})
	for range frames {
		t.free <- &canvas{glyphs: t.glyphs}
	}
	go t.write()
}

// frame returns an empty canvas, or nil where the terminal is behind or has no
// size. It goes back with show.
func (t *terminal) frame() *canvas {
	w, h, err := t.size()
	if t.closed || err != nil || w < 1 || h < 1 {
		return nil
	}
	select {
	case c := <-t.free:
		c.reset(min(w, 500), min(h, 200))
		return c
	default:
		return nil
	}
}

// show hands a frame over.
func (t *terminal) show(c *canvas) {
	select {
	case t.frames <- c:
	default:
		t.free <- c // never full: it holds every canvas there is
	}
}

// Close gives the terminal back. One that does not read is left to itself.
func (t *terminal) Close() {
	if t.closed || t.frames == nil {
		return
	}
	t.closed = true
	close(t.frames)
	select {
	case <-t.done:
	case <-time.After(terminalPatience):
	}
}

// write writes frames, each at once. A terminal that is gone is noticed by
// whoever reads from it; here it means that nobody looks.
func (t *terminal) write() {
	defer close(t.done)
	_, _ = io.WriteString(t.out, enterScreen)
	var shown *canvas
	var b []byte
	for n := 0; ; n++ {
		c, ok := <-t.frames
		if !ok {
			break
		}
		old := shown
		b = append(b[:0], beginFrame...)
		if old != nil && (old.w != c.w || old.h != c.h) {
			b = append(b, "\x1b[2J"...)
			old = nil
		}
		if n%repaintEvery == 0 {
			old = nil
		}
		b = c.encode(b, old, t.palette)
		b = append(b, endFrame...)
		_, _ = t.out.Write(b)
		if shown != nil {
			t.free <- shown
		}
		shown = c
	}
	_, _ = io.WriteString(t.out, leaveScreen)
}

// RescueTerminal leaves the full screen in the place of a process that died. It
// does not wait long for a terminal that does not read.
func RescueTerminal(out io.Writer) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(out, rescueScreen)
	}()
	select {
	case <-done:
	case <-time.After(terminalPatience):
	}
}
