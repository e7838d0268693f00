package terminal

import (
	"io"
	"os"

	"golang.org/x/term"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/recorder"
	"optibfm/internal/setup"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
)

// Display shows a run to a person. The recorder's goroutine calls all methods. None may wait for
// the terminal.
type Display interface {
	recorder.Display

	// Begin is called once, before the first tick. The caller updates y, which the other methods
	// read. missing lists the real-time privileges that the system did not grant.
	Begin(s *setup.Session, spec hal.Spec, missing []string, y *recorder.Statistics)
	Notice(n keyboard.Notice) // of the operator's device
	ToggleDetails()           // shows or hides them; any goroutine may call it
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

// DetailsKey shows and hides the details of the full screen.
const DetailsKey = keyboard.Key('d')

// OpenKeys reads the terminal for a full-screen display if no label device reads it, so that
// DetailsKey works in every run. It returns nil without such a display or without a terminal at
// standard input. Close it with Halt.
func OpenKeys(d Display, show, source string) *keyboard.Keyboard {
	if !TakesScreen(show) || source == configs.SourceKeyboard || source == configs.SourceConsole {
		return nil
	}
	onKey := func(k keyboard.Key) {
		if k == DetailsKey {
			d.ToggleDetails()
		}
	}
	ignore := func(keyboard.Notice) {}
	keys, err := keyboard.Open(keyboard.DefaultConfig(), keyboard.Options{KeysOnly: true, Display: ignore, OnKey: onKey})
	if err != nil {
		return nil // the screen works without keys
	}
	return keys
}

// QuietDisplay shows nothing.
type QuietDisplay struct{}

func (QuietDisplay) Begin(*setup.Session, hal.Spec, []string, *recorder.Statistics) {}
func (QuietDisplay) Outcome(*controller.Tick, *controller.AppliedLabel)             {}
func (QuietDisplay) Tick(*controller.Tick)                                          {}
func (QuietDisplay) Label(rewardsrc.Label, error)                                   {}
func (QuietDisplay) Notice(keyboard.Notice)                                         {}
func (QuietDisplay) Event(flightlog.Event)                                          {}
func (QuietDisplay) ToggleDetails()                                                 {}
func (QuietDisplay) End()                                                           {}

// Displays shows a run on several displays.
type Displays []Display

func (d Displays) each(call func(Display)) {
	for _, display := range d {
		call(display)
	}
}

func (d Displays) Begin(s *setup.Session, spec hal.Spec, missing []string, y *recorder.Statistics) {
	d.each(func(e Display) { e.Begin(s, spec, missing, y) })
}

func (d Displays) Outcome(t *controller.Tick, l *controller.AppliedLabel) {
	d.each(func(e Display) { e.Outcome(t, l) })
}

func (d Displays) Tick(t *controller.Tick) { d.each(func(e Display) { e.Tick(t) }) }

func (d Displays) Label(l rewardsrc.Label, err error) { d.each(func(e Display) { e.Label(l, err) }) }

func (d Displays) Notice(n keyboard.Notice) { d.each(func(e Display) { e.Notice(n) }) }

func (d Displays) Event(e flightlog.Event) { d.each(func(display Display) { display.Event(e) }) }

func (d Displays) ToggleDetails() { d.each(Display.ToggleDetails) }

func (d Displays) End() { d.each(Display.End) }
