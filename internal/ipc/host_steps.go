package ipc

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"optibfm/internal/ipc/shm"
	"optibfm/rtloop"
)

// Activity is work of the host process that may delay the robot. Each activity has a word of the
// segment with the time at which it last started or finished.
type Activity int

// The activities. A round is everything between two waits of a goroutine.
const (
	PlannerRound Activity = iota
	RecorderRound
	PlannerSearch
	LogWrite
	LogSync
	Intake
	BeliefSave
	DisplayUpdate
	NumActivities
)

// ActivityNames are the names in messages.
var ActivityNames = [NumActivities]string{
	"planner round", "recorder round", "planner search",
	"log write", "log sync", "label intake", "belief save", "display",
}

// HostSteps are the words of all activities: the time in CLOCK_MONOTONIC nanoseconds, shifted left
// by one, and 1 while the activity is in progress.
type HostSteps [NumActivities]*atomic.Uint64

func openHostSteps(segment *shm.Segment) (s HostSteps, err error) {
	var errs [NumActivities]error
	for a := range s {
		s[a], errs[a] = segment.Word(wordActivity(Activity(a)))
	}
	return s, errors.Join(errs[:]...)
}

func wordActivity(a Activity) string { return "host " + ActivityNames[a] }

// Note notes that an activity starts or ends. A nil receiver notes nothing.
func (s *HostSteps) Note(a Activity, running bool) {
	if s == nil {
		return
	}
	word := uint64(rtloop.Now()) << 1
	if running {
		word |= 1
	}
	s[a].Store(word)
}

// Alive reports whether planner and recorder make progress: whether each has started or finished a
// round in the last TickStall. The tick ring holds as much. A goroutine without a first round
// counts as alive.
func (s *HostSteps) Alive(now int64) bool {
	for _, a := range [...]Activity{PlannerRound, RecorderRound} {
		if word := s[a].Load(); word != 0 && now-int64(word>>1) > int64(TickStall) {
			return false
		}
	}
	return true
}

// HostStall is the error of a host process that stalled, with its last activities. The control
// thread creates it without formatting.
type HostStall struct {
	Err   error // the symptom
	At    int64 // time, ns
	Beat  uint64
	Words [NumActivities]uint64
}

// Stall copies the last activities.
func (w *Words) Stall(err error) *HostStall {
	h := &HostStall{Err: err, At: rtloop.Now(), Beat: w.HostBeat.Load()}
	for a := range h.Words {
		h.Words[a] = w.Steps[a].Load()
	}
	return h
}

func (h *HostStall) Error() string {
	return fmt.Sprintf("%v; last heartbeat %s; last: %s", h.Err, h.ago(int64(h.Beat)), h.doing())
}

// Unwrap returns the symptom.
func (h *HostStall) Unwrap() error { return h.Err }

// doing lists activities in progress, the longest first, then finished ones, the newest first.
func (h *HostStall) doing() string {
	order := make([]Activity, 0, NumActivities)
	for a := range NumActivities {
		if h.Words[a] != 0 {
			order = append(order, a)
		}
	}
	slices.SortStableFunc(order, func(a, b Activity) int {
		x, y := h.Words[a], h.Words[b]
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
		if h.Words[a]&1 == 1 {
			verb = "started"
		}
		parts = append(parts, fmt.Sprintf("%s %s %s", ActivityNames[a], verb, h.ago(int64(h.Words[a]>>1))))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// ago formats the age of a time that the host process wrote. It may have any value.
func (h *HostStall) ago(moment int64) string {
	if moment == 0 {
		return "never"
	}
	const future = int64(time.Second) // two processes, one clock
	since := h.At - moment
	if moment < 0 || since < -future {
		return "at an impossible time"
	}
	return max(time.Duration(since), 0).Round(time.Millisecond).String() + " ago"
}
