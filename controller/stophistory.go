package controller

import (
	"math"

	"optibfm/rewardsrc"
)

// StopHistory remembers when the robot was stopped. A reward counts only if it
// is about states that were sensed while the robot was not stopped: a stopped
// robot shows the same state until an operator resets it. The label intake of
// the host process and the agent apply this one rule.
//
// It holds the newest stretches of time without a stop. A reward about an older
// moment does not count.
type StopHistory struct {
	windows   windows
	stretches [4]stretch // a ring
	newest    int
	stopped   bool
}

// stretch is a time without a stop: the ticks in [firstTick, endTick), whose
// states were sensed in [from, to).
type stretch struct {
	firstTick, endTick uint64
	from, to           int64
}

// NewStopHistory returns the history of a robot that was not stopped yet.
func NewStopHistory(credit CreditConfig) *StopHistory {
	h := &StopHistory{windows: newWindows(credit)}
	h.stretches[0] = stretch{endTick: math.MaxUint64, from: math.MinInt64, to: math.MaxInt64}
	return h
}

// Note notes whether the robot was stopped when the state of a tick was sensed.
// Ticks count up.
func (h *StopHistory) Note(tick uint64, sensedAt int64, stopped bool) {
	if stopped == h.stopped {
		return
	}
	h.stopped = stopped
	if stopped {
		s := &h.stretches[h.newest]
		s.endTick, s.to = tick, sensedAt
		return
	}
	h.newest = (h.newest + 1) % len(h.stretches)
	h.stretches[h.newest] = stretch{firstTick: tick, endTick: math.MaxUint64, from: sensedAt, to: math.MaxInt64}
}

// Admits reports whether a label may count. An undo and a "can't tell" always
// may: they teach nothing about a state. An answer always may: a robot that is
// stopped asks nothing.
func (h *StopHistory) Admits(l rewardsrc.Label) bool {
	if l.Kind != rewardsrc.Value || l.Request != 0 {
		return true
	}
	since, until := h.windows.of(l)
	for _, s := range h.stretches {
		if l.Tick != rewardsrc.NoTick && s.firstTick <= l.Tick && l.Tick < s.endTick {
			return true
		}
		if l.Tick == rewardsrc.NoTick && s.from <= since && until < s.to {
			return true
		}
	}
	return false
}
