package rtloop

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type handClock struct {
	time int64
	late func() int64 // how long after the deadline a sleeper wakes; nil: 0
}

func (c *handClock) now() int64 { return c.time }

func (c *handClock) sleepUntil(when int64) {
	c.time = max(c.time, when)
	if c.late != nil {
		c.time += c.late()
	}
}

// loopOnClock returns a loop without a thread, for tests of single ticks.
func loopOnClock(c clock, maxMissed int) *Loop {
	cfg := DefaultConfig()
	cfg.PeriodMS, cfg.MaxMissed = 1, maxMissed
	l := &Loop{cfg: cfg, clock: c, lateness: newHistogram(), duration: newHistogram()}
	l.begin()
	return l
}

const millisecond = int64(1e6)

// TestSchedule_TicksAndSkippedAreAllPeriods compares the loop with an
// independent list of periods.
func TestSchedule_TicksAndSkippedAreAllPeriods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Mostly less than a period, sometimes exactly whole ones, sometimes many.
		delay := rapid.OneOf(
			rapid.Int64Range(0, millisecond-1),
			rapid.Int64Range(0, 5*millisecond),
			rapid.Map(rapid.Int64Range(0, 4), func(n int64) int64 { return n * millisecond }),
			rapid.Int64Range(0, 3000*millisecond),
		)
		c := &handClock{time: rapid.Int64Range(0, 1<<50).Draw(t, "boot")}
		c.late = func() int64 { return delay.Draw(t, "late") }
		l := loopOnClock(c, NoLimit)
		start := l.schedule.start

		var run, previous uint64
		ran := map[uint64]bool{}
		for n := rapid.IntRange(1, 30).Draw(t, "ticks"); n > 0; n-- {
			stop, err := l.tick(func(b Beat) error {
				if ran[b.Index] {
					t.Fatalf("period %d ran twice", b.Index)
				}
				ran[b.Index] = true
				if b.Deadline != start+int64(b.Index)*millisecond {
					t.Fatalf("the phase changed: period %d is due at %d", b.Index, b.Deadline-start)
				}
				if late := b.Wake - b.Deadline; late < 0 || late >= millisecond {
					t.Fatalf("period %d runs %d ns after its deadline", b.Index, late)
				}
				if want := b.Index - previous; run > 0 && b.Elapsed != want {
					t.Fatalf("elapsed is %d, %d periods after the previous beat", b.Elapsed, want)
				}
				if run == 0 && b.Elapsed != 0 {
					t.Fatalf("the first beat has elapsed %d", b.Elapsed)
				}
				previous = b.Index
				run++
				c.time += delay.Draw(t, "body")
				return nil
			})
			if stop {
				t.Fatalf("stopped: %v", err)
			}
		}

		began := uint64(0)
		for due := start; due <= start+int64(previous)*millisecond; due += millisecond {
			began++
		}
		r := l.report()
		if r.Ticks != run || r.Ticks+r.Skipped != began || r.Periods != began || !r.Identity() {
			t.Fatalf("%d ticks + %d skipped, %d periods; want %d ticks, %d periods",
				r.Ticks, r.Skipped, r.Periods, run, began)
		}
		if live := l.Live(); live.Ticks != r.Ticks || live.Skipped != r.Skipped {
			t.Fatalf("live: %d ticks, %d skipped; report: %d, %d",
				live.Ticks, live.Skipped, r.Ticks, r.Skipped)
		}
	})
}

// TestSchedule_OverrunKeepsTheIdentity stops a loop at random
// times.
func TestSchedule_OverrunKeepsTheIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		delay := rapid.Int64Range(0, 4*millisecond)
		c := &handClock{late: func() int64 { return delay.Draw(t, "late") }}
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		l := loopOnClock(c, limit)

		misses, elapsed := uint64(0), uint64(0)
		body := func(b Beat) error {
			if b.Elapsed > 1 || b.Elapsed == 0 && b.Index > 0 {
				misses += b.Index - elapsed
			} else {
				misses = 0
			}
			if misses >= uint64(limit) {
				t.Fatalf("a tick ran after %d misses, the limit is %d", misses, limit)
			}
			elapsed = b.Index + 1
			c.time += delay.Draw(t, "body")
			return nil
		}
		for range 200 {
			stop, err := l.tick(body)
			if !stop {
				continue
			}
			if !errors.Is(err, ErrOverrun) {
				t.Fatalf("stopped by %v", err)
			}
			if r := l.report(); !r.Identity() {
				t.Fatalf("%d ticks + %d skipped, but %d periods", r.Ticks, r.Skipped, r.Periods)
			}
			return
		}
	})
}

func TestLoop_StopsABodyThatIsAlwaysTooLong(t *testing.T) {
	c := &handClock{}
	l := loopOnClock(c, 3)
	ticks := 0
	for {
		stop, err := l.tick(func(Beat) error { ticks++; c.time += millisecond + millisecond/10; return nil })
		if !stop {
			continue
		}
		if !errors.Is(err, ErrOverrun) || ticks != 3 {
			t.Fatalf("stopped after %d ticks by %v, want 3 and ErrOverrun", ticks, err)
		}
		return
	}
}

func TestSchedule_PunctualTickResetsMisses(t *testing.T) {
	c := &handClock{}
	l := loopOnClock(c, 2)
	for i := range 100 {
		stop, err := l.tick(func(Beat) error {
			if i%2 == 0 {
				c.time += millisecond + 1 // the next period is missed
			}
			return nil
		})
		if stop {
			t.Fatalf("tick %d stopped the loop: %v", i, err)
		}
	}
	if l.schedule.skipped != 50 {
		t.Fatalf("%d periods skipped, want 50", l.schedule.skipped)
	}
}

func TestSchedule_EndAtDeadlineIsNotAMiss(t *testing.T) {
	c := &handClock{}
	l := loopOnClock(c, 1)
	for range 10 {
		if stop, err := l.tick(func(Beat) error { c.time += millisecond; return nil }); stop {
			t.Fatal(err)
		}
	}
	if l.schedule.ticks != 10 || l.schedule.skipped != 0 {
		t.Fatalf("%d ticks, %d skipped", l.schedule.ticks, l.schedule.skipped)
	}
}

func TestLoop_StopsIfTheKernelDoesNotSleep(t *testing.T) {
	c := &handClock{late: func() int64 { return -5 }}
	l := loopOnClock(c, NoLimit)
	stop, err := l.tick(func(Beat) error { t.Fatal("a tick ran early"); return nil })
	if !stop || !errors.Is(err, ErrClock) {
		t.Fatalf("stop %v, error %v, want ErrClock", stop, err)
	}
}

func TestLoop_TickDoesNotAllocate(t *testing.T) {
	c := &handClock{}
	i := int64(0)
	c.late = func() int64 { i++; return i * 777 % (2 * millisecond) }
	l := loopOnClock(c, NoLimit)
	body := func(Beat) error { c.time += i * 31 % millisecond; return nil }
	if n := testing.AllocsPerRun(5000, func() { _, _ = l.tick(body) }); n != 0 {
		t.Fatalf("%v allocations a tick", n)
	}
}

func TestClock_SleepDoesNotAllocate(t *testing.T) {
	var c monotonic
	if n := testing.AllocsPerRun(20, func() { c.sleepUntil(c.now() + 1000) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestLoop_OnOverrunContinuesAndKeepsPhase(t *testing.T) {
	c := &handClock{}
	l := loopOnClock(c, 3)
	var answered []uint64
	l.OnOverrun = func(e *OverrunError) bool {
		answered = append(answered, e.Missed)
		return len(answered) < 4
	}
	late := int64(0)
	body := func(b Beat) error {
		if b.Deadline%millisecond != 0 {
			t.Fatalf("the phase changed: %d", b.Deadline)
		}
		c.time += late
		return nil
	}
	tick := func() (bool, error) { return l.tick(body) }
	if stop, err := tick(); stop {
		t.Fatal(err)
	}
	late = 10 * millisecond // a body that stalls, for 9 deadlines: found when it ends
	for i := range 3 {
		if stop, err := tick(); stop || len(answered) != i {
			t.Fatalf("tick %d: %v, answered %v", i, err, answered)
		}
	}
	late = 0
	if stop, err := tick(); stop || len(answered) != 3 {
		t.Fatalf("%v, answered %v", err, answered)
	}
	c.late = func() int64 { return 5 * millisecond } // a sleep that stalls: found at the wake-up
	stop, err := tick()
	if !stop || !errors.Is(err, ErrOverrun) || len(answered) != 4 {
		t.Fatalf("stop %v, %v, answered %v", stop, err, answered)
	}
	if want := []uint64{9, 9, 9, 5}; !slices.Equal(answered, want) {
		t.Errorf("answered %v, want %v", answered, want)
	}
	if r := l.report(); !r.Identity() {
		t.Errorf("%d ticks + %d skipped, but %d periods", r.Ticks, r.Skipped, r.Periods)
	}
}
