package recording

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// watched shows the progress while work runs: once a second on a terminal, elsewhere every ten.
func (s *session) watched(w io.Writer, work func() error) error {
	every, begin, end := 10*time.Second, "", "\n"
	f, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(f.Fd()))
	if terminal {
		every, begin, end = time.Second, "\r\x1b[K", ""
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	over := make(chan struct{})
	shown := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(shown)
		for {
			select {
			case <-over:
				if terminal {
					fmt.Fprintln(w)
				}
				return
			case <-ticker.C:
				fmt.Fprint(w, begin, progressLine(int(s.recorder.count.Load()), s.config.Transitions, time.Since(start)), end)
			}
		}
	}()
	defer func() { close(over); <-shown }()
	return work()
}

// progressLine describes how far a recording is after some time.
func progressLine(done, total int, passed time.Duration) string {
	rate := float64(done) / passed.Seconds()
	left := "?"
	if rate > 0 {
		seconds := int(float64(total-done) / rate)
		left = fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
	}
	return fmt.Sprintf("%d of %d transitions, %.0f/s, %s left", done, total, rate, left)
}
