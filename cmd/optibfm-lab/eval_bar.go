package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"optibfm/lab/eval"
)

// evalBar shows how far an evaluation is: on a terminal a bar that is drawn anew,
// elsewhere a line now and then. What the simulators print goes through it.
type evalBar struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	jobs     int

	begun, drawn time.Time
	trials, done int
	steps        int            // of the trials that were run
	left         map[string]int // trials to be run, by what they cost
	took         map[string]*average
	all          average
	last         string // the trial that ended last
}

// average is that of some durations.
type average struct {
	sum time.Duration
	n   int
}

func (a *average) Add(d time.Duration) { a.sum, a.n = a.sum+d, a.n+1 }

func (a *average) mean() time.Duration { return a.sum / time.Duration(max(1, a.n)) }

const (
	barWidth   = 24
	linesEvery = 30 * time.Second
	clearLine  = "\r\x1b[K"
)

func newEvalBar(out io.Writer, jobs int) *evalBar {
	f, ok := out.(*os.File)
	return &evalBar{
		out: out, terminal: ok && term.IsTerminal(int(f.Fd())), jobs: jobs,
		left: map[string]int{}, took: map[string]*average{},
	}
}

// costs names the trials that take about as long as t.
func costs(t eval.Trial) string { return t.Env + " " + t.Method + " " + t.Params }

// Begin implements eval.Progress.
func (b *evalBar) Begin(todo []eval.Trial, done int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trials, b.done, b.begun = len(todo)+done, done, time.Now()
	for _, t := range todo {
		b.left[costs(t)]++
	}
	b.draw()
}

// Finished implements eval.Progress.
func (b *evalBar) Finished(t eval.Trial, steps int, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done++
	b.steps += steps
	b.last = fmt.Sprintf("%s %s %s %s", t.Env, t.Task, t.Method, t.Params)
	b.left[costs(t)]--
	if b.took[costs(t)] == nil {
		b.took[costs(t)] = &average{}
	}
	b.took[costs(t)].Add(took)
	b.all.Add(took)
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
	line := b.line(b.drawn.Sub(b.begun))
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
	line := fmt.Sprintf("[%s%s] %d/%d trials", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), b.done, b.trials)
	if b.all.n == 0 {
		return line
	}
	return fmt.Sprintf("%s  %.0f steps/s  %v left  %s", line, float64(b.steps)/elapsed.Seconds(), b.timeLeft().Round(time.Second), b.last)
}

// timeLeft is what the trials that are left will take: as long as those like them
// took, or as the average where there were none.
func (b *evalBar) timeLeft() time.Duration {
	var sum time.Duration
	for kind, n := range b.left {
		each := b.all.mean()
		if a := b.took[kind]; a != nil {
			each = a.mean()
		}
		sum += time.Duration(n) * each
	}
	return sum / time.Duration(b.jobs)
}

func (b *evalBar) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.terminal {
		fmt.Fprintln(b.out)
	}
}
