package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"optibfm/internal/shm"
	"optibfm/rtloop"
)

// activity is something that the host process does and that may hold it up. Each
// has a word of the segment, which says when it last started or finished.
type activity int

const (
	plannerSearch activity = iota
	recorderRound          // one look at everything that the recorder takes
	logWrite
	logSync
	labelIntake
	beliefSave
	displayUpdate
	numActivities
)

var activityNames = [numActivities]string{
	"planner search", "recorder round", "log write", "log sync", "label intake", "belief save", "display",
}

// activityLimits are how long an activity may take before the host stops beating;
// 0: its length does not matter by itself. The tick ring holds as much.
var activityLimits = [numActivities]time.Duration{plannerSearch: tickStall, recorderRound: tickStall}

// hostSteps are the words of all activities: the time in CLOCK_MONOTONIC
// nanoseconds, shifted left by one, and 1 while the activity is in progress.
type hostSteps [numActivities]*atomic.Uint64

func openHostSteps(segment *shm.Segment) (s hostSteps, err error) {
	var errs [numActivities]error
	for a := range s {
		s[a], errs[a] = segment.Word(wordActivity(activity(a)))
	}
	return s, errors.Join(errs[:]...)
}

func wordActivity(a activity) string { return "host " + activityNames[a] }

// note notes that an activity starts or ends.
func (s *hostSteps) note(a activity, running bool) {
	word := uint64(rtloop.Now()) << 1
	if running {
		word |= 1
	}
	s[a].Store(word)
}

// alive reports whether no activity takes longer than its limit.
func (s *hostSteps) alive(now int64) bool {
	for a, limit := range activityLimits {
		word := s[a].Load()
		if limit > 0 && word&1 == 1 && now-int64(word>>1) > int64(limit) {
			return false
		}
	}
	return true
}

// hostStall is a host that held the robot up, and what it last did. The control
// thread makes it, and whoever prints it formats it.
type hostStall struct {
	err   error // what was found
	at    int64 // when
	beat  uint64
	words [numActivities]uint64
}

// stall copies what the host last did.
func (w *words) stall(err error) *hostStall {
	h := &hostStall{err: err, at: rtloop.Now(), beat: w.hostBeat.Load()}
	for a := range h.words {
		h.words[a] = w.steps[a].Load()
	}
	return h
}

func (h *hostStall) Error() string {
	return fmt.Sprintf("%v; last heartbeat %s; last: %s", h.err, h.ago(int64(h.beat)), h.doing())
}

// Unwrap returns what was found.
func (h *hostStall) Unwrap() error { return h.err }

// doing lists what was in progress, the longest first, then what had finished, the
// newest first.
func (h *hostStall) doing() string {
	order := make([]activity, 0, numActivities)
	for a := range numActivities {
		if h.words[a] != 0 {
			order = append(order, a)
		}
	}
	slices.SortStableFunc(order, func(a, b activity) int {
		x, y := h.words[a], h.words[b]
		if x&1 != y&1 {
			return cmp.Compare(y&1, x&1)
		}
		if x&1 == 1 {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(y, x)
	})
	var parts []string
	for _, a := range order {
		verb := "finished"
		if h.words[a]&1 == 1 {
			verb = "started"
		}
		parts = append(parts, fmt.Sprintf("%s %s %s", activityNames[a], verb, h.ago(int64(h.words[a]>>1))))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// ago says how long ago a moment was, which the host wrote: it may be anything.
func (h *hostStall) ago(moment int64) string {
	if moment == 0 {
		return "never"
	}
	const future = int64(time.Second) // two processes, one clock
	since := h.at - moment
	if moment < 0 || since < -future {
		return "at an impossible time"
	}
	return max(time.Duration(since), 0).Round(time.Millisecond).String() + " ago"
}
