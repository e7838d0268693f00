package control

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/link"
	"optibfm/internal/rigtest"
	"optibfm/rtloop"
)

// newHeapWords is the words of a segment in ordinary memory.
func newHeapWords(t *testing.T) *link.Words {
	t.Helper()
	segment, err := link.New(controller.Shape{Obs: 1, Action: 1, Latent: 1}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	w, err := link.OpenWords(segment)
	if err != nil {
		t.Fatal(err)
	}
	return &w
}

func TestHostStall_ListsWhatTheHostDoesAndDidLast(t *testing.T) {
	const now = int64(time.Hour)
	ago := func(d time.Duration, running uint64) uint64 { return uint64(now-int64(d))<<1 | running }
	h := link.HostStall{Err: errHostSilent, At: now, Beat: uint64(now - int64(1200*time.Millisecond))}
	h.Words[link.LogWrite] = ago(1100*time.Millisecond, 0)
	h.Words[link.PlannerSearch] = ago(1300*time.Millisecond, 1)
	h.Words[link.RecorderRound] = ago(1050*time.Millisecond, 0)
	h.Words[link.LogSync] = ago(3*time.Second, 1)
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
		w.HostBeat.Store(value)
		for _, word := range w.Steps {
			word.Store(value)
		}
		if text := w.Stall(errHostGone).Error(); len(text) > 1000 || strings.Contains(text, "-") {
			t.Errorf("%#x: %s", value, text)
		}
	}
	if text := w.Stall(errHostGone).Error(); !strings.Contains(text, "planner search started at an impossible time") {
		t.Errorf("an hour ahead: %s", text)
	}
}

func TestHostSteps_AliveWhileNoLimitedStepIsTooLong(t *testing.T) {
	for a := range link.NumActivities {
		w := newHeapWords(t)
		started := rtloop.Now()
		w.Steps.Note(a, true)
		within, beyond := started+int64(link.TickStall/2), started+int64(link.TickStall)+int64(time.Second)
		if !w.Steps.Alive(within) {
			t.Errorf("%s: not alive within its limit", link.ActivityNames[a])
		}
		if got, want := w.Steps.Alive(beyond), link.ActivityLimits[a] == 0; got != want {
			t.Errorf("%s: alive %t beyond %v", link.ActivityNames[a], got, link.TickStall)
		}
		w.Steps.Note(a, false)
		if !w.Steps.Alive(beyond) {
			t.Errorf("%s: not alive after it finished", link.ActivityNames[a])
		}
	}
	if link.ActivityLimits[link.PlannerSearch] == 0 || link.ActivityLimits[link.RecorderRound] == 0 {
		t.Error("the heartbeat does not depend on planner and recorder")
	}
}

func TestControl_SaysWhatASilentHostDidLast(t *testing.T) {
	e := newTwoEnds(t, rigtest.NewSession(t, func(f *configs.File) { f.Run.HostTimeoutS, f.Run.SimulatorWaitS = 0.5, 0 }))
	for range 5 {
		if err := e.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	e.host.Steps.Note(link.LogWrite, true)
	e.host.Steps.Note(link.LogWrite, false)
	e.host.Steps.Note(link.PlannerSearch, true)
	var err error
	for err == nil {
		err = e.onBeat(rtloop.Beat{Index: e.beats, Elapsed: 1})
		e.beats++
	}
	wantFault(t, err, controller.FaultHost)
	for _, want := range []string{"last heartbeat ", "planner search started ", "log write finished "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}
