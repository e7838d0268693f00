package terminal

import (
	"io"
	"time"
)

// LineWriter passes lines on to a writer that may stop, such as a paused
// terminal or pager, without ever waiting for it: what it does not take is
// lost. The recorder writes through it, and must not stand still because
// nobody reads. One goroutine uses it.
type LineWriter struct {
	lines  chan []byte
	done   chan struct{}
	closed bool
}

// NewLineWriter starts writing to out.
func NewLineWriter(out io.Writer) *LineWriter {
	w := &LineWriter{lines: make(chan []byte, 64), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for line := range w.lines {
			_, _ = out.Write(line) // a reader that is gone misses nothing that is not in the log
		}
	}()
	return w
}

// Write implements io.Writer. It keeps a copy of p.
func (w *LineWriter) Write(p []byte) (int, error) {
	if w.closed {
		return 0, io.ErrClosedPipe
	}
	select {
	case w.lines <- append([]byte(nil), p...):
	default:
	}
	return len(p), nil
}

// Close waits until everything is written, but not for a reader that has
// stopped.
func (w *LineWriter) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	close(w.lines)
	select {
	case <-w.done:
	case <-time.After(terminalPatience):
	}
	return nil
}
