package eval

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// progressBar shows the progress of a run: a bar on a terminal, otherwise a line every
// 30 s. The output of the simulators goes through it.
type progressBar struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	jobs     int

	begun, drawn time.Time
	trials, done int
	steps        int            // of the finished trials
	remaining    map[string]int // trials by kind
	took         map[string]*average
	all          average
	last         string // the trial that ended last
}

// average is the mean of some durations.
type average struct {
	sum time.Duration
	n   int
}

func (a *average) add(d time.Duration) { a.sum, a.n = a.sum+d, a.n+1 }

func (a *average) mean() time.Duration { return a.sum / time.Duration(max(1, a.n)) }

const (
	barWidth     = 24
	lineInterval = 30 * time.Second
	clearLine    = "\r\x1b[K"
)

func newProgressBar(out io.Writer, jobs int) *progressBar {
	f, ok := out.(*os.File)
	return &progressBar{
		out: out, terminal: ok && term.IsTerminal(int(f.Fd())), jobs: jobs,
		remaining: map[string]int{}, took: map[string]*average{},
	}
}

// kind names the trials that take about as long as t.
func kind(t Trial) string { return t.Env + " " + t.Method + " " + t.Params }

// Begin implements Progress.
func (b *progressBar) Begin(todo []Trial, done int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trials, b.done, b.begun = len(todo)+done, done, time.Now()
	for _, t := range todo {
		b.remaining[kind(t)]++
	}
	b.draw()
}

// Finished implements Progress.
func (b *progressBar) Finished(t Trial, steps int, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done++
	b.steps += steps
	b.last = fmt.Sprintf("%s %s %s %s", t.Env, t.Task, t.Method, t.Params)
	b.remaining[kind(t)]--
	if b.took[kind(t)] == nil {
		b.took[kind(t)] = &average{}
	}
	b.took[kind(t)].add(took)
	b.all.add(took)
	if b.terminal || time.Since(b.drawn) >= lineInterval || b.done == b.trials {
		b.draw()
	}
}

// Write prints the output of a simulator.
func (b *progressBar) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.terminal {
		fmt.Fprint(b.out, clearLine)
	}
	return b.out.Write(text)
}

func (b *progressBar) draw() {
	b.drawn = time.Now()
	line := b.line(b.drawn.Sub(b.begun))
	if b.terminal {
		fmt.Fprint(b.out, clearLine+line)
		return
	}
	fmt.Fprintln(b.out, line)
}

// line is the state after some time.
func (b *progressBar) line(elapsed time.Duration) string {
	filled := barWidth
	if b.trials > 0 {
		filled = barWidth * b.done / b.trials
	}
	line := fmt.Sprintf("[%s%s] %d/%d trials",
		strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), b.done, b.trials)
	if b.all.n == 0 {
		return line
	}
	return fmt.Sprintf("%s  %.0f steps/s  %v left  %s",
		line, float64(b.steps)/elapsed.Seconds(), b.timeLeft().Round(time.Second), b.last)
}

// timeLeft estimates the time of the remaining trials from finished trials of the same
// kind, or from all finished trials.
func (b *progressBar) timeLeft() time.Duration {
	var sum time.Duration
	for kind, n := range b.remaining {
		each := b.all.mean()
		if a := b.took[kind]; a != nil {
			each = a.mean()
		}
		sum += time.Duration(n) * each
	}
	return sum / time.Duration(b.jobs)
}

func (b *progressBar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.terminal {
		fmt.Fprintln(b.out)
	}
}
