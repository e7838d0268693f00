package web

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"optibfm/rewardsrc"
)

// queueLen is the number of presses that can wait for a Poll.
const queueLen = 64

// press is a press on a page, in the robot's time.
type press struct {
	rewardsrc.Input
	id          uint64 // the browser's
	uncertainty int64  // of Input.At, ns
	request     uint64 // on the page when the button was pressed, 0 for none
	tooQuick    bool   // within reaction_ms of the appearance of the request
	late        bool   // it arrived later than max_late_s
}

// desk is the half of the server that implements [rewardsrc.Source]. One
// goroutine calls its methods, and they never block: presses arrive in a bounded
// queue, and the browsers read a snapshot behind an atomic pointer. The number
// of browsers makes no difference.
type desk struct {
	mode    Mode
	period  time.Duration
	now     func() int64
	changed chan struct{} // wakes the broadcaster; capacity 1

	attribution rewardsrc.Attribution
	polled      []uint64 // IDs of the presses without an outcome
	snapshot    snapshot

	presses   chan press
	published atomic.Pointer[snapshot]
	view      atomic.Pointer[View]
}

func newDesk(mode Mode, period time.Duration, now func() int64) *desk {
	d := &desk{
		mode: mode, period: period, now: now,
		changed: make(chan struct{}, 1), presses: make(chan press, queueLen),
		polled: make([]uint64, 0, queueLen),
	}
	d.published.Store(&snapshot{})
	d.view.Store(&View{})
	return d
}

// Ask implements [rewardsrc.Source].
func (d *desk) Ask(r rewardsrc.Request) {
	d.attribution.Ask(r, d.now())
	switch {
	case r.State == rewardsrc.Open:
		d.snapshot.request = openRequest{
			id: r.ID, at: r.At, asked: d.now(), dgap: r.DGap,
			expires: r.At + int64(r.Until-r.Tick)*int64(d.period),
		}
	case r.ID == d.snapshot.request.id:
		d.snapshot.request = openRequest{}
	default:
		return
	}
	d.publish()
}

// Poll implements [rewardsrc.Source].
func (d *desk) Poll(dst []rewardsrc.Label) int {
	n := 0
	for n < len(dst) {
		select {
		case p := <-d.presses:
			label, err := d.label(p)
			if err != nil {
				d.settle(outcome{Press: p.id, Status: statusRefused, Text: err.Error()})
				continue
			}
			dst[n] = label
			n++
			if len(d.polled) == queueLen { // outcomes are missing
				d.takePolled()
			}
			d.polled = append(d.polled, p.id)
		default:
			return n
		}
	}
	return n
}

// The reasons why a press gives no label. They are shown to the operator.
var (
	errNothingAsked = errors.New("nothing is asked")
	errTooQuick     = errors.New("pressed before the question could be read")
	errLate         = errors.New("it arrived too late to say what it was about")
)

// label makes the label of a press.
func (d *desk) label(p press) (rewardsrc.Label, error) {
	switch {
	case p.Kind == rewardsrc.Undo || p.Kind == rewardsrc.Keep:
	case p.request != 0 && !p.tooQuick:
		l, err := d.attribution.Answer(p.Input, p.request, p.uncertainty)
		if err == nil && d.snapshot.request.id == l.Request { // do not wait for the robot's Answered
			d.snapshot.request = openRequest{}
			d.publish()
		}
		return l, err
	case p.Kind == rewardsrc.CantTell:
		return rewardsrc.Label{}, errNothingAsked
	case d.mode == PerRequest && p.tooQuick:
		return rewardsrc.Label{}, errTooQuick
	case p.late:
		return rewardsrc.Label{}, errLate
	}
	return p.Unasked(), nil
}

// Acknowledge implements [rewardsrc.Acknowledger].
func (d *desk) Acknowledge(l rewardsrc.Label) {
	d.settle(outcome{Press: d.takePolled(), Status: statusSaved, Label: l.ID})
}

// Refuse implements [rewardsrc.Acknowledger].
func (d *desk) Refuse(_ rewardsrc.Label, reason error) {
	d.settle(outcome{Press: d.takePolled(), Status: statusRefused, Text: reason.Error()})
}

// takePolled returns the press of the oldest label without an outcome. Outcomes
// come in the order in which the labels were polled.
func (d *desk) takePolled() (id uint64) {
	if len(d.polled) == 0 {
		return 0
	}
	id = d.polled[0]
	d.polled = d.polled[:copy(d.polled, d.polled[1:])]
	return id
}

func (d *desk) settle(o outcome) {
	d.snapshot.outcomes = with(d.snapshot.outcomes, o, maxOutcomes)
	d.publish()
}

// Settle reports the final outcome of an acknowledged label: it is in the belief,
// or it does not count, and why. The goroutine that calls Poll
// calls Settle. It never blocks.
func (d *desk) Settle(label uint64, counted bool, why string) {
	d.change(label, func(o *outcome) {
		o.Status = statusCounted
		if !counted {
			o.Status, o.Text = statusRefused, why
		}
	})
}

// Undone reports that an undo removed a label from the belief. The goroutine that calls Poll calls
// Undone. It never blocks.
func (d *desk) Undone(label uint64) {
	d.change(label, func(o *outcome) { o.Status, o.Text = statusUndone, "" })
}

// change changes the outcome of a label, if it is among the newest.
func (d *desk) change(label uint64, to func(*outcome)) {
	i := slices.IndexFunc(d.snapshot.outcomes, func(o outcome) bool { return o.Label == label && label != 0 })
	if i < 0 {
		return
	}
	fresh := slices.Clone(d.snapshot.outcomes)
	to(&fresh[i])
	d.snapshot.outcomes = fresh
	d.publish()
}

// Show replaces the live view. The goroutine that calls Poll calls it a few times
// a second. It never blocks.
func (d *desk) Show(v View) { d.view.Store(&v) }

// Note shows an event. The goroutine that calls Poll calls it. It never blocks.
func (d *desk) Note(level Level, text string) {
	d.snapshot.events = with(d.snapshot.events, event{d.now(), level, text}, maxEvents)
	d.publish()
}

// end reports that no more labels are accepted.
func (d *desk) end(e Ending) {
	d.snapshot.ended, d.snapshot.request = e, openRequest{}
	d.publish()
}

// publish makes the snapshot visible to the broadcaster.
func (d *desk) publish() {
	b := d.snapshot
	d.published.Store(&b)
	wake(d.changed)
}

// wake wakes the receiver of c.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// offer queues a press for Poll. It reports false when the queue is full.
func (d *desk) offer(p press) bool {
	select {
	case d.presses <- p:
		return true
	default:
		return false
	}
}
