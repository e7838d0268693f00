package rewardsrc

// Attribution decides what a press on a device is about: the open request, or
// the moments before the press. Devices share it, so that they answer alike.
// The zero value is ready to use; it is for one goroutine.
type Attribution struct {
	// Reaction is how soon after a request was shown a press can be its
	// answer, in nanoseconds: a person cannot see, judge and press faster.
	// An earlier press was on its way already and is an unasked label.
	Reaction int64

	open      Request // ID 0: none
	shown     int64
	expired   Request
	expiredAt int64
	expShown  int64
}

// Ask takes note of a request that was shown, or closed, at now
// (CLOCK_MONOTONIC nanoseconds).
func (a *Attribution) Ask(r Request, now int64) {
	switch {
	case r.State == Open:
		a.open, a.shown = r, now
	case r.ID != a.open.ID:
	case r.State == Expired:
		a.expired, a.expShown, a.expiredAt = a.open, a.shown, now
		a.open = Request{}
	default:
		a.open = Request{}
	}
}

// Wanted reports whether a request is open that nothing has answered yet.
func (a *Attribution) Wanted() bool { return a.open.ID != 0 }

// Label makes the label of a press at a moment. A Value or CantTell that comes
// while a request is open answers it; further ones are unasked. A press
// from before a request expired that is looked at only now is still about the
// request's tick. ok is false for a CantTell that nobody asked for.
func (a *Attribution) Label(kind Kind, value float64, at int64) (l Label, ok bool) {
	l = Label{Kind: kind, Tick: NoTick, At: at, Value: value}
	switch {
	case kind == Undo:
		return l, true
	case a.open.ID != 0 && at >= a.shown+a.Reaction:
		l.Request, l.Tick = a.open.ID, a.open.Tick
		a.open = Request{}
	case a.expired.ID != 0 && at >= a.expShown+a.Reaction && at < a.expiredAt:
		l.Tick = a.expired.Tick
		a.expired = Request{}
	}
	return l, kind != CantTell || l.Request != 0
}
