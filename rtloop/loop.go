package rtloop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Errors of a Loop.
var (
	// ErrPosture: a request was refused and the posture is Strict.
	ErrPosture = errors.New("real-time posture not granted")
	// ErrOverrun: more ticks were missed in a row than MaxMissed allows.
	ErrOverrun = errors.New("too many missed ticks")
	// ErrClock: the kernel did not let the loop sleep.
	ErrClock = errors.New("clock_nanosleep returned early")
	// ErrGoexit: the body ended its goroutine with runtime.Goexit.
	ErrGoexit = errors.New("the body called runtime.Goexit")
	// ErrUsed: a Loop runs once.
	ErrUsed = errors.New("loop already used")
)

// PanicError is a panic of the body or of the Halt hook.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // of the panic; empty in the cause for the Halt hook
}

func (e *PanicError) Error() string {
	if len(e.Stack) == 0 {
		return fmt.Sprintf("panic: %v", e.Value)
	}
	return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// OverrunError describes missed ticks. It wraps ErrOverrun.
type OverrunError struct {
	Tick     uint64        // the next one
	Missed   uint64        // since the last punctual one
	Limit    int           // Config.MaxMissed
	Lateness time.Duration // of the last wake-up
	Duration time.Duration // of the last finished tick
}

func (e *OverrunError) Error() string {
	return fmt.Sprintf("%v (%d since the last punctual one, max_missed_ticks is %d; "+
		"the thread last woke %v late, a tick last took %v); "+
		"shorten the tick, lengthen period_ms, or find the cause of the delay",
		ErrOverrun, e.Missed, e.Limit, rounded(e.Lateness), rounded(e.Duration))
}

// Unwrap returns ErrOverrun.
func (e *OverrunError) Unwrap() error { return ErrOverrun }

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// Loop is a control thread that is ready to run. Set its fields before Run.
type Loop struct {
	// Halt, if not nil, brings the robot to its failsafe output. Run calls it
	// exactly once, on the control thread, at every end: return, cancelled
	// context, error, overrun, panic, Goexit; and before it formats or reports
	// anything. cause is nil for a cancelled context, otherwise the error of
	// the body, an *OverrunError, a *PanicError, ErrClock or ErrGoexit. Halt
	// must return within WatchdogMS.
	Halt func(cause error)
	// OnStuck, if not nil, is called once on the watchdog's thread when no tick
	// has begun, or Halt has not returned, for WatchdogMS. The control thread
	// may still be inside the body: use only what is safe beside it, such as a
	// second path to the actuators.
	OnStuck func(Stall)
	// OnOverrun, if not nil, is called on the control thread as soon as
	// MaxMissed ticks were missed: before the thread sleeps again, and before
	// the next beat. If it returns true, the loop continues and counts from
	// zero; otherwise, or if it is nil, the loop ends with the error.
	OnOverrun func(*OverrunError) (proceed bool)
	// Notify, if not nil, gets Ready after the first tick, Alive while ticks
	// run, and Stopping when the loop stops.
	Notify *Notifier

	cfg     Config
	clock   clock
	granted Granted
	restore []func() // undo the changes of Prepare to the process; the last one first

	work     chan func() // for the control thread; closed: the thread ends
	watchdog *Watchdog   // of the control thread
	stat     *threadStat // of the control thread
	tid      int         // of the control thread
	used     atomic.Bool
	stop     atomic.Bool
	live     live

	companions *companions // nil: the control thread has no priority either

	schedule schedule
	limit    uint64 // of schedule.misses
	lateness histogram
	duration histogram
}

// live has the values that other goroutines may read while the loop runs.
type live struct {
	ticks, skipped            atomic.Uint64
	lateness, duration, worst atomic.Int64
}

// Live is the state of a running loop.
type Live struct {
	Ticks, Skipped uint64        // so far
	Lateness       time.Duration // of the last wake-up
	WorstLateness  time.Duration // so far
	Duration       time.Duration // of the last finished tick
	// Demoted counts how often the other threads of the process lost their
	// priority, because they computed.
	Demoted uint64
	// PriorityError is the reason that their priority cannot be changed at present.
	PriorityError error
}

// Live returns the state of the loop. Any goroutine may call it at any time. The
// fields may be of two consecutive ticks.
func (l *Loop) Live() Live {
	return Live{
		Ticks:         l.live.ticks.Load(),
		Skipped:       l.live.skipped.Load(),
		Lateness:      time.Duration(l.live.lateness.Load()),
		WorstLateness: time.Duration(l.live.worst.Load()),
		Duration:      time.Duration(l.live.duration.Load()),
		Demoted:       l.companions.demotions(),
		PriorityError: l.companions.err(),
	}
}

// Run calls body once a period until ctx is done, body returns an error, or too
// many ticks are missed and OnOverrun does not return true. The first tick is one
// period after the call. A cancelled context ends the loop at its next wake-up,
// within a period, and is not an error. The report is complete after any error.
//
// body runs on the control thread, not on the caller's goroutine, and must not
// block. A Loop runs once.
func (l *Loop) Run(ctx context.Context, body func(Beat) error) (Report, error) {
	if !l.used.CompareAndSwap(false, true) {
		return Report{}, fmt.Errorf("rtloop: %w; Prepare another", ErrUsed)
	}
	defer l.release()
	defer context.AfterFunc(ctx, func() { l.stop.Store(true) })()

	cycles := gcCycles()
	l.watchdog = l.watch()
	done := make(chan error, 1)
	l.work <- func() { l.control(body, done) }
	err := <-done
	err = errors.Join(err, l.watchdog.Stop())

	report := l.report()
	report.GCCycles = gcCycles() - cycles
	report.NotifyError = errors.Join(l.watchdog.NotifyError(), l.Notify.Stopping())
	return report, err
}

// Close undoes Prepare for a Loop that does not run. After Run it does nothing.
func (l *Loop) Close() {
	if l.used.CompareAndSwap(false, true) {
		l.release()
	}
}

// release ends the control thread and undoes the changes of Prepare to the process.
func (l *Loop) release() {
	close(l.work)
	for i := len(l.restore) - 1; i >= 0; i-- {
		l.restore[i]()
	}
	prepared.Store(false)
}

// watch starts the watchdog of the configuration and of systemd.
func (l *Loop) watch() *Watchdog {
	w := &Watchdog{
		Limit:    milliseconds(l.cfg.WatchdogMS),
		Progress: l.live.ticks.Load,
		OnStuck:  l.OnStuck,
		Notify:   l.Notify,
		stat:     l.stat,
	}
	if l.cfg.Priority > 0 {
		w.Priority = l.cfg.Priority + 1
	}
	w.Start()
	return w
}

// control runs the ticks on the control thread and sends their error. Every way
// out of the loop runs its deferred functions.
func (l *Loop) control(body func(Beat) error, done chan<- error) {
	var err, halted error
	finished := false
	// This one runs last: Run also returns if the Halt hook calls runtime.Goexit.
	defer func() { done <- errors.Join(l.describe(err), halted) }()
	defer func() {
		value := recover()
		switch {
		case value != nil:
			err = &PanicError{Value: value}
		case !finished:
			err = ErrGoexit
		}
		halted = l.halt(err)
		if value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	err = l.ticks(body)
	finished = true
}

// halt calls the hook and recovers its panic. Renew gives the hook its own time
// limit; after Dismiss an ended loop does not count as stuck.
func (l *Loop) halt(cause error) (err error) {
	l.watchdog.Renew()
	defer l.watchdog.Dismiss()
	if l.Halt == nil {
		return nil
	}
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("rtloop: the Halt hook: %w", &PanicError{Value: value, Stack: debug.Stack()})
		}
	}()
	l.Halt(cause)
	return nil
}

// ticks runs until the loop ends.
func (l *Loop) ticks(body func(Beat) error) error {
	l.begin()
	for {
		if stop, err := l.tick(body); stop {
			return err
		}
	}
}

// begin sets the phase: the first period begins one period from now.
func (l *Loop) begin() {
	period := int64(l.cfg.Period())
	l.schedule = schedule{start: l.clock.now() + period, period: period}
	l.limit = math.MaxUint64
	if l.cfg.MaxMissed != NoLimit {
		l.limit = uint64(l.cfg.MaxMissed)
	}
}

// tick waits for the next period that is not over yet and runs body in it. It
// allocates nothing.
func (l *Loop) tick(body func(Beat) error) (stop bool, err error) {
	s := &l.schedule
	s.skipBegun(l.clock.now())
	if err := l.overrun(); err != nil {
		return true, err
	}
	due := s.deadline(s.next)
	l.clock.sleepUntil(due)
	wake := l.clock.now()
	if l.stop.Load() {
		return true, nil
	}
	if wake < due {
		return true, ErrClock
	}
	l.noteWake(wake - due)
	s.skipSlept(wake)
	if err := l.overrun(); err != nil {
		return true, err
	}
	beat := s.begin(wake)
	l.live.skipped.Store(s.skipped)
	l.live.ticks.Store(s.ticks)
	if err := body(beat); err != nil {
		return true, err
	}
	l.noteDone(l.clock.now() - wake)
	return false, nil
}

// overrun returns an *OverrunError if too many missed ticks end the loop.
func (l *Loop) overrun() error {
	s := &l.schedule
	if s.misses < l.limit {
		return nil
	}
	err := &OverrunError{
		Tick: s.next, Missed: s.misses, Limit: l.cfg.MaxMissed,
		Lateness: time.Duration(l.live.lateness.Load()), Duration: time.Duration(l.live.duration.Load()),
	}
	if l.OnOverrun == nil || !l.OnOverrun(err) {
		return err
	}
	s.misses = 0
	return nil
}

func (l *Loop) noteWake(lateness int64) {
	l.lateness.record(lateness)
	l.live.lateness.Store(lateness)
	if lateness > l.live.worst.Load() {
		l.live.worst.Store(lateness)
	}
}

func (l *Loop) noteDone(duration int64) {
	l.duration.record(duration)
	l.live.duration.Store(duration)
}

// describe adds the tick to the cause, after the robot is halted.
func (l *Loop) describe(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrOverrun):
		return fmt.Errorf("rtloop: tick %d: %w", l.schedule.next, err)
	case errors.Is(err, ErrClock):
		return fmt.Errorf("rtloop: tick %d: %w; allow the system call clock_nanosleep in the seccomp filter",
			l.schedule.next, err)
	}
	return fmt.Errorf("rtloop: tick %d: %w", l.schedule.previous, err)
}

// thread is the control thread. It requests its privileges, reports the grants and
// runs the one function that it receives. It is never unlocked: when its
// goroutine ends, Go ends the thread (or parks it, if it is the first of the
// process), and no other goroutine gets its priority and affinity.
func (l *Loop) thread(report chan<- []Grant) {
	runtime.LockOSThread()
	growStack()
	l.tid = unix.Gettid()
	l.stat = openThreadStat()
	defer l.stat.close()
	report <- askThread(l.cfg)
	for work := range l.work {
		work()
	}
}

// growStack grows the goroutine's stack before the first tick: growing it later
// copies it. Only a garbage collection shrinks it.
//
//go:noinline
func growStack() byte {
	var room [256 << 10]byte
	for i := 0; i < len(room); i += 4096 {
		room[i] = byte(i)
	}
	return room[len(room)-4096]
}
