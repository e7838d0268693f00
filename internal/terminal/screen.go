package terminal

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/recorder"
	"optibfm/internal/registry"
	"optibfm/internal/setup"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
)

const (
	frameInterval    = 100 * time.Millisecond
	quantileInterval = time.Second // quantiles cost much more than a frame
)

// screenDisplay shows a run on the whole terminal.
type screenDisplay struct {
	terminal *terminal
	now      func() time.Time

	session *setup.Session
	spec    hal.Spec
	missing []string // real-time privileges
	stats   *recorder.Statistics
	started time.Time
	drawn   time.Time

	arena    *arena    // of the rover
	channels *channels // of any other robot
	history  history
	progress Progress

	firstLogDet float64     // of the run, or since a switch of the task
	details     atomic.Bool // shown instead of words
	keys        bool        // DetailsKey works

	request   uint64        // open request, 0 for none
	asked     time.Duration // its moment
	lastLabel message
	scale     labelScale
	given     given // labels of a person
	applied   int   // labels of the current tick that entered the belief
	lastEvent message
	bell      bool

	quantilesAt time.Time
	lateness    [3]float64 // 50th, 99th and 100th percentile, in µs
	duration    [3]float64
	rewardScale float64 // the largest absolute reward so far, at least 1
}

// message is a line at the foot of the screen.
type message struct {
	at   time.Duration // since the start of the run
	text string
	ink  ink
}

func newScreenDisplay(t *terminal) *screenDisplay {
	return &screenDisplay{terminal: t, now: time.Now, rewardScale: 1}
}

func (s *screenDisplay) Begin(of *setup.Session, spec hal.Spec, missing []string, y *recorder.Statistics) {
	s.session, s.spec, s.missing, s.stats = of, spec, missing, y
	s.scale.good, s.scale.bad = of.File.Operator.Scale()
	s.progress = NewProgress(of)
	s.started, s.keys = s.now(), term.IsTerminal(int(os.Stdin.Fd()))
	if robot, ok := of.File.Robot.Chosen().(registry.Arena); ok {
		s.arena = &arena{robot: robot, scale: s.scale}
		s.arena.task = s.task()
	} else {
		s.channels = newChannels(spec.Obs)
	}
	s.terminal.start()
}

// person reports whether a person labels.
func (s *screenDisplay) person() bool { return s.session.File.Operator.ByPerson() }

// task returns the task of a simulator, which a person who labels must not see.
func (s *screenDisplay) task() string {
	if s.person() {
		return ""
	}
	return s.session.Task()
}

// elapsed is the time of the run, simulated in lockstep.
func (s *screenDisplay) elapsed() time.Duration {
	if s.stats == nil {
		return 0
	}
	return time.Duration(s.stats.Last.Index) * s.spec.Period
}

// Outcome implements record.Display.
func (s *screenDisplay) Outcome(t *controller.Tick, l *controller.AppliedLabel) {
	switch l.Outcome {
	case controller.Applied:
		s.applied++
		s.showCounted(t, l)
	case controller.ClosedRequest:
	default:
		s.lastLabel = message{s.elapsed(), fmt.Sprintf("%s does NOT count: %v", appliedName(l), l.Outcome), inkBad}
	}
}

func (s *screenDisplay) Tick(t *controller.Tick) {
	at := s.elapsed()
	s.given.keep(t)
	s.progress.Tick(t)
	if s.stats.Ticks == 1 || t.Flags.Has(controller.FlagSwitched) {
		s.firstLogDet = t.LogDet
	}
	s.history.add(at, t.DGap, t.Flags.Has(controller.FlagAsked), s.applied)
	s.applied = 0
	s.noteRequest(t, at)
	if t.Flags.Has(controller.FlagReward) {
		s.rewardScale = max(s.rewardScale, t.Reward, -t.Reward)
	}
	if s.arena != nil {
		s.arena.add(t, at)
	} else {
		s.channels.add(t)
	}
	if now := s.now(); now.Sub(s.drawn) >= frameInterval {
		s.drawn = now
		s.showFrame()
	}
}

// noteRequest notes the moment of a request, and its pose if the answer is about that moment.
func (s *screenDisplay) noteRequest(t *controller.Tick, at time.Duration) {
	if t.Request == s.request {
		return
	}
	s.request, s.asked = t.Request, at
	if s.arena == nil {
		return
	}
	if s.arena.asked = nil; t.Flags.Has(controller.FlagAsked) && s.person() && !s.asksUntilPress() {
		s.arena.ask(t)
	}
}

// asksUntilPress reports whether the operator is to judge what it sees until the press. A held
// robot shows nothing after its request.
func (s *screenDisplay) asksUntilPress() bool {
	k := s.session.File.Controller
	now := k.Credit.Answers == controller.UntilPress || k.Credit.Answers == controller.Estimated
	return now && k.Gate.Pause != controller.PauseHold
}

func (s *screenDisplay) Label(l rewardsrc.Label, err error) {
	text := fmt.Sprintf("%s (label %d), %s", labelName(l), l.ID, s.storage())
	s.lastLabel = message{s.elapsed(), text, inkGood}
	if err != nil {
		s.lastLabel = message{s.elapsed(), fmt.Sprintf("%s does NOT count: %v", labelName(l), err), inkBad}
	}
}

// labelName returns a label in few words: "0.333", "better" or "undo".
func labelName(l rewardsrc.Label) string {
	if l.Kind == rewardsrc.Value {
		return fmt.Sprintf("%.3g", l.Value)
	}
	return l.Describe()
}

// appliedName returns the name and the number of a label: "better (label 6)".
func appliedName(l *controller.AppliedLabel) string {
	return fmt.Sprintf("%s (label %d)", labelName(rewardsrc.Label{Kind: l.Kind, Value: l.Value}), l.ID)
}

// showCounted shows the effect of a label of a person.
func (s *screenDisplay) showCounted(t *controller.Tick, l *controller.AppliedLabel) {
	s.given.add(l, s.scale)
	if !l.Kind.Teaches() || !s.person() {
		return
	}
	if s.arena != nil {
		s.arena.credited(l, s.elapsed())
	}
	s.lastLabel = message{s.elapsed(), appliedName(l) + " counts for " + s.stretch(t, l), inkGood}
}

// stretch describes the states that a label of tick t is about.
func (s *screenDisplay) stretch(t *controller.Tick, l *controller.AppliedLabel) string {
	before := func(tick uint64) float64 { return (time.Duration(t.Index-tick) * s.spec.Period).Seconds() }
	text := fmt.Sprintf("%.1f to %.1f s before", before(l.From), before(l.To))
	if l.From == l.To {
		text = fmt.Sprintf("the state %.1f s before", before(l.From))
	}
	if l.Kind == rewardsrc.Comparison {
		text += fmt.Sprintf(", against %g s earlier", s.session.File.Controller.Credit.CompareS)
	}
	return text
}

// storage describes where an accepted label is stored.
func (s *screenDisplay) storage() string {
	switch {
	case !s.session.File.Log.Enabled:
		return "accepted; the log is off"
	case s.session.File.Run.Lockstep: // no wait for the disk
		return "in the log"
	}
	return "safe on disk"
}

func (s *screenDisplay) Notice(n keyboard.Notice) {
	switch n.Event {
	case keyboard.Wanted:
		s.bell = s.session.File.Operator.Keyboard.Bell
	case rewardsrc.Returned:
		s.lastEvent = message{s.elapsed(), s.session.Invoked.Renamed(n.Text), inkGood}
	case keyboard.Ignored:
		s.lastEvent = message{s.elapsed(), s.session.Invoked.Renamed(n.Text), inkAsk}
	case keyboard.Lost:
		s.lastEvent = message{s.elapsed(), s.session.Invoked.Renamed(n.Text), inkBad}
	}
}

func (s *screenDisplay) Event(e flightlog.Event) {
	s.progress.Event(e)
	s.lastEvent = message{s.elapsed(), s.session.Invoked.Renamed(e.Text), inkPlain}
	switch e.Level {
	case flightlog.Warn:
		s.lastEvent.ink = inkAsk
	case flightlog.Error:
		s.lastEvent.ink = inkBad
	}
}

func (s *screenDisplay) ToggleDetails() { s.details.Store(!s.details.Load()) }

func (s *screenDisplay) End() { s.terminal.Close() }

// showFrame draws a frame, unless the terminal is still busy with an earlier one.
func (s *screenDisplay) showFrame() {
	c := s.terminal.frame()
	if c == nil {
		return
	}
	if now := s.now(); now.Sub(s.quantilesAt) >= quantileInterval {
		s.quantilesAt = now
		for i, percent := range []float64{50, 99, 100} {
			s.lateness[i] = recorder.Micros(s.stats.Lateness, percent)
			s.duration[i] = recorder.Micros(s.stats.Duration, percent)
		}
	}
	s.draw(c)
	s.terminal.show(s.bell)
	s.bell = false
}
