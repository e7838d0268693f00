package flightlog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"optibfm/controller"
)

// Summary is the summary of a run.
type Summary struct {
	Counts
	Duration time.Duration // from the first to the last tick, on the robot's clock
	Armed    uint64        // ticks in which the robot followed the policy
	Moving   uint64        // ticks in which it moved to its start or rest pose
	Changed  []uint64      // ticks after which it began the task again, because it seemed to have changed
	Kept     []uint64      // ticks in which the operator took that back

	// Of the last tick.
	Evidence controller.Evidence
	Known    controller.Interval

	Presses uint64                        // messages on /label
	Labels  map[controller.Outcome]uint64 // outcomes, from the ticks; undos too

	Episodes []Episode                   // of simulators, if there were rewards
	Faults   map[controller.Fault]uint64 // stops, by their first cause
	End      string                      // the cause of a stop that ended the run, with its details
	Warnings uint64                      // events
	Errors   uint64                      // events

	Late Percentiles // wake-up after the deadline; zeros in lockstep
	Busy Percentiles // from wake-up to done; zeros in lockstep
}

// Stops lists the causes of the robot's stops with their number, or returns "none".
func (s *Summary) Stops() string {
	var causes []string
	for _, f := range slices.Sorted(maps.Keys(s.Faults)) {
		cause := f.String()
		if n := s.Faults[f]; n > 1 {
			cause += fmt.Sprintf(" (%d stops)", n)
		}
		causes = append(causes, cause)
	}
	if len(causes) == 0 {
		return "none"
	}
	return strings.Join(causes, ", ")
}

// FaultsText returns the causes of the stops, and the numbers of warnings and errors.
func (s *Summary) FaultsText() string {
	text := s.Stops()
	if s.Warnings+s.Errors > 0 {
		text += fmt.Sprintf("; %d warnings and %d errors in the events", s.Warnings, s.Errors)
	}
	return text
}

// Episode is a part of a simulated run between two resets.
type Episode struct {
	Number uint32
	Steps  uint32
	Return float64 // sum of the rewards after each step
	Labels uint64  // applied in it
}

// tally collects a Summary.
type tally struct {
	Summary
	counter     Counter
	first, last int64
	fault       controller.Fault // of the last tick
}

func newTally() *tally {
	return &tally{
		Summary: Summary{
			Labels: make(map[controller.Outcome]uint64),
			Faults: make(map[controller.Fault]uint64),
		},
		counter: NewCounter(),
	}
}

func (s *tally) add(r *Record) {
	switch {
	case r.Tick != nil:
		s.addTick(r.Tick)
	case r.Label != nil:
		s.Presses++
	case r.Request != nil:
		s.counter.AddRequest(*r.Request)
	case r.Event != nil:
		s.addEvent(r.Event)
	}
}

// The beginnings of the events with the cause of the end of a run.
const (
	HaltedEvent   = "robot halted: "                 // then a fault, ": " and its details
	OrphanedEvent = "host: the control process died" // which recorded no fault
)

// addEvent also counts a stop that ended the run outside of a tick, such as by a silent host,
// missed ticks or the watchdog: no tick has its fault.
func (s *tally) addEvent(e *Event) {
	switch e.Level {
	case Warn:
		s.Warnings++
	case Error:
		s.Errors++
	}
	if strings.HasPrefix(e.Text, OrphanedEvent) {
		s.End = e.Text
	}
	cause, ok := strings.CutPrefix(e.Text, HaltedEvent)
	if !ok {
		return
	}
	s.End = cause
	name, _, _ := strings.Cut(cause, ": ")
	if f := controller.FaultNamed(name); f != controller.FaultNone && f != s.fault {
		s.Faults[f]++
	}
}

func (s *tally) addTick(t *controller.Tick) {
	if s.counter.Ticks == 0 {
		s.first = SampleTime(t)
		s.counter.Dropped = missingBefore(t, 0, false)
		s.counter.Skipped = max(t.Elapsed, 1) - 1
	}
	s.counter.AddTick(t)
	s.last = SampleTime(t)
	if t.Flags.Has(controller.FlagArmed) {
		s.Armed++
	}
	if t.ToPose() {
		s.Moving++
	}
	if t.Flags.Has(controller.FlagChanged) {
		s.Changed = append(s.Changed, t.Index)
	}
	if kept(t) {
		s.Kept = append(s.Kept, t.Index)
	}
	if t.Fault != controller.FaultNone && t.Fault != s.fault { // one stop lasts several ticks
		s.Faults[t.Fault]++
	}
	s.fault = t.Fault
	s.Evidence, s.Known = t.Evidence, t.Known
	applied := s.addLabels(t)
	s.addToEpisode(t, applied)
}

func (s *tally) addLabels(t *controller.Tick) (applied uint64) {
	for _, a := range t.Labels[:t.NumLabels] {
		s.Labels[a.Outcome]++
		if s.counter.AddLabel(&a) {
			applied++
		}
	}
	return applied
}

func (s *tally) addToEpisode(t *controller.Tick, labels uint64) {
	if !t.Flags.Has(controller.FlagReward) {
		return
	}
	if n := len(s.Episodes); n == 0 || s.Episodes[n-1].Number != t.Episode {
		s.Episodes = append(s.Episodes, Episode{Number: t.Episode})
	}
	e := &s.Episodes[len(s.Episodes)-1]
	e.Labels += labels
	if t.Step >= 1 { // no action led to step 0, the reset
		e.Return += t.Reward
		e.Steps = max(e.Steps, t.Step)
	}
}

// summary returns the Summary. Timing in lockstep is meaningless and stays 0.
func (s *tally) summary(clock Clock) Summary {
	s.Counts, s.Duration = s.counter.Counts, time.Duration(s.last-s.first)
	if !clock.Simulated && s.Ticks > 0 {
		s.Late, s.Busy = s.counter.Late(), s.counter.Busy()
	}
	return s.Summary
}

// Summarise reads the whole log. It skips damaged parts and returns them.
func Summarise(r *Reader) (Summary, []error, error) {
	s := newTally()
	damage, err := r.each(func(record *Record) error {
		s.add(record)
		return nil
	})
	return s.summary(r.meta.Clock), damage, err
}

// LabelsText returns the outcomes of the labels as text.
func (s *Summary) LabelsText() string {
	if len(s.Labels) == 0 {
		return "none"
	}
	var parts []string
	for _, o := range slices.Sorted(maps.Keys(s.Labels)) {
		text := Grouped(s.Labels[o]) + " " + o.String()
		if o == controller.Applied && s.Undone > 0 {
			text += fmt.Sprintf(" (%s of them undos)", Grouped(s.Undone))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// Grouped formats n with a comma between every three digits.
func Grouped(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
