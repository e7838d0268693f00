package main

import (
	"io"
	"math"
	"time"

	"github.com/rs/zerolog"

	"optibfm/configs"
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

// How a run is shown.
const (
	showAuto  = "auto"  // the full screen on a terminal, otherwise lines
	showLines = "lines" // lines of text
	showJSON  = "jsonl" // lines of JSON
	showNone  = "none"
)

// newDisplay makes the display of one of the names above.
func newDisplay(out io.Writer, show string) display {
	switch show {
	case showNone:
		return quietDisplay{}
	case showAuto:
		if t := fullScreen(out); t != nil {
			return newScreen(t)
		}
	}
	return newLineDisplay(out, show == showJSON)
}

// quietDisplay shows nothing.
type quietDisplay struct{}

func (quietDisplay) begin(*session, hal.Spec, []string, *tally) {}
func (quietDisplay) tick(*controller.Tick)                      {}
func (quietDisplay) label(rewardsrc.Label, error)               {}
func (quietDisplay) notice(keyboard.Notice)                     {}
func (quietDisplay) event(flightlog.Event)                      {}
func (quietDisplay) end()                                       {}

// displays shows a run in several ways at once.
type displays []display

func (d displays) begin(s *session, spec hal.Spec, missing []string, y *tally) {
	for _, each := range d {
		each.begin(s, spec, missing, y)
	}
}

func (d displays) tick(t *controller.Tick) {
	for _, each := range d {
		each.tick(t)
	}
}

func (d displays) label(l rewardsrc.Label, err error) {
	for _, each := range d {
		each.label(l, err)
	}
}

func (d displays) notice(n keyboard.Notice) {
	for _, each := range d {
		each.notice(n)
	}
}

func (d displays) event(e flightlog.Event) {
	for _, each := range d {
		each.event(e)
	}
}

func (d displays) end() {
	for _, each := range d {
		each.end()
	}
}

// lineDisplay writes a line now and then, for pipes, files and services: text
// for people, or JSON for a collector of logs.
type lineDisplay struct {
	log   zerolog.Logger
	tally *tally
	shown uint64 // episodes
	last  time.Time
}

func newLineDisplay(out io.Writer, asJSON bool) *lineDisplay {
	if !asJSON {
		out = zerolog.ConsoleWriter{Out: out, NoColor: true, TimeFormat: time.TimeOnly}
	}
	return &lineDisplay{log: zerolog.New(out).With().Timestamp().Logger()}
}

func (d *lineDisplay) begin(s *session, spec hal.Spec, _ []string, y *tally) {
	d.tally, d.last = y, time.Now()
	begins := d.log.Info().Str("robot", clean(spec.Name))
	if task := s.task(); task != "" {
		begins = begins.Str("task", clean(task))
	}
	begins.Str("strategy", s.file.Controller.Strategy).Float64("hz", 1/spec.Period.Seconds()).Msg("run begins")
	if s.file.Safety.Arm == configs.ArmOperator {
		d.log.Info().Msg("disarmed; to let it move: " + clean(s.invoked.operate("arm")))
	}
	if s.file.Run.Shadow {
		d.log.Info().Msg("shadow: the robot is neither armed nor moved")
	}
}

func (d *lineDisplay) tick(*controller.Tick) {
	y := d.tally
	if d.shown < y.episodes { // one more: a tick ends at most one
		d.shown = y.episodes
		d.log.Info().Uint64("episode", d.shown).Float64("return", rounded(y.returns[len(y.returns)-1])).
			Uint64("labels", y.applied).Msg("episode ends")
	}
	if now := time.Now(); now.Sub(d.last) >= 5*time.Second {
		d.last = now
		d.log.Info().Uint64("tick", y.last.Index).Uint64("labels", y.applied).Uint64("asked", y.asked).
			Float64("dgap", rounded(y.last.DGap)).Float64("lateness_p99_us", micros(y.lateness, 99)).Msg("running")
	}
}

// rounded keeps lines short.
func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }

// label shows nothing: an event tells of refused presses, once a second at most.
func (d *lineDisplay) label(rewardsrc.Label, error) {}

func (d *lineDisplay) notice(n keyboard.Notice) {
	if n.Text != "" && n.Event != rewardsrc.Refused {
		d.log.Info().Msg(clean(n.Text))
	}
}

func (d *lineDisplay) event(e flightlog.Event) {
	level := zerolog.InfoLevel
	switch e.Level {
	case flightlog.Warn:
		level = zerolog.WarnLevel
	case flightlog.Error:
		level = zerolog.ErrorLevel
	}
	d.log.WithLevel(level).Msg(clean(e.Text))
}

func (d *lineDisplay) end() {}
