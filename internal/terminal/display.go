package terminal

import (
	"io"
	"os"

	"golang.org/x/term"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/record"
	"optibfm/internal/setup"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
)

// Display shows a run to a person. The recorder's goroutine calls all methods. None may wait for the terminal.
type Display interface {
	record.Display

	// Begin is called once, before the first tick. The caller updates y, which the other methods
	// read. missing lists the real-time privileges that the system did not grant.
	Begin(s *setup.Session, spec hal.Spec, missing []string, y *record.Statistics)
	Notice(n keyboard.Notice) // of the operator's device
	End()                     // restores the terminal
}

// The names of displays.
const (
	ShowAuto  = "auto"  // the full screen on a terminal, otherwise lines
	ShowLines = "lines" // lines of text
	ShowJSON  = "jsonl" // lines of JSON
	ShowNone  = "none"

	ShowJournal = "journal" // lines of text for systemd's journal
)

// NewDisplay returns the display with a name, one of the constants above, that writes to out.
func NewDisplay(out io.Writer, show string) Display {
	if show == ShowNone {
		return QuietDisplay{}
	}
	if f, ok := out.(*os.File); ok && show == ShowAuto && hasFullScreen(f) {
		size := func() (w, h int, err error) { return term.GetSize(int(f.Fd())) }
		if t, err := newTerminal(f, size, os.Getenv); err == nil {
			return newScreenDisplay(t)
		}
	}
	return NewLineDisplay(out, show)
}

// QuietDisplay shows nothing.
type QuietDisplay struct{}

func (QuietDisplay) Begin(*setup.Session, hal.Spec, []string, *record.Statistics) {}
func (QuietDisplay) Outcome(*controller.Tick, *controller.AppliedLabel)           {}
func (QuietDisplay) Tick(*controller.Tick)                                        {}
func (QuietDisplay) Label(rewardsrc.Label, error)                                 {}
func (QuietDisplay) Notice(keyboard.Notice)                                       {}
func (QuietDisplay) Event(flightlog.Event)                                        {}
func (QuietDisplay) End()                                                         {}

// Displays shows a run on several displays.
type Displays []Display

func (d Displays) each(call func(Display)) {
	for _, display := range d {
		call(display)
	}
}

func (d Displays) Begin(s *setup.Session, spec hal.Spec, missing []string, y *record.Statistics) {
	d.each(func(e Display) { e.Begin(s, spec, missing, y) })
}

func (d Displays) Outcome(t *controller.Tick, l *controller.AppliedLabel) {
	d.each(func(e Display) { e.Outcome(t, l) })
}

func (d Displays) Tick(t *controller.Tick) { d.each(func(e Display) { e.Tick(t) }) }

func (d Displays) Label(l rewardsrc.Label, err error) { d.each(func(e Display) { e.Label(l, err) }) }

func (d Displays) Notice(n keyboard.Notice) { d.each(func(e Display) { e.Notice(n) }) }

func (d Displays) Event(e flightlog.Event) { d.each(func(display Display) { display.Event(e) }) }

func (d Displays) End() { d.each(Display.End) }
