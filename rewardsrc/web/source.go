package web

import (
	"sync/atomic"
	"time"

	"optibfm/rewardsrc"
)

// queueLen is how many presses can wait for a Poll.
const queueLen = 64

// press is a button that somebody pressed, with its moment in the robot's time.
type press struct {
	id       uint64 // the browser's
	kind     rewardsrc.Kind
	mode     rewardsrc.Mode
	value    float64
	at       int64
	wrong    int64  // at most, of at
	request  uint64 // that the person saw, 0 for none
	tooQuick bool   // sooner after the request appeared than a person reacts
	late     bool   // it arrived later than max_late_s
}

// desk is the half of the server that the methods of [rewardsrc.Source] work
// on. They belong to one goroutine and wait for nobody: presses come through a
// bounded queue, and what browsers are to know is published by exchanging a
// pointer. How many browsers there are makes no difference to it.
type desk struct {
	mode    Mode
	period  time.Duration
	now     func() int64
	changed chan struct{} // wakes the broadcaster; capacity 1

	requests requestBook
	polled   []press // handed out, and not acknowledged or refused yet
	board    board

	presses   chan press
	published atomic.Pointer[board]
	view      atomic.Pointer[View]
}

func newDesk(mode Mode, period time.Duration, now func() int64) *desk {
	d := &desk{
		mode: mode, period: period, now: now,
		changed: make(chan struct{}, 1), presses: make(chan press, queueLen),
		polled: make([]press, 0, queueLen),
	}
	d.published.Store(&board{})
	d.view.Store(&View{})
	return d
}

// Ask implements [rewardsrc.Source].
func (d *desk) Ask(r rewardsrc.Request) {
	d.requests.note(r)
	switch {
	case r.State == rewardsrc.Open:
		d.board.request = openRequest{
			id: r.ID, at: r.At, asked: d.now(), dgap: r.DGap,
			expires: r.At + int64(r.Until-r.Tick)*int64(d.period),
		}
	case r.ID == d.board.request.id:
		d.board.request = openRequest{}
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
			label, reason := d.label(p)
			if reason != "" {
				d.settle(outcome{Press: p.id, Status: statusRefused, Text: reason})
				continue
			}
			dst[n] = label
			n++
			if len(d.polled) == queueLen { // nobody acknowledges
				d.takePolled()
			}
			d.polled = append(d.polled, p)
		default:
			return n
		}
	}
	return n
}

// label makes the label of a press, or says why there is none.
func (d *desk) label(p press) (l rewardsrc.Label, reason string) {
	l = rewardsrc.Label{Kind: p.kind, Mode: p.mode, Tick: rewardsrc.NoTick, At: p.at, Value: p.value}
	if p.kind == rewardsrc.Undo {
		return l, ""
	}
	if p.request != 0 && !p.tooQuick {
		return d.answer(l, p)
	}
	switch {
	case p.kind == rewardsrc.CantTell:
		return l, "nothing is asked"
	case d.mode == PerRequest && p.tooQuick:
		return l, "pressed before the question could be read"
	case d.mode == PerRequest:
		return l, "nothing is asked"
	case p.late:
		return l, "it arrived too late to say what it was about"
	}
	return l, ""
}

// answer makes l the answer to the request that the person saw.
func (d *desk) answer(l rewardsrc.Label, p press) (_ rewardsrc.Label, reason string) {
	r := d.requests.find(p.request)
	switch {
	case r == nil:
		return l, "that question is long gone"
	case r.State == rewardsrc.Answered:
		return l, "that question was answered already"
	case p.at+p.wrong < r.At:
		return l, "it was pressed before the question was asked"
	}
	l.Request, l.Tick = r.ID, r.Tick
	r.State = rewardsrc.Answered
	if d.board.request.id == r.ID { // the robot will say so too, a tick later
		d.board.request = openRequest{}
		d.publish()
	}
	return l, ""
}

// Acknowledge implements [rewardsrc.Acknowledger].
func (d *desk) Acknowledge(l rewardsrc.Label) {
	d.settle(outcome{Press: d.takePolled(), Status: statusSaved, Label: l.ID})
}

// Refuse implements [rewardsrc.Acknowledger].
func (d *desk) Refuse(_ rewardsrc.Label, reason error) {
	d.settle(outcome{Press: d.takePolled(), Status: statusRefused, Text: reason.Error()})
}

// takePolled returns the press of the label that was settled: labels are
// settled in the order in which they were polled.
func (d *desk) takePolled() (id uint64) {
	if len(d.polled) == 0 {
		return 0
	}
	id = d.polled[0].id
	d.polled = d.polled[:copy(d.polled, d.polled[1:])]
	return id
}

func (d *desk) settle(o outcome) {
	d.board.outcomes = with(d.board.outcomes, o, maxOutcomes)
	d.publish()
}

// Settle tells what the robot made of a label that was acknowledged: it is in
// the belief, or it does not count, and why. trust is the share of its weight that
// one in the belief was given, in (0, 1], 0 where labels are not doubted. It is
// called by the goroutine that calls Poll and never blocks.
func (d *desk) Settle(label uint64, counted bool, why string, trust float64) {
	for i, o := range d.board.outcomes {
		if o.Label != label || label == 0 {
			continue
		}
		o.Status, o.Trust = statusCounted, Number(trust)
		if !counted {
			o.Status, o.Text, o.Trust = statusRefused, why, 0
		}
		fresh := append([]outcome(nil), d.board.outcomes...)
		fresh[i] = o
		d.board.outcomes = fresh
		d.publish()
		return
	}
}

// Show replaces what the live view shows. It is called by the goroutine that
// calls Poll, a few times a second, and never blocks.
func (d *desk) Show(v View) { d.view.Store(&v) }

// Note shows an event. It is called by the goroutine that calls Poll and never
// blocks.
func (d *desk) Note(level Level, text string) {
	d.board.events = with(d.board.events, event{d.now(), level, text}, maxEvents)
	d.publish()
}

// end says that no more labels are taken, and why.
func (d *desk) end(why string) {
	d.board.ended, d.board.request = why, openRequest{}
	d.publish()
}

// publish makes the board visible to the broadcaster.
func (d *desk) publish() {
	b := d.board
	d.published.Store(&b)
	wake(d.changed)
}

// wake makes whoever receives from c look again.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// offer hands a press to Poll. It reports false where too many wait.
func (d *desk) offer(p press) bool {
	select {
	case d.presses <- p:
		return true
	default:
		return false
	}
}
