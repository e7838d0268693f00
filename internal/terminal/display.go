package terminal

import (
	"io"
	"math"
	"time"

	"github.com/rs/zerolog"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/plaintext"
	"optibfm/internal/record"
	"optibfm/internal/setup"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
)

// Display shows a run to a person. The recorder's goroutine calls all methods. None may wait for the terminal.
type Display interface {
	record.Display

	// Begin is called once, before the first tick. The caller updates y; every other method may read it.
	// missing lists requests to the operating system that were not granted.
	Begin(s *setup.Session, spec hal.Spec, missing []string, y *record.Statistics)
	Notice(n keyboard.Notice) // of the operator's device
	End()                     // restores the terminal
}

// How a run is shown.
const (
	ShowAuto  = "auto"  // the full screen on a terminal, otherwise lines
	ShowLines = "lines" // lines of text
	ShowJSON  = "jsonl" // lines of JSON
	ShowNone  = "none"
)

// NewDisplay makes the display of one of the names above.
func NewDisplay(out io.Writer, show string) Display {
	switch show {
	case ShowNone:
		return QuietDisplay{}
	case ShowAuto:
		if t := fullScreen(out); t != nil {
			return newScreen(t)
		}
	}
	return NewLineDisplay(out, show == ShowJSON)
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

// Displays shows a run in several ways at once.
type Displays []Display

func (d Displays) Begin(s *setup.Session, spec hal.Spec, missing []string, y *record.Statistics) {
	for _, each := range d {
		each.Begin(s, spec, missing, y)
	}
}

func (d Displays) Outcome(t *controller.Tick, l *controller.AppliedLabel) {
	for _, each := range d {
		each.Outcome(t, l)
	}
}

func (d Displays) Tick(t *controller.Tick) {
	for _, each := range d {
		each.Tick(t)
	}
}

func (d Displays) Label(l rewardsrc.Label, err error) {
	for _, each := range d {
		each.Label(l, err)
	}
}

func (d Displays) Notice(n keyboard.Notice) {
	for _, each := range d {
		each.Notice(n)
	}
}

func (d Displays) Event(e flightlog.Event) {
	for _, each := range d {
		each.Event(e)
	}
}

func (d Displays) End() {
	for _, each := range d {
		each.End()
	}
}

// LineDisplay writes a line now and then, for pipes, files and services: text
// for people, or JSON for a collector of logs.
type LineDisplay struct {
	log   zerolog.Logger
	tally *record.Statistics
	shown uint64 // episodes
	last  time.Time
}

func NewLineDisplay(out io.Writer, asJSON bool) *LineDisplay {
	if !asJSON {
		out = zerolog.ConsoleWriter{Out: out, NoColor: true, TimeFormat: time.TimeOnly}
	}
	return &LineDisplay{log: zerolog.New(out).With().Timestamp().Logger()}
}

func (d *LineDisplay) Begin(s *setup.Session, spec hal.Spec, _ []string, y *record.Statistics) {
	d.tally, d.last = y, time.Now()
	begins := d.log.Info().Str("robot", plaintext.Clean(spec.Name))
	if task := s.Task(); task != "" {
		begins = begins.Str("task", plaintext.Clean(task))
	}
	begins.Str("strategy", s.File.Controller.Strategy).Float64("hz", 1/spec.Period.Seconds()).Msg("run begins")
	if s.File.Safety.Arm == configs.ArmOperator {
		d.log.Info().Msg("disarmed; to let it move: " + plaintext.Clean(s.Invoked.OperatorCommand("arm")))
	}
	if s.File.Run.Shadow {
		d.log.Info().Msg("shadow: the robot is neither armed nor moved")
	}
}

// Outcome shows a label that does not count.
func (d *LineDisplay) Outcome(_ *controller.Tick, l *controller.AppliedLabel) {
	if l.Outcome != controller.Applied && l.Outcome != controller.ClosedRequest {
		d.log.Warn().Msgf("%v %d does NOT count: %v", l.Kind, l.ID, l.Outcome)
	}
}

func (d *LineDisplay) Tick(*controller.Tick) {
	y := d.tally
	if d.shown < y.Episodes { // one more: a tick ends at most one
		d.shown = y.Episodes
		d.log.Info().Uint64("episode", d.shown).Float64("return", rounded(y.Returns[len(y.Returns)-1])).
			Uint64("labels", y.Applied).Msg("episode ends")
	}
	if now := time.Now(); now.Sub(d.last) >= 5*time.Second {
		d.last = now
		d.log.Info().Uint64("tick", y.Last.Index).Uint64("labels", y.Applied).Uint64("asked", y.Asked).
			Float64("dgap", rounded(y.Last.DGap)).Float64("lateness_p99_us", record.Micros(y.Lateness, 99)).Msg("running")
	}
}

// rounded keeps lines short.
func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }

// Label shows nothing: an event tells of refused presses, once a second at most.
func (d *LineDisplay) Label(rewardsrc.Label, error) {}

func (d *LineDisplay) Notice(n keyboard.Notice) {
	if n.Text != "" && n.Event != rewardsrc.Refused {
		d.log.Info().Msg(plaintext.Clean(n.Text))
	}
}

func (d *LineDisplay) Event(e flightlog.Event) {
	level := zerolog.InfoLevel
	switch e.Level {
	case flightlog.Warn:
		level = zerolog.WarnLevel
	case flightlog.Error:
		level = zerolog.ErrorLevel
	}
	d.log.WithLevel(level).Msg(plaintext.Clean(e.Text))
}

func (d *LineDisplay) End() {}
