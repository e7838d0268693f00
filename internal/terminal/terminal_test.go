package terminal

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// recorder collects what a terminal receives.
type recorder struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// take returns what came since the last call.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.buf.Reset()
	return r.buf.String()
}

func fixedSize(w, h int) func() (int, int, error) {
	return func() (int, int, error) { return w, h, nil }
}

// openTerminal returns a terminal with an environment of keys and values.
func openTerminal(t *testing.T, out io.Writer, size func() (int, int, error), env ...string) *terminal {
	t.Helper()
	term, err := newTerminal(out, size, func(key string) string {
		for i := 0; i < len(env); i += 2 {
			if env[i] == key {
				return env[i+1]
			}
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LC_ALL", "C.UTF-8") // tcell reads the locale itself
	return term
}

// waitIdle waits until the terminal accepts a frame.
func (t *terminal) waitIdle() {
	<-t.idle
	t.idle <- struct{}{}
}

// showText draws one frame with a text and waits until the terminal has it.
func (t *terminal) showText(s string) {
	t.waitIdle()
	c := t.frame()
	c.text(0, 0, inkAskBanner, s)
	t.show(false)
	t.waitIdle()
}

func TestTerminal_RestoresScreenWithoutTouchingInput(t *testing.T) {
	out := &recorder{}
	term := openTerminal(t, out, fixedSize(80, 24), "TERM", "xterm-256color")
	term.Close() // before the start
	if got := out.take(); got != "" {
		t.Errorf("Close before the start wrote %q", got)
	}
	term.start()
	term.showText("hello")
	term.Close()
	term.Close()
	if term.frame() != nil {
		t.Error("a closed terminal accepts frames")
	}
	got := out.take()
	for _, pair := range [][2]string{{"\x1b[?1049h", "\x1b[?1049l"}, {"\x1b[?25l", "\x1b[?25h"}, {"\x1b[?7l", "\x1b[?7h"}, {beginUpdate, endUpdate}} {
		set, reset := strings.Index(got, pair[0]), strings.LastIndex(got, pair[1])
		if set < 0 || reset < set || strings.LastIndex(got, pair[0]) > reset {
			t.Errorf("%q is not restored by %q in %q", pair[0], pair[1], got)
		}
	}
	for _, input := range []string{"\x1b=", "\x1b[?1h", "\x1b[?2004", "\x1b[?1000", "\x1b[?1004", "\x1b[?1006"} {
		if strings.Contains(got, input) {
			t.Errorf("%q changes the input", input)
		}
	}
}

func TestTerminal_WritesDifferencesAndRepaints(t *testing.T) {
	out := &recorder{}
	term := openTerminal(t, out, fixedSize(80, 24), "TERM", "xterm")
	term.start()
	defer term.Close()
	term.showText("hello")
	whole := len(out.take())
	for n := 2; n <= repaintEvery; n++ {
		term.showText("hello")
		got := out.take()
		if repaint := strings.Contains(got, "hello"); repaint != (n == repaintEvery) {
			t.Errorf("frame %d: %d bytes after a first frame of %d bytes", n, len(got), whole)
		}
	}
}

func TestTerminal_FollowsWindowSize(t *testing.T) {
	var width atomic.Int64
	width.Store(80)
	term := openTerminal(t, io.Discard, func() (int, int, error) { return int(width.Load()), 24, nil }, "TERM", "xterm")
	term.start()
	defer term.Close()
	for _, c := range []struct{ window, want int }{{80, 80}, {120, 120}, {40, 40}, {0, 40}, {1 << 20, maxWidth}} {
		width.Store(int64(c.window))
		term.showText("hello")
		if got := term.frame(); got.w != c.want || got.h != 24 {
			t.Errorf("window of %d columns: %d x %d, want %d x 24", c.window, got.w, got.h, c.want)
		}
		term.show(false)
	}
}

func TestTerminal_ChoosesGlyphsAndColours(t *testing.T) {
	const banner256, banner16 = "\x1b[38;5;16;48;5;221m", "\x1b[30;43m"
	colour := regexp.MustCompile(`\x1b\[(3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m`)
	for _, c := range []struct {
		env     []string
		glyphs  *glyphs
		colours int
		banner  string // of a question
	}{
		{[]string{"TERM", "xterm-256color", "LANG", "de_DE.UTF-8"}, &unicodeGlyphs, 256, banner256},
		{[]string{"TERM", "xterm", "LANG", "en_US.utf8", "COLORTERM", "truecolor"}, &unicodeGlyphs, trueColour, banner256},
		{[]string{"TERM", "xterm", "LANG", "en_US.UTF-8", "LC_ALL", "C", "NO_COLOR", "1"}, &asciiGlyphs, 0, "\x1b[1m\x1b[7m"},
		{[]string{"TERM", "linux", "LANG", "en_US.UTF-8"}, &asciiGlyphs, 16, banner16},
		{[]string{"TERM", "vt220"}, &asciiGlyphs, 16, banner16},
	} {
		out := &recorder{}
		term := openTerminal(t, out, fixedSize(80, 24), c.env...)
		if term.canvas.glyphs != c.glyphs {
			t.Errorf("%v: wrong glyphs", c.env)
		}
		if shaded := term.canvas.palette.shaded; shaded != (c.colours >= 256) {
			t.Errorf("%v: shaded %t", c.env, shaded)
		}
		term.start()
		term.waitIdle()
		canvas := term.frame()
		canvas.shade(0, 1, numShades)
		canvas.text(0, 0, inkAskBanner, "hello")
		term.show(false)
		term.Close()
		got := out.take()
		if !strings.Contains(got, c.banner) {
			t.Errorf("%v: no %q in %q", c.env, c.banner, got)
		}
		if rgb := strings.Contains(got, "48;2;70;60;36m"); rgb != (c.colours == trueColour) {
			t.Errorf("%v: true colours: %t in %q", c.env, rgb, got)
		}
		if c.colours == 0 && colour.MatchString(got) {
			t.Errorf("%v: a colour in %q", c.env, got)
		}
	}
}

// blockingWriter blocks after its gate is closed, until release is closed.
type blockingWriter struct {
	blocked atomic.Bool
	release chan struct{}
}

func (w *blockingWriter) Write(p []byte) (int, error) {
	if w.blocked.Load() {
		<-w.release
	}
	return len(p), nil
}

func TestTerminal_DropsFramesWhileOutputBlocks(t *testing.T) {
	for _, fromStart := range []bool{true, false} {
		out := &blockingWriter{release: make(chan struct{})}
		term := openTerminal(t, out, fixedSize(80, 24), "TERM", "xterm")
		out.blocked.Store(fromStart)
		term.start()
		if !fromStart {
			term.showText("hello")
		}
		out.blocked.Store(true)
		accepted := 0
		for i := range 100 { // a method that waits hangs here
			if c := term.frame(); c != nil {
				accepted++
				c.set(i%80, 0, inkPlain, 'x')
				term.show(false)
			}
		}
		want := 1
		if fromStart {
			want = 0
		}
		if accepted != want {
			t.Errorf("blocked from the start: %t: accepted %d frames, want %d", fromStart, accepted, want)
		}
		term.Close()
		if term.frame() != nil {
			t.Error("a closed terminal accepts frames")
		}
		close(out.release)
		<-term.done
	}
}

func TestRescueTerminal_DoesNotWaitForBlockedOutput(t *testing.T) {
	out := &blockingWriter{release: make(chan struct{})}
	defer close(out.release)
	out.blocked.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		RescueTerminal(out)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute): // hang guard
		t.Fatal("RescueTerminal waits for a terminal that does not read")
	}
	var free recorder
	RescueTerminal(&free)
	if got := free.take(); got != rescueScreen {
		t.Errorf("wrote %q", got)
	}
}
