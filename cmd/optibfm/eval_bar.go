package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"optibfm/eval"
)

// evalBar shows how far an evaluation is: on a terminal a bar that is drawn anew,
// elsewhere a line now and then. What the simulators print goes through it.
type evalBar struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	started  time.Time
	drawn    time.Time

	trials, done, before int
	steps                int    // of the trials that were run
	last                 string // of them
}

const (
	barWidth     = 24
	linesEvery   = 30 * time.Second
	clearLine    = "\r\x1b[K"
	barPrecision = time.Second
)

func newEvalBar(out io.Writer) *evalBar {
	f, ok := out.(*os.File)
	return &evalBar{out: out, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// Begin implements eval.Progress.
func (b *evalBar) Begin(trials, done int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trials, b.done, b.before = trials, done, done
	b.started = time.Now()
	b.draw()
}

// Finished implements eval.Progress.
func (b *evalBar) Finished(t eval.Trial, steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done++
	b.steps += steps
	b.last = fmt.Sprintf("%s/%s %s %s", t.Env, t.Task, t.Method, t.Params)
	if b.terminal || time.Since(b.drawn) >= linesEvery || b.done == b.trials {
		b.draw()
	}
}

// Write passes on what a simulator prints.
func (b *evalBar) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.terminal {
		fmt.Fprint(b.out, clearLine)
	}
	return b.out.Write(text)
}

func (b *evalBar) draw() {
	b.drawn = time.Now()
	line := b.line(time.Since(b.started))
	if b.terminal {
		fmt.Fprint(b.out, clearLine+line)
		return
	}
	fmt.Fprintln(b.out, line)
}

// line is the state of things after some time.
func (b *evalBar) line(elapsed time.Duration) string {
	filled := barWidth
	if b.trials > 0 {
		filled = barWidth * b.done / b.trials
	}
	line := fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), b.done, b.trials)
	now := b.done - b.before
	if now == 0 {
		return line
	}
	left := time.Duration(float64(elapsed) / float64(now) * float64(b.trials-b.done))
	return line + fmt.Sprintf("  %.0f steps/s  %v left  %s", float64(b.steps)/elapsed.Seconds(), left.Round(barPrecision), b.last)
}

func (b *evalBar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.terminal {
		fmt.Fprintln(b.out)
	}
}
