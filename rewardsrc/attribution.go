package rewardsrc

import "errors"

// Input is a press, or one sample of a held axis, before it is known which
// state it is about.
type Input struct {
	Kind  Kind
	Mode  Mode
	Value float64 // of a Kind that teaches
	At    int64   // CLOCK_MONOTONIC nanoseconds
}

// Better returns the input "better than a moment ago" of a device with these
// rewards of good and bad, without its time.
func Better(good, bad float64) Input { return Input{Kind: Comparison, Value: (good - bad) / 4} }

// Worse returns the input "worse than a moment ago", the opposite of [Better].
func Worse(good, bad float64) Input { return Input{Kind: Comparison, Value: (bad - good) / 4} }

// AtGoal returns the input "this is it" of a device with these rewards of good
// and bad, without its time.
func AtGoal(good, bad float64) Input { return Input{Kind: Goal, Value: (good - bad) / 2} }

// The errors of [Attribution.Answer]. They are shown to the operator.
var (
	ErrTooOld         = errors.New("that question is long gone")
	ErrAnswered       = errors.New("that question was answered already")
	ErrBeforeQuestion = errors.New("it was pressed before the question was asked")
)

// Attribution decides which state a press is about: that of a request, or the
// moments before the press. Every source uses it. The zero value is ready to
// use; it is for one goroutine.
type Attribution struct {
	// Reaction is the shortest time in which a person can answer a request
	// that was shown, in nanoseconds. An earlier press is unasked.
	Reaction int64

	recent  [8]shownRequest // by ID
	open    uint64          // the ID of the open request, 0 for none
	expired uint64          // the ID of the one that expired last unanswered, 0 for none
}

// shownRequest is a request and the times at which the device showed and closed it.
type shownRequest struct {
	Request
	shown, closed int64
}

// Ask records a request that was shown, or closed, at now (CLOCK_MONOTONIC
// nanoseconds).
func (a *Attribution) Ask(r Request, now int64) {
	slot := &a.recent[r.ID%uint64(len(a.recent))]
	if r.State == Open {
		*slot = shownRequest{Request: r, shown: now}
		a.open = r.ID
		return
	}
	if slot.ID == r.ID {
		slot.State = r.State
	}
	if r.ID != a.open || r.ID != slot.ID {
		return
	}
	a.open = 0
	if r.State == Expired {
		slot.closed, a.expired = now, r.ID
	}
}

// find returns a recent request, nil for an unknown one.
func (a *Attribution) find(id uint64) *shownRequest {
	if r := &a.recent[id%uint64(len(a.recent))]; id != 0 && r.ID == id {
		return r
	}
	return nil
}

// Wanted reports whether a request is open and unanswered.
func (a *Attribution) Wanted() bool { return a.open != 0 }

// Label makes the label of an input on a device that shows the open request.
// The first Value or CantTell while a request is open answers it; further ones
// are unasked. A press from before a request expired is still about the
// request's tick. ok is false for a CantTell without a request.
func (a *Attribution) Label(in Input) (l Label, ok bool) {
	l = in.Unasked()
	if !in.Kind.Answers() {
		return l, true
	}
	if r := a.find(a.open); r != nil && in.At >= r.shown+a.Reaction {
		return a.answer(l, r), true
	}
	if r := a.find(a.expired); r != nil && in.At >= r.shown+a.Reaction && in.At < r.closed {
		l.Tick = r.Tick
		a.expired = 0
	}
	return l, in.Kind != CantTell
}

// Answer makes the label of an input that names the request that it answers,
// also if that request has expired. uncertainty bounds the error of the
// press's time, in nanoseconds.
func (a *Attribution) Answer(in Input, request uint64, uncertainty int64) (Label, error) {
	r := a.find(request)
	switch {
	case r == nil:
		return Label{}, ErrTooOld
	case r.State == Answered:
		return Label{}, ErrAnswered
	case in.At+uncertainty < r.At:
		return Label{}, ErrBeforeQuestion
	}
	return a.answer(in.Unasked(), r), nil
}

func (a *Attribution) answer(l Label, r *shownRequest) Label {
	l.Request, l.Tick = r.ID, r.Tick
	r.State = Answered
	if r.ID == a.open {
		a.open = 0
	}
	return l
}

// Unasked returns the label of an input that answers no request.
func (in Input) Unasked() Label {
	return Label{Kind: in.Kind, Mode: in.Mode, Tick: NoTick, At: in.At, Value: in.Value}
}
