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
)

// Errors that a caller may want to tell apart.
var (
	// ErrPosture: something asked for was not granted and the posture is Strict.
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

// PanicError is a panic of the body, or of the Halt hook.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the panic; empty in what the Halt hook is given
}

func (e *PanicError) Error() string {
	if len(e.Stack) == 0 {
		return fmt.Sprintf("panic: %v", e.Value)
	}
	return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack)
}

// Unwrap returns the value where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// OverrunError says how too many ticks were missed. It wraps ErrOverrun.
type OverrunError struct {
	Tick     uint64        // the next one
	Missed   uint64        // since the last punctual one
	Limit    int           // Config.MaxMissed
	Lateness time.Duration // of the newest wake-up
	Duration time.Duration // of the newest finished tick
}

func (e *OverrunError) Error() string {
	return fmt.Sprintf("%v (%d since the last punctual one, max_missed_ticks is %d; "+
		"the thread last woke %v late, a tick last took %v); "+
		"shorten the tick, lengthen period_ms, or find what occupied the processor",
		ErrOverrun, e.Missed, e.Limit, rounded(e.Lateness), rounded(e.Duration))
}

// Unwrap returns ErrOverrun.
func (e *OverrunError) Unwrap() error { return ErrOverrun }

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// Loop is a control thread that is ready to run. Set its fields before Run.
type Loop struct {
	// Halt, if not nil, brings the robot to its failsafe output. Run calls
	// it exactly once, on the control thread, on every way out: return,
	// cancelled context, error, overrun, panic, Goexit; and before anything
	// is formatted or reported. cause is why the loop ends: nil for a
	// cancelled context, else the body's own error, an *OverrunError, a
	// *PanicError, ErrClock or ErrGoexit. The watchdog gives it WatchdogMS.
	Halt func(cause error)
	// OnStuck, if not nil, is called once by the watchdog's thread when no
	// tick has begun for WatchdogMS, or when Halt has not returned for as long.
	// The control thread may still be inside the body: use only what is safe
	// beside it, such as a second path to the actuators.
	OnStuck func(Stall)
	// OnOverrun, if not nil, is called on the control thread when MaxMissed
	// ticks were missed, at once: before the thread sleeps again, and before
	// the next beat. Where it returns true the loop continues and counts from
	// zero; else, and without it, the loop ends with the error.
	OnOverrun func(*OverrunError) (goOn bool)
	// Notify, if not nil, is told that the service is ready after the first
	// tick, is fed while ticks go on, and is told when the loop stops.
	Notify *Notifier

	cfg     Config
	clock   clock
	granted Granted
	restore []func() // of what Prepare changed in the process, last first

	work     chan func() // to the control thread; closed: end the thread
	watchdog *Watchdog   // of the control thread
	stat     *threadStat // of the same
	used     atomic.Bool
	stop     atomic.Bool
	live     live

	schedule schedule
	limit    uint64 // of schedule.misses
	lateness histogram
	duration histogram
}

// live is what other goroutines may read while the loop runs.
type live struct {
	ticks, skipped            atomic.Uint64
	lateness, duration, worst atomic.Int64
}

// Live is a look at a running loop.
type Live struct {
	Ticks, Skipped uint64        // so far
	Lateness       time.Duration // of the newest wake-up
	WorstLateness  time.Duration // so far
	Duration       time.Duration // of the newest finished tick
}

// Live reads how the loop is doing. Any goroutine may call it at any time;
// every field is whole, but they may be of two neighbouring ticks.
func (l *Loop) Live() Live {
	return Live{
		Ticks:         l.live.ticks.Load(),
		Skipped:       l.live.skipped.Load(),
		Lateness:      time.Duration(l.live.lateness.Load()),
		WorstLateness: time.Duration(l.live.worst.Load()),
		Duration:      time.Duration(l.live.duration.Load()),
	}
}

// Run calls body once a period until ctx is done, body returns an error or
// too many ticks are missed and OnOverrun does not return true. The first tick
// is one period after the call. A cancelled context ends the loop at its next
// wake-up, within a period, and is not an error. The report is complete
// whatever the error.
//
// body runs on the control thread, which is not the caller's goroutine, and
// must not keep the thread waiting. A Loop runs once.
func (l *Loop) Run(ctx context.Context, body func(Beat) error) (Report, error) {
	if !l.used.CompareAndSwap(false, true) {
		return Report{}, fmt.Errorf("rtloop: %w: Prepare another", ErrUsed)
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

// Close gives back what Prepare took, for a Loop that is never run. After Run
// it does nothing.
func (l *Loop) Close() {
	if l.used.CompareAndSwap(false, true) {
		l.release()
	}
}

// release ends the control thread and undoes what Prepare did to the process.
func (l *Loop) release() {
	close(l.work)
	for i := len(l.restore) - 1; i >= 0; i-- {
		l.restore[i]()
	}
	prepared.Store(false)
}

// watch starts the watchdog that the configuration and systemd ask for.
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

// control runs the ticks on the control thread and sends how they ended.
// Everything that leaves the loop passes its deferred functions.
func (l *Loop) control(body func(Beat) error, done chan<- error) {
	var err, halted error
	finished := false
	// The last to run, so that Run returns also when the Halt hook calls
	// runtime.Goexit.
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

// halt calls the hook and survives its panic. The watchdog gives it a time of its
// own, and is not to take for stuck what ends here.
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

// ticks runs until something ends the loop.
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
	s.giveUpBefore(l.clock.now())
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
	s.giveUpSlept(wake)
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

// overrun returns an *OverrunError where too many ticks were missed to continue.
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

// describe turns what ended the loop into a message, after the robot is halted.
func (l *Loop) describe(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrOverrun):
		return fmt.Errorf("rtloop: tick %d: %w", l.schedule.next, err)
	case errors.Is(err, ErrClock):
		return fmt.Errorf("rtloop: tick %d: %w: allow the system call clock_nanosleep (a seccomp filter?)", l.schedule.next, err)
	}
	return fmt.Errorf("rtloop: tick %d: %w", l.schedule.previous, err)
}

// thread is the control thread: it takes its rights, says what it got, and
// does the one piece of work that comes. It is never unlocked: when its
// goroutine ends, Go ends the thread (or parks it for ever, if it is the first
// of the process), and no other goroutine gets its priority and affinity.
func (l *Loop) thread(report chan<- []Grant) {
	runtime.LockOSThread()
	growStack()
	l.stat = openThreadStat()
	defer l.stat.close()
	report <- askThread(l.cfg)
	for work := range l.work {
		work()
	}
}

// growStack makes the goroutine's stack large before the first tick: growing
// it later would copy it. It shrinks only in a garbage collection.
//
//go:noinline
func growStack() byte {
	var room [256 << 10]byte
	for i := 0; i < len(room); i += 4096 {
		room[i] = byte(i)
	}
	return room[len(room)-4096]
}
