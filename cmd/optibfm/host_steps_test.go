package main

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/shm"
	"optibfm/rtloop"
)

// newHeapWords is the words of a segment in ordinary memory.
func newHeapWords(t *testing.T) *words {
	t.Helper()
	segment, err := shm.New(segmentLayout(controller.Shape{Obs: 1, Action: 1, Latent: 1}, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	w, err := openWords(segment)
	if err != nil {
		t.Fatal(err)
	}
	return &w
}

func TestHostStall_ListsWhatTheHostDoesAndDidLast(t *testing.T) {
	const now = int64(time.Hour)
	ago := func(d time.Duration, running uint64) uint64 { return uint64(now-int64(d))<<1 | running }
	h := hostStall{err: errHostSilent, at: now, beat: uint64(now - int64(1200*time.Millisecond))}
	h.words[logWrite] = ago(1100*time.Millisecond, 0)
	h.words[plannerSearch] = ago(1300*time.Millisecond, 1)
	h.words[recorderRound] = ago(1050*time.Millisecond, 0)
	h.words[logSync] = ago(3*time.Second, 1)
	want := errHostSilent.Error() + "; last heartbeat 1.2s ago; " +
		"last: log sync started 3s ago, planner search started 1.3s ago, recorder round finished 1.05s ago, log write finished 1.1s ago"
	if got := h.Error(); got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
	if !errors.Is(&h, errHostSilent) {
		t.Error("it does not wrap what was found")
	}
}

func TestHostStall_BearsWhateverTheHostWrites(t *testing.T) {
	w := newHeapWords(t)
	ahead := uint64(rtloop.Now()+int64(time.Hour))<<1 | 1
	for _, value := range []uint64{0, 1, 2, 3, 1 << 63, math.MaxUint64, math.MaxUint64 - 1, ahead} {
		w.hostBeat.Store(value)
		for _, word := range w.steps {
			word.Store(value)
		}
		if text := w.stall(errHostGone).Error(); len(text) > 1000 || strings.Contains(text, "-") {
			t.Errorf("%#x: %s", value, text)
		}
	}
	if text := w.stall(errHostGone).Error(); !strings.Contains(text, "planner search started at an impossible time") {
		t.Errorf("an hour ahead: %s", text)
	}
}

func TestHostSteps_AliveWhileNoLimitedStepIsTooLong(t *testing.T) {
	for a := range numActivities {
		w := newHeapWords(t)
		started := rtloop.Now()
		w.steps.note(a, true)
		within, beyond := started+int64(tickStall/2), started+int64(tickStall)+int64(time.Second)
		if !w.steps.alive(within) {
			t.Errorf("%s: not alive within its limit", activityNames[a])
		}
		if got, want := w.steps.alive(beyond), activityLimits[a] == 0; got != want {
			t.Errorf("%s: alive %t beyond %v", activityNames[a], got, tickStall)
		}
		w.steps.note(a, false)
		if !w.steps.alive(beyond) {
			t.Errorf("%s: not alive after it finished", activityNames[a])
		}
	}
	if activityLimits[plannerSearch] == 0 || activityLimits[recorderRound] == 0 {
		t.Error("the heartbeat does not depend on planner and recorder")
	}
}

func TestControl_SaysWhatASilentHostDidLast(t *testing.T) {
	e := newTwoEnds(t, testSession(t, func(f *configs.File) { f.Run.HostTimeoutS, f.Run.SimulatorWaitS = 0.5, 0 }))
	for range 5 {
		if err := e.tick(); err != nil {
			t.Fatal(err)
		}
	}
	e.host.steps.note(logWrite, true)
	e.host.steps.note(logWrite, false)
	e.host.steps.note(plannerSearch, true)
	var err error
	for err == nil {
		err = e.beat(rtloop.Beat{Index: e.beats, Elapsed: 1})
		e.beats++
	}
	wantFault(t, err, controller.FaultHost)
	for _, want := range []string{"last heartbeat ", "planner search started ", "log write finished "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestHost_SearchLeavesSchedulerSlotsToTheRest(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	if got := addSlots(); got != before {
		t.Errorf("the search gets %d threads of %d", got, before)
	}
	if got := runtime.GOMAXPROCS(0); got != before+2 {
		t.Errorf("%d slots for a search of %d threads, want 2 more", got, before)
	}
}
