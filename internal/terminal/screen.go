package terminal

import (
	"fmt"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/record"
	"optibfm/internal/setup"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
)

const (
	frameEvery  = 100 * time.Millisecond
	timingEvery = time.Second // quantiles are dear
)

// screen shows a run on the whole terminal.
type screen struct {
	terminal *terminal
	now      func() time.Time

	session *setup.Session
	spec    hal.Spec
	missing []string // of the real-time posture
	tally   *record.Statistics
	started time.Time
	drawn   time.Time

	arena    *arena    // of the rover
	channels *channels // of any other robot
	history  history

	request  uint64        // open, 0 for none
	closes   time.Duration // when it expires
	saved    message       // what became of the last label
	applied  int           // labels of the present tick that entered the belief
	happened message       // the last event
	bell     bool

	timed    time.Time // when the quantiles were taken
	lateness [3]float64
	duration [3]float64
	reward   float64 // the largest so far, at least 1
}

// message is something that happened at a time of the run.
type message struct {
	at   time.Duration
	text string
	ink  ink
}

func newScreen(t *terminal) *screen { return &screen{terminal: t, now: time.Now, reward: 1} }

func (s *screen) Begin(of *setup.Session, spec hal.Spec, missing []string, y *record.Statistics) {
	s.session, s.spec, s.missing, s.tally = of, spec, missing, y
	s.started = s.now()
	if of.File.Robot.Driver == configs.DriverRover {
		s.arena = &arena{side: of.File.Robot.Rover.ArenaM}
		if !s.human() { // a person has a task of their own
			s.arena.task = of.Task()
		}
	} else {
		s.channels = newChannels(spec.Obs)
	}
	s.terminal.start()
}

// human reports whether a person labels, wherever they are.
func (s *screen) human() bool {
	source := s.session.File.Operator.Source
	return source != configs.SourceScripted && source != configs.SourceNone
}

// person reports whether a person labels at this terminal, which is then raw.
func (s *screen) person() bool { return s.session.File.Operator.Source == configs.SourceKeyboard }

// elapsed is the time of the run: simulated in lockstep.
func (s *screen) elapsed() time.Duration {
	if s.tally == nil {
		return 0
	}
	return time.Duration(s.tally.Last.Index) * s.spec.Period
}

// Outcome shows what a tick did with a label.
func (s *screen) Outcome(_ *controller.Tick, l *controller.AppliedLabel) {
	switch l.Outcome {
	case controller.Applied:
		s.applied++
		s.weigh(l)
	case controller.ClosedRequest:
	default:
		s.saved = message{s.elapsed(), fmt.Sprintf("%v %d does NOT count: %v", l.Kind, l.ID, l.Outcome), inkBad}
	}
}

func (s *screen) Tick(t *controller.Tick) {
	at := s.elapsed()
	s.history.Add(at, t.DGap, t.Flags.Has(controller.FlagAsked), s.applied)
	s.applied = 0
	if t.Request != s.request {
		s.request = t.Request
		s.closes = at + time.Duration(s.session.File.Controller.Gate.TimeoutS*float64(time.Second))
	}
	if t.Flags.Has(controller.FlagReward) {
		s.reward = max(s.reward, t.Reward, -t.Reward)
	}
	if s.arena != nil {
		s.arena.Add(t, at)
	} else {
		s.channels.Add(t)
	}
	if now := s.now(); now.Sub(s.drawn) >= frameEvery {
		s.drawn = now
		s.show()
	}
}

func (s *screen) Label(l rewardsrc.Label, err error) {
	m := message{at: s.elapsed(), ink: inkGood}
	if err != nil {
		m.text, m.ink = fmt.Sprintf("%s does NOT count: %v", labelText(l), err), inkBad
	} else {
		m.text = fmt.Sprintf("%v %d, %s", l.Kind, l.ID, s.whereabouts())
		if l.Kind == rewardsrc.Value {
			m.text = fmt.Sprintf("%s (label %d), %s", valueText(l.Value), l.ID, s.whereabouts())
		}
	}
	s.saved = m
}

// weigh shows the share of its weight that a robust belief left to a label.
func (s *screen) weigh(l *controller.AppliedLabel) {
	if s.session.File.Controller.Robust == 0 || l.Share == 0 {
		return
	}
	text := fmt.Sprintf("%s (label %d), %s, %s", valueText(l.Value), l.ID, s.whereabouts(), record.WeightText(l.Share))
	m := message{s.elapsed(), text, inkGood}
	if l.Downweighted() {
		m.ink = inkAsk
	}
	s.saved = m
}

// whereabouts says where a label that was taken is.
func (s *screen) whereabouts() string {
	switch {
	case !s.session.File.Log.Enabled:
		return "taken; the log is off"
	case s.session.File.Run.Lockstep: // which does not wait for the disk
		return "in the log"
	}
	return "safe on disk"
}

// labelText says what a label says.
func labelText(l rewardsrc.Label) string {
	if l.Kind == rewardsrc.Value {
		return valueText(l.Value)
	}
	return l.Kind.String()
}

func valueText(reward float64) string { return fmt.Sprintf("%+.3g", reward) }

func (s *screen) Notice(n keyboard.Notice) {
	switch n.Event {
	case keyboard.Wanted:
		s.bell = s.session.File.Operator.Keyboard.Bell
	case rewardsrc.Returned:
		s.happened = message{s.elapsed(), n.Text, inkGood}
	case keyboard.Ignored:
		s.happened = message{s.elapsed(), n.Text, inkAsk}
	case keyboard.Lost:
		s.happened = message{s.elapsed(), n.Text, inkBad}
	}
}

func (s *screen) Event(e flightlog.Event) {
	m := message{s.elapsed(), e.Text, inkPlain}
	switch e.Level {
	case flightlog.Warn:
		m.ink = inkAsk
	case flightlog.Error:
		m.ink = inkBad
	}
	s.happened = m
}

func (s *screen) End() { s.terminal.Close() }

// show draws a frame, unless the terminal is behind.
func (s *screen) show() {
	c := s.terminal.frame()
	if c == nil {
		return
	}
	if now := s.now(); now.Sub(s.timed) >= timingEvery {
		s.timed = now
		for i, percent := range []float64{50, 99, 100} {
			s.lateness[i] = record.Micros(s.tally.Lateness, percent)
			s.duration[i] = record.Micros(s.tally.Duration, percent)
		}
	}
	s.draw(c)
	c.bell, s.bell = s.bell, false
	s.terminal.show(c)
}
