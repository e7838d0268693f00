package terminal

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

// screenshots collects what a terminal receives.
type screenshots struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *screenshots) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

// take returns what came since the last call.
func (r *screenshots) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.buf.Reset()
	return r.buf.String()
}

func fixedSize() (w, h int, err error) { return 80, 24, nil }

func openTerminal(t *testing.T, out io.Writer, size func() (int, int, error), env map[string]string) *terminal {
	t.Helper()
	t.Setenv("LC_ALL", "C.UTF-8") // tcell reads the locale itself
	term, err := newTerminal(out, size, func(key string) string { return env[key] })
	fatal.If(t, err)
	return term
}

// waitIdle waits until the terminal accepts a frame.
func (t *terminal) waitIdle() {
	<-t.idle
	t.idle <- struct{}{}
}

// showText shows one frame with a banner and waits until it is written. It returns its size.
func (t *terminal) showText(s string) (w, h int) {
	t.waitIdle()
	c := t.frame()
	c.shade(0, 1, numShades)
	c.text(0, 0, inkAskBanner, s)
	w, h = c.w, c.h
	t.show(false)
	t.waitIdle()
	return w, h
}

func TestTerminal_RestoresScreenWithoutChangingInput(t *testing.T) {
	out := &screenshots{}
	term := openTerminal(t, out, fixedSize, nil)
	term.Close() // before the start
	if got := out.take(); got != "" {
		t.Errorf("Close before the start wrote %q", got)
	}
	term.start()
	term.showText("hello")
	term.Close()
	term.Close()
	got := out.take()
	for set, reset := range map[string]string{
		"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h", "\x1b[?7l": "\x1b[?7h", beginUpdate: endUpdate,
	} {
		first, last := strings.Index(got, set), strings.LastIndex(got, reset)
		if first < 0 || last < first || strings.LastIndex(got, set) > last {
			t.Errorf("%q is not restored by %q in %q", set, reset, got)
		}
	}
	for _, input := range []string{"\x1b=", "\x1b[?1h", "\x1b[?2004", "\x1b[?1000", "\x1b[?1004", "\x1b[?1006"} {
		if strings.Contains(got, input) {
			t.Errorf("%q changes the input", input)
		}
	}
}

func TestTerminal_WritesDifferencesAndRepaints(t *testing.T) {
	out := &screenshots{}
	term := openTerminal(t, out, fixedSize, nil)
	term.start()
	defer term.Close()
	for n := range repaintEvery + 1 {
		term.showText("hello")
		want := n == 0 || n == repaintEvery-1
		if got := out.take(); strings.Contains(got, "hello") != want {
			t.Errorf("frame %d: all written: %t, want %t", n, !want, want)
		}
	}
}

func TestTerminal_FollowsWindowSize(t *testing.T) {
	var width atomic.Int64
	width.Store(80)
	size := func() (int, int, error) { return int(width.Load()), 24, nil }
	term := openTerminal(t, io.Discard, size, nil)
	term.start()
	defer term.Close()
	for _, c := range []struct{ window, want int }{{80, 80}, {120, 120}, {40, 40}, {0, 40}, {1 << 20, maxWidth}} {
		width.Store(int64(c.window))
		term.showText("the frame that finds the new size")
		if w, h := term.showText("hello"); w != c.want || h != 24 {
			t.Errorf("window of %d columns: %d x %d, want %d x 24", c.window, w, h, c.want)
		}
	}
}

func TestTerminal_ChoosesGlyphsAndColours(t *testing.T) {
	const banner256, banner16, bannerMono = "\x1b[38;5;16;48;5;221m", "\x1b[30;43m", "\x1b[1m\x1b[7mhello"
	colour := regexp.MustCompile(`\x1b\[(3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m`)
	type env = map[string]string
	for _, c := range []struct {
		env     env
		glyphs  *glyphs
		colours int
		banner  string
	}{
		{env{"TERM": "xterm-256color", "LANG": "de_DE.UTF-8"}, &unicodeGlyphs, 256, banner256},
		{env{"TERM": "xterm", "LANG": "en_US.utf8", "COLORTERM": "truecolor"}, &unicodeGlyphs, trueColour, banner256},
		{env{"TERM": "xterm", "LANG": "en_US.UTF-8", "LC_ALL": "C", "NO_COLOR": "1"}, &asciiGlyphs, 0, bannerMono},
		{env{"TERM": "linux", "LANG": "en_US.UTF-8"}, &asciiGlyphs, 16, banner16},
		{env{"TERM": "vt220"}, &asciiGlyphs, 16, banner16},
	} {
		out := &screenshots{}
		term := openTerminal(t, out, fixedSize, c.env)
		if term.canvas.glyphs != c.glyphs {
			t.Errorf("%v: wrong glyphs", c.env)
		}
		term.start()
		term.showText("hello")
		term.Close()
		got := out.take()
		if !strings.Contains(got, c.banner) {
			t.Errorf("%v: no %q in %q", c.env, c.banner, got)
		}
		if rgb := strings.Contains(got, "\x1b[48;2;70;60;36m"); rgb != (c.colours == trueColour) {
			t.Errorf("%v: RGB colours: %t in %q", c.env, rgb, got)
		}
		if shaded := strings.Contains(got, "\x1b[48;"); shaded != (c.colours >= 256) {
			t.Errorf("%v: shades: %t in %q", c.env, shaded, got)
		}
		if c.colours == 0 && colour.MatchString(got) {
			t.Errorf("%v: a colour in %q", c.env, got)
		}
	}
}

// blockingWriter blocks from block on until release is closed.
type blockingWriter struct {
	block   atomic.Bool
	release chan struct{}
}

func (w *blockingWriter) Write(p []byte) (int, error) {
	if w.block.Load() {
		<-w.release
	}
	return len(p), nil
}

func TestTerminal_DropsFramesWhileOutputBlocks(t *testing.T) {
	for want, blockedFromStart := range []bool{true, false} {
		out := &blockingWriter{release: make(chan struct{})}
		out.block.Store(blockedFromStart)
		term := openTerminal(t, out, fixedSize, nil)
		term.start()
		if !blockedFromStart {
			term.waitIdle()
			out.block.Store(true)
		}
		accepted := 0
		for range 100 { // a method that waits hangs here
			if c := term.frame(); c != nil {
				accepted++
				term.show(false)
			}
		}
		if accepted != want {
			t.Errorf("blocked from the start: %t: accepted %d frames, want %d", blockedFromStart, accepted, want)
		}
		term.Close()
		close(out.release)
		<-term.done
		if term.frame() != nil {
			t.Error("a closed terminal accepts frames")
		}
	}
}

func TestRescueTerminal_DoesNotWaitForBlockedOutput(t *testing.T) {
	out := &blockingWriter{release: make(chan struct{})}
	defer close(out.release)
	out.block.Store(true)
	RescueTerminal(out) // hangs if it waits
}

func TestRescueTerminal_LeavesScreen(t *testing.T) {
	out := &screenshots{}
	RescueTerminal(out)
	got := out.take()
	for _, want := range []string{"\x1b[?1047l", "\x1b[?25h", "\x1b[?7h"} {
		rigtest.Contains(t, got, want)
	}
}
