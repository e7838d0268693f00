package rtloop

import (
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestTheWatchdogSpeaksUpOnceWhenTheCounterStandsStill(t *testing.T) {
	var progress uint64
	var calls []time.Duration
	w := &Watchdog{
		Limit:    100 * time.Millisecond,
		Progress: func() uint64 { return progress },
		OnStuck:  func(stalled time.Duration) { calls = append(calls, stalled) },
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

func TestTheWatchdogThatWasStoppedItselfDoesNotBlameTheLoop(t *testing.T) {
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
		OnStuck: func(stalled time.Duration) { t.Errorf("called after %v", stalled) },
		clock:   c,
	}
	s := watch{w: w, seen: 7}
	s.run()
	if s.stalled >= w.Limit {
		t.Fatalf("five looks count as %v", s.stalled)
	}
}

func TestOnlyProgressFeedsTheServiceManager(t *testing.T) {
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
		t.Fatalf("told %q without progress", got)
	}
	for range 20 { // 2 s: a message each 250 ms or as soon after as there is a look
		now += step
		progress++
		s.look(now, time.Duration(step))
	}
	got := manager.received(t)
	if len(got) < 6 || len(got) > 9 || got[0] != "READY=1" || slices.Index(got[1:], "READY=1") >= 0 {
		t.Fatalf("told %q", got)
	}
	for range 100 {
		now += step
		s.look(now, time.Duration(step))
	}
	if got := manager.received(t); len(got) > 0 || s.untold != nil {
		t.Fatalf("told %q after the progress ended, error %v", got, s.untold)
	}
}

func TestAHungTickIsSeenByTheWatchdogWhileItHangs(t *testing.T) {
	cfg := modest()
	cfg.WatchdogMS = 20
	l := prepare(t, cfg)
	stuck := make(chan time.Duration, 10)
	l.OnStuck = func(stalled time.Duration) { stuck <- stalled }
	halts := 0
	l.Halt = func() { halts++ }
	_, err := l.Run(t.Context(), func(b Beat) error {
		if b.Index < 5 {
			return nil
		}
		select {
		case <-stuck: // the second path to the actuators was used: come back
			return ErrGoexit
		case <-time.After(10 * time.Second):
			t.Error("nobody noticed")
			return ErrGoexit
		}
	})
	if err == nil || halts != 1 || len(stuck) != 0 {
		t.Fatalf("error %v, %d halts, %d more calls", err, halts, len(stuck))
	}
}

func TestALoopThatSpinsIsSeenByTheWatchdog(t *testing.T) {
	cfg := modest()
	cfg.WatchdogMS = 20
	l := prepare(t, cfg)
	var noticed atomic.Bool
	l.OnStuck = func(time.Duration) { noticed.Store(true) }
	_, err := l.Run(t.Context(), func(Beat) error {
		for end := Now() + int64(10*time.Second); Now() < end; {
			if noticed.Load() {
				return ErrUsed
			}
		}
		return nil
	})
	if err == nil {
		t.Fatal("nobody noticed in 10 s")
	}
}

func TestAPanicOfOnStuckIsReportedAndTheLoopGoesOn(t *testing.T) {
	cfg := modest()
	cfg.WatchdogMS = 5
	l := prepare(t, cfg)
	called := make(chan bool, 1)
	l.OnStuck = func(time.Duration) {
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
	if err == nil || !strings.Contains(err.Error(), "no second path") || !strings.Contains(err.Error(), ErrUsed.Error()) {
		t.Fatalf("error %v", err)
	}
}

func TestAWatchdogWithNothingToWatchForDoesNotStart(t *testing.T) {
	w := &Watchdog{Progress: func() uint64 { t.Error("looked"); return 0 }}
	w.Start()
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
}
