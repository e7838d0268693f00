package host

import (
	"errors"
	"sync/atomic"
	"time"

	"optibfm/rewardsrc"
)

// attendance decides whether the person who labels is there. The control process opens no request
// while the operator is away (FlagUnreachable). In two cases the operator counts as away before the
// device goes away:
//
//   - before the first input, if the run waits for it: a simulator then stands still
//   - if the moment of a request is not visible, so that it is about the present: before the first
//     input, and after three missed requests in a row without a recent input, until the next one
//
// Any key or press is an input. The zero value is an operator who is always there.
type attendance struct {
	awaitsFirst bool         // no request before the first input
	blind       bool         // the moment of a request is not visible
	inputAt     atomic.Int64 // CLOCK_MONOTONIC, ns; 0: no input yet
	missed      int          // requests that expired in a row since the last input
}

const (
	maxMissed   = 3
	recentInput = int64(30 * time.Second) // for so long, missed requests show no absence
)

// errStarts refuses the press that starts a simulator: it is about a robot that does not move.
var errStarts = errors.New("it started the robot; press again to label")

// input notes an input. Any goroutine may call it.
func (a *attendance) input(now int64) { a.inputAt.Store(now) }

// note notes a request that ended.
func (a *attendance) note(r rewardsrc.Request) {
	switch r.State {
	case rewardsrc.Expired:
		a.missed++
	case rewardsrc.Answered:
		a.missed = 0
	}
}

// away reports whether the operator counts as away.
func (a *attendance) away(now int64) bool {
	at := a.inputAt.Load()
	switch {
	case at == 0:
		return a.awaitsFirst || a.blind
	case now-at < recentInput:
		a.missed = 0
	}
	return a.blind && a.missed >= maxMissed
}

// starts reports whether the next input starts the robot.
func (a *attendance) starts() bool { return a.awaitsFirst && a.inputAt.Load() == 0 }
