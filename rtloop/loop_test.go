package rtloop

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/fatal"
)

// modest is a configuration for every user.
func modest() Config {
	cfg := DefaultConfig()
	cfg.PeriodMS, cfg.Priority, cfg.LockMemory, cfg.MaxMissed, cfg.WatchdogMS = 1, 0, false, NoLimit, 0
	return cfg
}

func prepare(t *testing.T, cfg Config) *Loop {
	t.Helper()
	l, granted, err := Prepare(cfg)
	fatal.If(t, err)
	t.Cleanup(l.Close)
	if missing := granted.Missing(); len(missing) > 0 {
		t.Logf("not granted:\n%v", granted)
	}
	return l
}

func TestLoop_EveryWayOutHaltsOnce(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name string
		body func(Beat) error
		want error
	}{
		{"a body's error", func(Beat) error { return broken }, broken},
		{"a panic", func(Beat) error { panic(broken) }, broken},
		{"a panic with nil", func(Beat) error { panic(nil) }, new(runtime.PanicNilError)},
		{"a runtime error", func(b Beat) error { _ = []int{}[b.Index]; return nil }, nil},
		{"Goexit", func(Beat) error { runtime.Goexit(); return nil }, ErrGoexit},
		{"an overrun", func(Beat) error { time.Sleep(10 * time.Millisecond); return nil }, ErrOverrun},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := modest()
			cfg.MaxMissed = 3
			if test.want != ErrOverrun {
				cfg.MaxMissed = NoLimit
			}
			l := prepare(t, cfg)
			halts := 0
			var cause error
			l.Halt = func(why error) { halts++; cause = why }
			r, err := l.Run(t.Context(), test.body)
			if halts != 1 {
				t.Errorf("Halt was called %d times", halts)
			}
			if cause == nil || test.want != nil && test.name != "a panic with nil" && !errors.Is(cause, test.want) {
				t.Errorf("Halt got %v, want %v", cause, test.want)
			}
			var nilPanic *runtime.PanicNilError
			switch {
			case err == nil:
				t.Error("no error")
			case errors.As(test.want, &nilPanic):
				if !errors.As(err, &nilPanic) {
					t.Errorf("error %v, want a panic with nil", err)
				}
			case test.want != nil && !errors.Is(err, test.want):
				t.Errorf("error %v, want %v", err, test.want)
			}
			if !r.Identity() {
				t.Errorf("%d ticks + %d skipped, but %d periods", r.Ticks, r.Skipped, r.Periods)
			}
		})
	}
}

func TestLoop_CancelledContextIsNotAnError(t *testing.T) {
	l := prepare(t, modest())
	halts := 0
	l.Halt = func(cause error) {
		halts++
		if cause != nil {
			t.Errorf("Halt got %v", cause)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := l.Run(ctx, func(b Beat) error {
		if b.Index >= 20 {
			cancel()
		}
		return nil
	})
	if err != nil || halts != 1 {
		t.Fatalf("error %v, %d halts", err, halts)
	}
	if r.Ticks == 0 || !r.Identity() || r.Lateness.Count != int64(r.Ticks) {
		t.Fatalf("%v", r)
	}
}

func TestLoop_ContextCancelledBeforeRunHaltsWithoutTick(t *testing.T) {
	cfg := modest()
	cfg.PeriodMS = 20 // time for the cancellation to be seen
	l := prepare(t, cfg)
	halts := 0
	l.Halt = func(error) { halts++ }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := l.Run(ctx, func(Beat) error { t.Error("a tick ran"); return nil })
	if err != nil || halts != 1 || r.Ticks != 0 || !r.Identity() {
		t.Fatalf("error %v, %d halts, %d ticks", err, halts, r.Ticks)
	}
}

func explodingBody(Beat) error { panic("boom") }

func TestLoop_ReportsPanicWithStackAfterHalt(t *testing.T) {
	l := prepare(t, modest())
	halted := false
	l.Halt = func(error) { halted = true }
	_, err := l.Run(t.Context(), explodingBody)
	var p *PanicError
	if !errors.As(err, &p) || !halted {
		t.Fatalf("error %v, halted %v", err, halted)
	}
	if p.Value != "boom" || !strings.Contains(string(p.Stack), "explodingBody") {
		t.Fatalf("panic %v with the stack\n%s", p.Value, p.Stack)
	}
}

func TestLoop_FailingHaltKeepsTheCause(t *testing.T) {
	broken := errors.New("broken")
	hooks := map[string]func(error){
		"panics": func(error) { panic("the wire is cut") },
		"exits":  func(error) { runtime.Goexit() },
	}
	for name, hook := range hooks {
		t.Run(name, func(t *testing.T) {
			l := prepare(t, modest())
			l.Halt = hook
			_, err := l.Run(t.Context(), func(Beat) error { return broken })
			if !errors.Is(err, broken) {
				t.Fatalf("error %v, want one that wraps %v", err, broken)
			}
			if name == "panics" && !strings.Contains(err.Error(), "the wire is cut") {
				t.Fatalf("error %v does not name the hook", err)
			}
		})
	}
}

func TestLoop_RunsOnceAndOneAtATime(t *testing.T) {
	l := prepare(t, modest())
	if _, _, err := Prepare(modest()); err == nil {
		t.Fatal("Prepare accepts a second loop")
	}
	stop := errors.New("stop")
	if _, err := l.Run(t.Context(), func(Beat) error { return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	halted := false
	l.Halt = func(error) { halted = true }
	if _, err := l.Run(t.Context(), func(Beat) error { return nil }); !errors.Is(err, ErrUsed) || halted {
		t.Fatalf("error %v, halted %v", err, halted)
	}
	l.Close()
	prepare(t, modest())
}

func TestPrepare_IsUndone(t *testing.T) {
	percent := debug.SetGCPercent(77)
	defer debug.SetGCPercent(percent)
	limit := debug.SetMemoryLimit(-1)
	procs := runtime.GOMAXPROCS(0)

	cfg := modest()
	cfg.MemoryLimitMiB = 300
	l := prepare(t, cfg)
	stop := errors.New("stop")
	_, err := l.Run(t.Context(), func(Beat) error {
		if now := debug.SetMemoryLimit(-1); now != 300<<20 {
			t.Errorf("the memory limit is %d during the run", now)
		}
		if runtime.GOMAXPROCS(0) < minSlots {
			t.Errorf("GOMAXPROCS is %d during the run", runtime.GOMAXPROCS(0))
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if now := debug.SetGCPercent(77); now != 77 {
		t.Errorf("the GC percentage is %d after the run, want 77", now)
	}
	if now := debug.SetMemoryLimit(-1); now != limit {
		t.Errorf("the memory limit is %d after the run, want %d", now, limit)
	}
	if now := runtime.GOMAXPROCS(0); now != procs {
		t.Errorf("GOMAXPROCS is %d after the run, want %d", now, procs)
	}
}

func TestLoop_LiveWhileRunning(t *testing.T) {
	l := prepare(t, modest())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var ended atomic.Bool
	done := make(chan Live)
	go func() {
		var newest Live
		for !ended.Load() {
			now := l.Live()
			if now.Ticks < newest.Ticks || now.Skipped < newest.Skipped || now.WorstLateness < newest.WorstLateness {
				t.Errorf("counters went back from %+v to %+v", newest, now)
			}
			newest = now
			time.Sleep(100 * time.Microsecond)
		}
		done <- l.Live()
	}()
	r, err := l.Run(ctx, func(Beat) error { return nil })
	ended.Store(true)
	live := <-done
	if err != nil || live.Ticks != r.Ticks || live.Skipped != r.Skipped || live.WorstLateness != r.Lateness.Max {
		t.Fatalf("error %v, live %+v, report %v", err, live, r)
	}
}

func TestLoop_SignalsDoNotWakeItEarly(t *testing.T) {
	cfg := modest()
	cfg.PeriodMS = 5
	l := prepare(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			_ = syscall.Kill(os.Getpid(), syscall.SIGURG) // the runtime's own; harmless
			time.Sleep(200 * time.Microsecond)
		}
	}()
	r, err := l.Run(ctx, func(b Beat) error {
		if b.Wake < b.Deadline {
			return errors.New("early")
		}
		return nil
	})
	if err != nil || !r.Identity() {
		t.Fatalf("error %v, %v", err, r)
	}
}

func TestLoop_ThreadEndsWithTheLoop(t *testing.T) {
	l := prepare(t, modest())
	stop := errors.New("stop")
	var tid int
	caller := unix.Gettid()
	n := 0
	_, err := l.Run(t.Context(), func(Beat) error {
		if n++; n == 1 {
			tid = unix.Gettid()
		}
		if unix.Gettid() != tid {
			t.Error("the body changed its thread")
		}
		runtime.Gosched()
		if n == 20 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || tid == caller {
		t.Fatalf("error %v, thread %d, caller's %d", err, tid, caller)
	}
	if tid == os.Getpid() {
		t.Skip("the goroutine got the first thread of the process, which Go parks for ever instead of ending it")
	}
	for range 100 {
		if err := unix.Tgkill(os.Getpid(), tid, 0); errors.Is(err, unix.ESRCH) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the control thread is still there")
}

func TestReport_Add(t *testing.T) {
	c := &handClock{}
	var late int64
	c.late = func() int64 { late += 1000; return late }
	a, b := loopOnClock(c, NoLimit), loopOnClock(c, NoLimit)
	for range 100 {
		_, _ = a.tick(func(Beat) error { return nil })
		_, _ = b.tick(func(Beat) error { return nil })
	}
	sum := a.report()
	sum.Add(b.report())
	if sum.Ticks != 200 || sum.Lateness.Count != 200 || !sum.Identity() {
		t.Fatalf("%v", sum)
	}
	if want := b.report().Lateness.Max; sum.Lateness.Max != want {
		t.Fatalf("maximum %v, want %v", sum.Lateness.Max, want)
	}
	if p := sum.Lateness.P50; p < 99*time.Microsecond || p > 102*time.Microsecond {
		t.Fatalf("median %v of 1 to 200 µs", p)
	}
}

func TestLoop_RunDoesNotAllocate(t *testing.T) {
	const first, last = 20, 220
	l := prepare(t, modest())
	var before, after runtime.MemStats
	n := 0
	r, err := l.Run(t.Context(), func(Beat) error {
		switch n++; n {
		case first:
			runtime.ReadMemStats(&before)
		case last:
			runtime.ReadMemStats(&after)
			return ErrUsed
		}
		return nil
	})
	if !errors.Is(err, ErrUsed) {
		t.Fatal(err)
	}
	// The rest of the process may allocate a little; a tick that allocates
	// once would show as 200.
	if grown := after.Mallocs - before.Mallocs; grown > (last-first)/4 || r.GCCycles != 0 {
		t.Fatalf("%d allocations in %d ticks, %d garbage collections", grown, last-first, r.GCCycles)
	}
}
