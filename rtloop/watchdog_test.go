package rtloop

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/internal/fatal"
)

func TestWatchdog_CallsOnStuckOnce(t *testing.T) {
	var progress uint64
	var calls []time.Duration
	w := &Watchdog{
		Limit:    100 * time.Millisecond,
		Progress: func() uint64 { return progress },
		OnStuck:  func(s Stall) { calls = append(calls, s.For) },
	}
	s := watch{w: w}
	for range 50 { // progress now and then is enough
		s.look(0, 90*time.Millisecond)
		progress++
		s.look(0, 90*time.Millisecond)
	}
	if len(calls) > 0 {
		t.Fatalf("called after %v although there was progress", calls)
	}
	for range 50 {
		s.look(0, 30*time.Millisecond)
	}
	if len(calls) != 1 || calls[0] != 120*time.Millisecond {
		t.Fatalf("called %v, want once, at the first look after 100 ms", calls)
	}
}

func TestWatchdog_RenewedThreadGetsTheWholeLimitAgain(t *testing.T) {
	var calls []time.Duration
	w := &Watchdog{
		Limit:    100 * time.Millisecond,
		Progress: func() uint64 { return 7 },
		OnStuck:  func(s Stall) { calls = append(calls, s.For) },
	}
	s := watch{w: w, seen: 7}
	s.look(0, 90*time.Millisecond)
	w.Renew()
	s.look(0, 90*time.Millisecond)
	s.look(0, 90*time.Millisecond)
	if len(calls) != 0 {
		t.Fatalf("called after %v since it was renewed", calls)
	}
	s.look(0, 90*time.Millisecond)
	if len(calls) != 1 || calls[0] != 180*time.Millisecond {
		t.Fatalf("called %v, want once, 180 ms after it was renewed", calls)
	}
}

func TestWatchdog_DismissedIsSilent(t *testing.T) {
	w := &Watchdog{
		Limit:    100 * time.Millisecond,
		Progress: func() uint64 { return 7 },
		OnStuck:  func(Stall) { t.Error("called for a thread that has ended") },
	}
	for range 2 {
		if !w.Dismiss() {
			t.Error("Dismiss reports a stuck thread")
		}
	}
	s := watch{w: w, seen: 7}
	s.look(0, time.Second)
	late := &Watchdog{Limit: 100 * time.Millisecond, Progress: func() uint64 { return 7 }}
	s = watch{w: late, seen: 7}
	s.look(0, time.Second)
	if late.Dismiss() {
		t.Error("Dismiss succeeds after OnStuck")
	}
}

// TestLoop_OrderlyEndIsNotStuck ends a loop by its context, with a watchdog that has
// looked at the last tick for almost its whole limit.
func TestLoop_OrderlyEndIsNotStuck(t *testing.T) {
	stalled := func(l *Loop) watch {
		return watch{w: l.watchdog, seen: l.live.ticks.Load(), stalled: 90 * time.Millisecond}
	}
	l := loopOnClock(&handClock{}, NoLimit)
	l.watchdog = &Watchdog{
		Limit: 100 * time.Millisecond, Progress: l.live.ticks.Load,
		OnStuck: func(s Stall) { t.Errorf("called after %v", s) },
	}
	s := stalled(l)
	l.Halt = func(error) { s.look(0, 20*time.Millisecond); s.look(0, 20*time.Millisecond) }
	done := make(chan error, 1)
	l.stop.Store(true)
	l.control(func(Beat) error { return nil }, done)
	s.look(0, time.Second) // Run has not stopped the watchdog yet
	fatal.If(t, <-done)
}

func TestLoop_HaltThatHangsIsStuck(t *testing.T) {
	cfg := modest()
	cfg.WatchdogMS = 20
	l := prepare(t, cfg)
	noticed := make(chan time.Duration)
	l.OnStuck = func(s Stall) { noticed <- s.For }
	l.Halt = func(error) {
		select {
		case <-noticed:
		case <-time.After(10 * time.Second):
			t.Error("OnStuck was not called")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := l.Run(ctx, func(Beat) error { cancel(); return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestStall_DistinguishesComputingFromWaiting(t *testing.T) {
	for _, c := range []struct {
		name     string
		hang     func(stuck *atomic.Bool)
		runnable bool
	}{
		{"computing", func(stuck *atomic.Bool) {
			for !stuck.Load() {
			}
		}, true},
		{"waiting in a system call", func(stuck *atomic.Bool) {
			for !stuck.Load() {
				sleepUntil(Now() + int64(200*time.Millisecond))
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := modest()
			cfg.WatchdogMS = 100
			l := prepare(t, cfg)
			var stuck atomic.Bool
			var found Stall
			l.OnStuck = func(s Stall) { found = s; stuck.Store(true) }
			_, err := l.Run(t.Context(), func(Beat) error { c.hang(&stuck); return ErrUsed })
			if !errors.Is(err, ErrUsed) {
				t.Fatal(err)
			}
			if found.Looks == 0 || (found.Runnable > found.Looks/2) != c.runnable {
				t.Errorf("%+v: %v", found, found)
			}
		})
	}
}

func TestStall_String(t *testing.T) {
	for want, s := range map[string]Stall{
		"250ms":                           {For: 250 * time.Millisecond},
		"250ms, waiting in a system call": {For: 250 * time.Millisecond, Looks: 4},
		"1s, computing or ready without a processor": {For: time.Second, Looks: 4, Runnable: 4},
		"1s, computing or ready without a processor in 1 of 4 looks, waiting in a system call in the others": {
			For: time.Second, Looks: 4, Runnable: 1,
		},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

func TestWatchdog_IgnoresItsOwnPause(t *testing.T) {
	// Five looks; before the third the computer stood still for an hour.
	c := &handClock{}
	looks := 0
	c.late = func() int64 {
		if looks++; looks == 3 {
			return int64(time.Hour)
		}
		return 0
	}
	var w *Watchdog
	w = &Watchdog{
		Limit: 100 * time.Millisecond,
		Progress: func() uint64 {
			if looks == 5 {
				w.stop.Store(true)
			}
			return 7
		},
		OnStuck: func(s Stall) { t.Errorf("called after %v", s) },
		clock:   c,
	}
	s := watch{w: w, seen: 7}
	s.run()
	if s.stalled >= w.Limit {
		t.Fatalf("five looks count as %v", s.stalled)
	}
}

func TestWatchdog_OnlyProgressFeedsTheServiceManager(t *testing.T) {
	manager := listen(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "1000000")
	t.Setenv("WATCHDOG_PID", "")
	progress := uint64(0)
	s := watch{w: &Watchdog{Notify: notifier(t), Progress: func() uint64 { return progress }}}

	step := int64(s.w.interval())
	now := int64(0)
	for range 100 {
		now += step
		s.look(now, time.Duration(step))
	}
	if got := manager.received(t); len(got) > 0 {
		t.Fatalf("sent %q without progress", got)
	}
	for range 20 { // 2 s: a message each 250 ms or as soon after as there is a look
		now += step
		progress++
		s.look(now, time.Duration(step))
	}
	got := manager.received(t)
	if len(got) < 6 || len(got) > 9 || got[0] != "READY=1" || slices.Index(got[1:], "READY=1") >= 0 {
		t.Fatalf("sent %q", got)
	}
	for range 100 {
		now += step
		s.look(now, time.Duration(step))
	}
	if got := manager.received(t); len(got) > 0 || s.notifyErr != nil {
		t.Fatalf("sent %q after the last progress, error %v", got, s.notifyErr)
	}
}

func TestWatchdog_SeesAHungTick(t *testing.T) {
	cfg := modest()
	cfg.WatchdogMS = 20
	l := prepare(t, cfg)
	stuck := make(chan time.Duration, 10)
	l.OnStuck = func(s Stall) { stuck <- s.For }
	halts := 0
	l.Halt = func(error) { halts++ }
	_, err := l.Run(t.Context(), func(b Beat) error {
		if b.Index < 5 {
			return nil
		}
		select {
		case <-stuck: // the second path to the actuators was used: come back
			return ErrGoexit
		case <-time.After(10 * time.Second):
			t.Error("OnStuck was not called")
			return ErrGoexit
		}
	})
	if err == nil || halts != 1 || len(stuck) != 0 {
		t.Fatalf("error %v, %d halts, %d more calls", err, halts, len(stuck))
	}
}

func TestWatchdog_SeesABusyLoop(t *testing.T) {
	cfg := modest()
	cfg.WatchdogMS = 20
	l := prepare(t, cfg)
	var noticed atomic.Bool
	l.OnStuck = func(Stall) { noticed.Store(true) }
	_, err := l.Run(t.Context(), func(Beat) error {
		for end := Now() + int64(10*time.Second); Now() < end; {
			if noticed.Load() {
				return ErrUsed
			}
		}
		return nil
	})
	if err == nil {
		t.Fatal("OnStuck was not called in 10 s")
	}
}

func TestWatchdog_ReportsPanicOfOnStuck(t *testing.T) {
	cfg := modest()
	cfg.WatchdogMS = 5
	l := prepare(t, cfg)
	called := make(chan bool, 1)
	l.OnStuck = func(Stall) {
		called <- true
		panic("no second path")
	}
	_, err := l.Run(t.Context(), func(b Beat) error {
		if b.Elapsed > 0 {
			return ErrUsed
		}
		<-called
		return nil
	})
	if !errors.Is(err, ErrUsed) || !strings.Contains(err.Error(), "no second path") {
		t.Fatalf("error %v", err)
	}
}

func TestWatchdog_DoesNotStartWithoutLimitAndNotifier(t *testing.T) {
	w := &Watchdog{Progress: func() uint64 { t.Error("Progress was called"); return 0 }}
	w.Start()
	fatal.If(t, w.Stop())
}
