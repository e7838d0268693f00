package main

import (
	"errors"
	"fmt"

	"optibfm/flightlog"
	"optibfm/rewardsrc"
)

// desk is where labels are written down: each gets its ID, is made durable,
// and only then goes on and is acknowledged to the operator.
type desk struct {
	source rewardsrc.Source
	log    *flightlog.Writer // nil: the run is not recorded
	lastID uint64
	tally  *tally
	notify func(rewardsrc.Label, error) // shows what became of a label; may be nil

	answersOnly bool // a reward that nobody asked for is refused
}

// errNotAsked refuses a press that answers nothing, where only answers count.
var errNotAsked = errors.New("nothing was asked (operator.label_mode: per_request)")

// ask records a request notice and shows it to the operator.
func (d *desk) ask(r rewardsrc.Request) error {
	d.tally.request(r)
	d.source.Ask(r)
	if d.log == nil {
		return nil
	}
	return d.log.WriteRequest(r)
}

// pass makes a label durable, hands it to next, and tells the operator. A label
// that cannot be written down, or that next does not take, is refused. Once
// written it is in the log; next must therefore only fail when the run is over.
func (d *desk) pass(label rewardsrc.Label, next func(rewardsrc.Label) error) {
	label.ID = d.lastID + 1
	err := d.admit(label)
	if err == nil {
		err = d.record(label)
	}
	if err == nil {
		d.lastID++
		err = next(label)
	}
	if ack, ok := d.source.(rewardsrc.Acknowledger); ok {
		if err != nil {
			ack.Refuse(label, err)
		} else {
			ack.Acknowledge(label)
		}
	}
	if d.notify != nil {
		d.notify(label, err)
	}
}

// admit refuses what the label mode does not take. A press that came too late
// for its request names the tick: it was meant as an answer.
func (d *desk) admit(label rewardsrc.Label) error {
	if d.answersOnly && label.Kind == rewardsrc.Value && label.Request == 0 && label.Tick == rewardsrc.NoTick {
		return errNotAsked
	}
	return nil
}

func (d *desk) record(label rewardsrc.Label) error {
	if d.log == nil {
		return nil
	}
	if err := d.log.WriteLabel(label); err != nil {
		return fmt.Errorf("%v %d was not written down: %w", label.Kind, label.ID, err)
	}
	return nil
}

// lockstepSource is the desk as the agent's source, in one process.
type lockstepSource struct {
	desk    *desk
	watcher rewardsrc.Watcher // may be nil
	err     error             // the first request that could not be recorded
}

func newLockstepSource(d *desk) *lockstepSource {
	s := &lockstepSource{desk: d}
	s.watcher, _ = d.source.(rewardsrc.Watcher)
	return s
}

// Ask implements rewardsrc.Source.
func (s *lockstepSource) Ask(r rewardsrc.Request) {
	if err := s.desk.ask(r); err != nil && s.err == nil {
		s.err = err
	}
}

// Poll implements rewardsrc.Source.
func (s *lockstepSource) Poll(dst []rewardsrc.Label) int {
	polled := dst[:s.desk.source.Poll(dst)]
	n := 0
	for _, label := range polled {
		s.desk.pass(label, func(durable rewardsrc.Label) error {
			dst[n] = durable
			n++
			return nil
		})
	}
	return n
}

// Halt implements rewardsrc.Source.
func (s *lockstepSource) Halt() error { return s.desk.source.Halt() }

// Watch implements rewardsrc.Watcher.
func (s *lockstepSource) Watch(tick uint64, at int64, reward float64, ok bool) {
	if s.watcher != nil {
		s.watcher.Watch(tick, at, reward, ok)
	}
}
