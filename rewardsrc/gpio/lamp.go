package gpio

import (
	"math"
	"slices"

	"optibfm/rewardsrc/panel"
)

// pattern is a sequence of on and off durations in ns, beginning with on.
type pattern struct {
	turns []int64
	loop  bool
}

const ms = int64(1e6)

// The patterns of the outputs.
var patterns = [NumOutputs]map[panel.Signal]pattern{
	LED: {
		panel.Asking:       {turns: []int64{250 * ms, 250 * ms}, loop: true},
		panel.Acknowledged: {turns: []int64{400 * ms, 100 * ms}},
		panel.Refused:      {turns: slices.Repeat([]int64{80 * ms}, 10)},
	},
	Buzzer: {
		panel.Asking:       {turns: []int64{80 * ms}},
		panel.Acknowledged: {turns: []int64{40 * ms, 60 * ms, 40 * ms}},
		panel.Refused:      {turns: []int64{500 * ms}},
	},
}

// at returns whether the pattern is on at a time since its beginning, and for how
// much longer; done reports that it is over.
func (p pattern) at(since int64) (on bool, left int64, done bool) {
	total := int64(0)
	for _, t := range p.turns {
		total += t
	}
	if total == 0 || !p.loop && since >= total {
		return false, math.MaxInt64, true
	}
	since %= total
	for i, t := range p.turns {
		if since < t {
			return i%2 == 0, t - since, false
		}
		since -= t
	}
	return false, math.MaxInt64, true
}

// lamp shows signals at one output. A momentary signal interrupts Asking.
type lamp struct {
	patterns map[panel.Signal]pattern
	asking   bool
	askedAt  int64
	moment   panel.Signal // 0: none
	since    int64
}

func (l *lamp) signal(s panel.Signal, now int64) {
	switch s {
	case panel.Asking:
		l.asking, l.askedAt = true, now
	case panel.Idle:
		l.asking = false
	default:
		l.moment, l.since = s, now
	}
}

// show returns the state of the output, and until when it holds.
func (l *lamp) show(now int64) (on bool, until int64) {
	if l.moment != 0 {
		on, left, done := l.patterns[l.moment].at(now - l.since)
		if !done {
			return on, now + left
		}
		l.moment = 0
	}
	if !l.asking {
		return false, math.MaxInt64
	}
	on, left, done := l.patterns[panel.Asking].at(now - l.askedAt)
	if done {
		return false, math.MaxInt64
	}
	return on, now + left
}
