package control

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/fatal"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
	"optibfm/rtloop"
)

// newHeapWords returns the words of a segment in heap memory.
func newHeapWords(t *testing.T) *ipc.Words {
	t.Helper()
	segment, err := ipc.New(controller.Shape{Obs: 1, Action: 1, Latent: 1}, time.Second)
	fatal.If(t, err)
	w, err := ipc.OpenWords(segment)
	fatal.If(t, err)
	return &w
}

func TestHostStall_ListsTheLastActivities(t *testing.T) {
	const now = int64(time.Hour)
	ago := func(d time.Duration, running uint64) uint64 { return uint64(now-int64(d))<<1 | running }
	h := ipc.HostStall{Err: errHostSilent, At: now, Beat: uint64(now - int64(1200*time.Millisecond))}
	h.Words[ipc.LogWrite] = ago(1100*time.Millisecond, 0)
	h.Words[ipc.PlannerSearch] = ago(1300*time.Millisecond, 1)
	h.Words[ipc.RecorderRound] = ago(1050*time.Millisecond, 0)
	h.Words[ipc.LogSync] = ago(3*time.Second, 1)
	want := errHostSilent.Error() + "; last heartbeat 1.2s ago; last: log sync started 3s ago, " +
		"planner search started 1.3s ago, recorder round finished 1.05s ago, log write finished 1.1s ago"
	if got := h.Error(); got != want || !errors.Is(&h, errHostSilent) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestHostStall_ToleratesAnyWordsOfTheHost(t *testing.T) {
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
	text := w.Stall(errHostGone).Error()
	rigtest.Contains(t, text, "planner search started at an impossible time")
}

func TestHostSteps_AliveWhilePlannerAndRecorderMakeProgress(t *testing.T) {
	for a := range ipc.NumActivities {
		for _, running := range []bool{true, false} {
			w := newHeapWords(t)
			w.Steps.Note(a, running)
			now := rtloop.Now()
			within, beyond := now+int64(ipc.TickStall/2), now+int64(ipc.TickStall)+int64(time.Second)
			if !w.Steps.Alive(within) {
				t.Errorf("%s: not alive within the limit", ipc.ActivityNames[a])
			}
			limited := a == ipc.PlannerRound || a == ipc.RecorderRound
			if got := w.Steps.Alive(beyond); got == limited {
				t.Errorf("%s (running %t): alive %t after %v", ipc.ActivityNames[a], running, got, ipc.TickStall)
			}
		}
	}
}

func TestControl_FaultOfASilentHostListsItsLastActivities(t *testing.T) {
	r := newRun(t, rigtest.NewSession(t, func(f *configs.File) {
		f.Run.HostTimeoutS, f.Run.SimulatorWaitS = 0.5, 0
	}), nil)
	r.ticks(5)
	r.host.Steps.Note(ipc.LogWrite, true)
	r.host.Steps.Note(ipc.LogWrite, false)
	r.host.Steps.Note(ipc.PlannerSearch, true)
	var err error
	for err == nil {
		err = r.silentBeat()
	}
	wantFault(t, err, controller.FaultHost)
	for _, want := range []string{"last heartbeat ", "planner search started ", "log write finished "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
