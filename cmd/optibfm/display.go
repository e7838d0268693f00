package main

import (
	"fmt"
	"io"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
)

// display shows a run to a person. All methods are called by one goroutine,
// that of the recorder, and none may wait for the terminal for long.
type display interface {
	// begin is called once, before the first tick. y is kept up to date by
	// the caller and may be read in every other method. missing is what was
	// asked of the operating system and not granted.
	begin(s *session, spec hal.Spec, missing []string, y *tally)
	tick(t *controller.Tick)            // after y.add(t); t is valid during the call
	label(l rewardsrc.Label, err error) // a label was made durable, or refused
	notice(n keyboard.Notice)           // from a keyboard
	event(e flightlog.Event)            // something worth knowing
	end()                               // gives the terminal back
}

// newDisplay chooses the full screen for a terminal and lines for anything
// else; quiet shows nothing.
func newDisplay(out io.Writer, plain, quiet bool) display {
	if quiet {
		return quietDisplay{}
	}
	if t := fullScreen(out); t != nil && !plain {
		return newScreen(t)
	}
	return &lineDisplay{out: out}
}

// quietDisplay shows nothing.
type quietDisplay struct{}

func (quietDisplay) begin(*session, hal.Spec, []string, *tally) {}
func (quietDisplay) tick(*controller.Tick)                      {}
func (quietDisplay) label(rewardsrc.Label, error)               {}
func (quietDisplay) notice(keyboard.Notice)                     {}
func (quietDisplay) event(flightlog.Event)                      {}
func (quietDisplay) end()                                       {}

// lineDisplay writes a line now and then: for logs and pipes.
type lineDisplay struct {
	out   io.Writer
	tally *tally
	shown int // episodes
	last  time.Time
}

func (d *lineDisplay) begin(s *session, spec hal.Spec, _ []string, y *tally) {
	d.tally, d.last = y, time.Now()
	fmt.Fprintf(d.out, "%s: task %s, strategy %s, %g Hz\n", clean(spec.Name), clean(s.task()), s.file.Controller.Strategy, 1/spec.Period.Seconds())
}

func (d *lineDisplay) tick(*controller.Tick) {
	y := d.tally
	for ; d.shown < len(y.returns); d.shown++ {
		fmt.Fprintf(d.out, "episode %d: return %.1f, labels %d\n", d.shown+1, y.returns[d.shown], y.applied)
	}
	if now := time.Now(); now.Sub(d.last) >= 5*time.Second {
		d.last = now
		fmt.Fprintf(d.out, "tick %d: labels %d, asked %d, D-gap %.3f, lateness p99 %.0f µs\n",
			y.last.Index, y.applied, y.asked, y.last.DGap, micros(y.lateness, 99))
	}
}

func (d *lineDisplay) label(l rewardsrc.Label, err error) {
	if err != nil {
		fmt.Fprintln(d.out, "label refused:", clean(err.Error()))
	}
}

func (d *lineDisplay) notice(n keyboard.Notice) {
	if n.Text != "" {
		fmt.Fprintln(d.out, clean(n.Text))
	}
}

func (d *lineDisplay) event(e flightlog.Event) {
	fmt.Fprintf(d.out, "%s: %s\n", e.Level, clean(e.Text))
}

func (d *lineDisplay) end() {}
