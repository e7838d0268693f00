package rtloop

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Watchdog watches a counter from a thread of its own, and speaks up once when
// it stands still. Set the fields, then Start; Stop ends it. A watched thread
// that changes to work which is not counted calls Renew, and Dismiss when it ends.
type Watchdog struct {
	// Limit is how long the counter may stand still; 0: for ever.
	Limit time.Duration
	// Progress reads the counter. Any change is progress. It must not wait.
	Progress func() uint64
	// OnStuck, if not nil, is called once, on the watchdog's thread, when
	// the counter has stood still for Limit.
	OnStuck func(Stall)
	// Notify, if not nil, is told Ready at the first progress, and is kept
	// alive by progress alone.
	Notify *Notifier
	// Priority is a SCHED_FIFO priority, 1 to 99, above that of the watched
	// thread so that one which spins cannot starve its watchdog; 0: none.
	// Where it is not granted the watchdog runs without.
	Priority int

	stat    *threadStat // of the watched thread; may be nil
	clock   clock       // nil: CLOCK_MONOTONIC
	stop    atomic.Bool
	renewed atomic.Bool
	state   atomic.Uint32 // watching, stuck or dismissed
	done    chan watch
	watch   watch // how it ended
}

// The states of a Watchdog. The first to leave watching wins: a thread that has
// ended is not stuck.
const (
	watching uint32 = iota
	stuck
	dismissed
)

// Start starts the thread, if there is something to watch for.
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

// Stop ends the thread and returns a panic of OnStuck, as a *PanicError.
// OnStuck is not called after Stop has returned.
func (w *Watchdog) Stop() error {
	if w.done == nil {
		return nil
	}
	w.stop.Store(true)
	w.watch = <-w.done
	w.done = nil
	return w.watch.panicked
}

// Renew gives the watched thread the whole Limit again. Any goroutine may call it.
func (w *Watchdog) Renew() { w.renewed.Store(true) }

// Dismiss says that the watched thread has ended: OnStuck is not called from now
// on. It reports false where OnStuck was called before. Any goroutine may call it.
func (w *Watchdog) Dismiss() bool {
	return w.state.CompareAndSwap(watching, dismissed) || w.state.Load() == dismissed
}

// NotifyError is, after Stop, the first message that the service manager did
// not take; nil if it took all.
func (w *Watchdog) NotifyError() error { return w.watch.untold }

// interval is the time between two looks: an eighth of what is to be noticed.
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

// thread is never unlocked from its goroutine, so it ends with it.
func (w *Watchdog) thread() {
	runtime.LockOSThread()
	if w.Priority > 0 {
		_ = setFIFO(min(w.Priority, 99)) // documented as not required
	}
	watch := watch{w: w, seen: w.Progress()}
	watch.run()
	w.done <- watch
}

// watch is what the watchdog remembers between two looks.
type watch struct {
	w       *Watchdog
	seen    uint64        // the counter at the last look
	stalled time.Duration // how long it has been that
	stall   Stall         // its looks at the watched thread
	ready   bool          // whether Notify knows that we are
	fed     int64         // when Notify was last told that we are alive

	panicked error // of OnStuck
	untold   error // the first message that Notify could not send
}

func (s *watch) run() {
	interval := int64(s.w.interval())
	last := s.w.clock.now()
	s.fed = last
	for !s.w.stop.Load() {
		s.w.clock.sleepUntil(last + interval)
		now := s.w.clock.now()
		// A watchdog that was itself stopped, with its process or its
		// computer, has not seen the whole time go by.
		s.look(now, time.Duration(min(now-last, 2*interval)))
		last = now
	}
}

// look compares the counter after some time.
func (s *watch) look(now int64, passed time.Duration) {
	if s.w.renewed.CompareAndSwap(true, false) {
		s.stalled, s.stall = 0, Stall{}
		return
	}
	progress := s.w.Progress()
	if progress == s.seen {
		s.stalled += passed
		s.askKernel()
		s.checkStuck()
		return
	}
	s.seen, s.stalled, s.stall = progress, 0, Stall{}
	s.feed(now)
}

// askKernel notes how the watched thread is, before anything is done about it.
func (s *watch) askKernel() {
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

// feed passes progress on to the service manager, four times as often as it
// wants to hear.
func (s *watch) feed(now int64) {
	if s.w.Notify == nil {
		return
	}
	if !s.ready {
		s.ready = true
		s.tell(s.w.Notify.Ready())
	}
	every := int64(s.w.Notify.WatchdogInterval() / 4)
	if every == 0 || now-s.fed < every {
		return
	}
	s.fed = now
	s.tell(s.w.Notify.Alive())
}

func (s *watch) tell(err error) {
	if s.untold == nil {
		s.untold = err
	}
}
