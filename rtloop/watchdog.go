package rtloop

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Watchdog watches a counter on a separate thread and calls OnStuck once when the
// counter stands still. Set the fields, then Start; Stop ends it. A watched thread
// calls Renew before work that is not counted, and Dismiss when it ends.
type Watchdog struct {
	// Limit is the longest time without progress; 0: no limit.
	Limit time.Duration
	// Progress reads the counter. Any change is progress. It must not block.
	Progress func() uint64
	// OnStuck, if not nil, is called once, on the watchdog's thread, after Limit
	// without progress.
	OnStuck func(Stall)
	// Notify, if not nil, gets Ready at the first progress, and Alive only after
	// progress.
	Notify *Notifier
	// Priority is a SCHED_FIFO priority, 1 to 99; 0: none. It is above that of
	// the watched thread, so that a busy loop there cannot starve the watchdog.
	// If it is refused, the watchdog runs without it.
	Priority int

	stat    *threadStat // of the watched thread; may be nil
	clock   clock       // nil: CLOCK_MONOTONIC
	stop    atomic.Bool
	renewed atomic.Bool
	state   atomic.Uint32 // watching, stuck or dismissed
	done    chan watch
	watch   watch // after Stop
}

// The states of a Watchdog. Only the first change from watching counts: a thread
// that has ended is not stuck.
const (
	watching uint32 = iota
	stuck
	dismissed
)

// Start starts the thread if Limit or Notify is set.
func (w *Watchdog) Start() {
	if w.Limit <= 0 && w.Notify == nil {
		return
	}
	if w.clock == nil {
		w.clock = monotonic{}
	}
	w.done = make(chan watch, 1)
	go w.thread()
}

// Stop ends the thread and returns a panic of OnStuck as a *PanicError. OnStuck is
// not called after Stop has returned.
func (w *Watchdog) Stop() error {
	if w.done == nil {
		return nil
	}
	w.stop.Store(true)
	w.watch = <-w.done
	w.done = nil
	return w.watch.panicked
}

// Renew restarts the Limit. Any goroutine may call it.
func (w *Watchdog) Renew() { w.renewed.Store(true) }

// Dismiss prevents OnStuck from now on, because the watched thread has ended. It
// returns false if OnStuck was called before. Any goroutine may call it.
func (w *Watchdog) Dismiss() bool {
	return w.state.CompareAndSwap(watching, dismissed) || w.state.Load() == dismissed
}

// NotifyError returns, after Stop, the first error of Notify.
func (w *Watchdog) NotifyError() error { return w.watch.notifyErr }

// interval is the time between two looks: an eighth of the shortest limit.
func (w *Watchdog) interval() time.Duration {
	const longest, shortest = 100 * time.Millisecond, time.Millisecond
	interval := longest
	if w.Limit > 0 {
		interval = min(interval, w.Limit/8)
	}
	if feed := w.Notify.WatchdogInterval(); feed > 0 {
		interval = min(interval, feed/8)
	}
	return max(interval, shortest)
}

// thread is never unlocked from its goroutine, and ends with it.
func (w *Watchdog) thread() {
	runtime.LockOSThread()
	if w.Priority > 0 {
		_ = setFIFO(min(w.Priority, 99)) // optional
	}
	watch := watch{w: w, seen: w.Progress()}
	watch.run()
	w.done <- watch
}

// watch is the state of the watchdog between two looks.
type watch struct {
	w       *Watchdog
	seen    uint64        // the counter at the last look
	stalled time.Duration // time without progress
	stall   Stall         // looks at the watched thread
	ready   bool          // Notify has got Ready
	fed     int64         // time of the last Alive

	panicked  error // of OnStuck
	notifyErr error // the first one
}

func (s *watch) run() {
	interval := int64(s.w.interval())
	last := s.w.clock.now()
	s.fed = last
	for !s.w.stop.Load() {
		s.w.clock.sleepUntil(last + interval)
		now := s.w.clock.now()
		// If the whole process or computer was stopped, the pause does not count.
		s.look(now, time.Duration(min(now-last, 2*interval)))
		last = now
	}
}

// look compares the counter with its last value.
func (s *watch) look(now int64, passed time.Duration) {
	if s.w.renewed.CompareAndSwap(true, false) {
		s.stalled, s.stall = 0, Stall{}
		return
	}
	progress := s.w.Progress()
	if progress == s.seen {
		s.stalled += passed
		s.readState()
		s.checkStuck()
		return
	}
	s.seen, s.stalled, s.stall = progress, 0, Stall{}
	s.feed(now)
}

// readState counts the states of the watched thread, for the Stall.
func (s *watch) readState() {
	if s.w.Limit <= 0 || s.stalled < s.w.Limit/2 || s.w.state.Load() != watching {
		return
	}
	yes, known := s.w.stat.runnable()
	if !known {
		return
	}
	s.stall.Looks++
	if yes {
		s.stall.Runnable++
	}
}

func (s *watch) checkStuck() {
	if s.w.Limit <= 0 || s.stalled < s.w.Limit || !s.w.state.CompareAndSwap(watching, stuck) || s.w.OnStuck == nil {
		return
	}
	defer func() {
		if value := recover(); value != nil {
			s.panicked = fmt.Errorf("rtloop: the OnStuck hook: %w", &PanicError{Value: value, Stack: debug.Stack()})
		}
	}()
	s.stall.For = s.stalled
	s.w.OnStuck(s.stall)
}

// feed reports progress to the service manager, four times as often as required.
func (s *watch) feed(now int64) {
	if s.w.Notify == nil {
		return
	}
	if !s.ready {
		s.ready = true
		s.keepError(s.w.Notify.Ready())
	}
	every := int64(s.w.Notify.WatchdogInterval() / 4)
	if every == 0 || now-s.fed < every {
		return
	}
	s.fed = now
	s.keepError(s.w.Notify.Alive())
}

func (s *watch) keepError(err error) {
	if s.notifyErr == nil {
		s.notifyErr = err
	}
}
