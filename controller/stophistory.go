package controller

import (
	"math"

	"optibfm/rewardsrc"
)

// StopHistory records when the robot was stopped. A reward counts only if it is
// about states that were sensed while the robot was not stopped: a stopped robot
// shows the same state until an operator resets it. The label intake of the host
// process and the agent both apply this rule.
//
// StopHistory holds the newest intervals without a stop. A reward about an older
// moment does not count.
type StopHistory struct {
	windows   windows
	intervals [16]interval // a ring; arming with a start pose uses one, and a rest pose another
	newest    int
	stopped   bool
}

// interval is a time without a stop: the ticks in [firstTick, endTick), with
// states sensed in [from, to).
type interval struct {
	firstTick, endTick uint64
	from, to           int64
}

// NewStopHistory returns the history of a robot without a stop.
func NewStopHistory(credit CreditConfig) *StopHistory {
	h := &StopHistory{windows: newWindows(credit)}
	h.intervals[0] = interval{endTick: math.MaxUint64, from: math.MinInt64, to: math.MaxInt64}
	return h
}

// Note records whether the robot was stopped when the state of a tick was
// sensed. Ticks increase.
func (h *StopHistory) Note(tick uint64, sensedAt int64, stopped bool) {
	if stopped == h.stopped {
		return
	}
	h.stopped = stopped
	if stopped {
		s := &h.intervals[h.newest]
		s.endTick, s.to = tick, sensedAt
		return
	}
	h.newest = (h.newest + 1) % len(h.intervals)
	h.intervals[h.newest] = interval{firstTick: tick, endTick: math.MaxUint64, from: sensedAt, to: math.MaxInt64}
}

// RunUntil returns the end of the run without a stop that contains a tick: the time of the first
// stopped state, ns, MaxInt64 while the run continues, 0 for an unknown tick.
func (h *StopHistory) RunUntil(tick uint64) (until int64) {
	for _, s := range h.intervals {
		if s.firstTick <= tick && tick < s.endTick {
			return s.to
		}
	}
	return 0
}

// Admits reports whether a label may count. An undo, a "can't tell" and an answer
// to a request always may: the first two are not rewards, and a stopped robot
// does not ask.
func (h *StopHistory) Admits(l rewardsrc.Label) bool {
	if !l.Kind.Teaches() || l.Request != 0 {
		return true
	}
	since, until := h.windows.interval(l)
	if l.Kind == rewardsrc.Comparison {
		since -= h.windows.compared
	}
	for _, s := range h.intervals {
		if l.Tick != rewardsrc.NoTick && s.firstTick <= l.Tick && l.Tick < s.endTick {
			return true
		}
		if l.Tick == rewardsrc.NoTick && s.from <= since && until < s.to {
			return true
		}
	}
	return false
}
