package control

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/ipc"
	"optibfm/rtloop"
)

// noteStop notes a cause that ends the run. The first one counts; it replaces a held stop, which
// did not end the run. Any thread may call it.
func (c *controlProcess) noteStop(cause *controller.FaultError) {
	if !c.mailbox.cause.CompareAndSwap(nil, cause) {
		if held := c.heldStop.Load(); held != nil {
			c.mailbox.cause.CompareAndSwap(held, cause)
		}
	}
}

// holdStop notes a cause that does not end the run.
func (c *controlProcess) holdStop(cause *controller.FaultError) {
	c.heldStop.Store(cause)
	c.mailbox.cause.CompareAndSwap(nil, cause)
}

// latched is a cause with the text that it had. Drivers reuse the memory of their errors at a later
// fault, while other goroutines show the first one.
type latched struct {
	error
	text string
}

func (l *latched) Error() string { return l.text }

func (l *latched) Unwrap() error { return l.error }

// latch formats a driver's error, when the robot is halted and before other goroutines see it.
func latch(err error) error { return &latched{err, err.Error()} }

// faultOf returns the cause of a loop that ended with err, nil after an orderly end.
func (c *controlProcess) faultOf(err error) *controller.FaultError {
	var fault *controller.FaultError
	var panicked *rtloop.PanicError
	kind := controller.FaultHost // an error of the segment
	switch {
	case err == nil || errors.Is(err, errDone):
		return nil
	case errors.As(err, &fault):
		return fault
	case errors.As(err, &panicked) || errors.Is(err, rtloop.ErrGoexit):
		kind = controller.FaultPanic
	case errors.Is(err, rtloop.ErrOverrun) || errors.Is(err, rtloop.ErrClock):
		kind = controller.FaultOverrun
	}
	return &controller.FaultError{Fault: kind, Tick: c.index.Load(), Err: err}
}

// halt is the loop's Halt hook.
func (c *controlProcess) halt(cause error) {
	fault := controller.FaultNone
	if found := c.faultOf(cause); found != nil {
		c.noteStop(found)
		fault = found.Fault
	}
	if err := c.agent.Halt(fault); err != nil {
		err = latch(fmt.Errorf("the last Halt failed: %w; check that the robot does not move", err))
		c.unhalted.Store(&controller.FaultError{Fault: controller.FaultAct, Tick: c.index.Load(), Err: err})
		c.noteStop(c.unhalted.Load())
	}
	c.mailbox.publishMode(c.agent)
	c.stage.Store(uint64(controller.StageBetweenTicks))
}

// repeatHalt repeats a failed last Halt until it succeeds or end is called. The host may take long
// to finish, and the robot may have no deadman.
func (c *controlProcess) repeatHalt() (end func()) {
	if c.threadLost || c.unhalted.Load() == nil {
		return func() {}
	}
	halted := false
	return c.repeat(reportEvery, func() { halted = halted || c.robot.Halt() == nil })
}

// runError returns the error of a run whose loop ended with err: the first cause, then what
// followed. A stop by an operator ends without an error, so that a service manager does not restart
// the run.
func (c *controlProcess) runError(first *controller.FaultError, err error) error {
	result := []error{first}
	for _, e := range flatten(err) {
		var panicked *rtloop.PanicError
		switch {
		case e == nil || errors.Is(e, errDone) || errors.Is(e, first) || errors.Is(e, first.Err):
		case first.Fault == controller.FaultPanic && errors.As(e, &panicked):
			result[0] = &controller.FaultError{Fault: first.Fault, Tick: first.Tick, Err: panicked} // has the stack
		default:
			result = append(result, fmt.Errorf("then: %w", e))
		}
	}
	for _, later := range []*controller.FaultError{c.stuck.Load(), c.unhalted.Load()} {
		if later != nil && later != first {
			result = append(result, fmt.Errorf("then: %w", later))
		}
	}
	if errors.Unwrap(first.Err) == errOperatorStop && len(result) == 1 { // without an error of Halt
		return nil
	}
	return errors.Join(result...)
}

// flatten returns the errors of nested errors.Join calls.
func flatten(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}

// errStuck is wrapped by every stuckError.
var errStuck = errors.New("a tick did not end")

// stuckError names the stage in which the control thread hangs.
type stuckError struct {
	stage controller.Stage
	robot string // the driver, and the device of a composite robot
	stall rtloop.Stall
}

func (e *stuckError) Error() string {
	where := "in " + e.stage.String()
	switch {
	case e.stage == controller.StageBetweenTicks:
		where = e.stage.String()
	case e.stage.OfRobot():
		where += " of " + e.robot
	}
	return fmt.Sprintf("%s, for %v", where, e.stall)
}

// Unwrap returns errStuck.
func (e *stuckError) Unwrap() error { return errStuck }

// haltStuck halts the robot beside a control thread that hangs, through the second path of the
// driver.
func (c *controlProcess) haltStuck(stall rtloop.Stall) {
	stage, robot := controller.Stage(c.stage.Load()), c.session.File.Robot.Driver
	if r, ok := c.robot.(interface{ Calling() string }); ok {
		robot = fmt.Sprintf("%s (%s)", robot, r.Calling())
	}
	stuck := &controller.FaultError{
		Fault: controller.FaultStuck, Tick: c.index.Load(), Err: &stuckError{stage, robot, stall},
	}
	if !c.stuck.CompareAndSwap(nil, stuck) {
		return
	}
	c.noteStop(stuck)
	time.AfterFunc(stuckGrace+c.maxStopTime(), func() { close(c.abandoned) }) // also if HaltBeside panics
	if h, ok := c.robot.(hal.Backstop); ok {
		h.HaltBeside()
	}
}

// reportEvery is how often the control process looks for a held stop to report, and repeats a failed
// last Halt.
const reportEvery = 50 * time.Millisecond

// warnEvery and warnBurst limit the warnings in the log: a value near its threshold changes often.
const (
	warnEvery = 5 * time.Second
	warnBurst = 5
)

// warnings sends warnings to the host process, which records and shows them.
type warnings struct {
	robot   hal.Warner             // nil: none
	refusal *atomic.Pointer[error] // of the newest arming by the robot's input, or automatically
	live    func() rtloop.Live
	send    func(string) bool
	limit   *rate.Limiter

	last       string // of the robot
	demotions  uint64 // when last reported
	priority   error  // the last rtloop.Live.PriorityError
	unreported string // a refusal that the host process had no room for
}

// report sends new warnings. It warns of demotions again when their number has doubled.
func (w *warnings) report() {
	if refusal := w.refusal.Swap(nil); refusal != nil {
		w.unreported = "not armed: " + (*refusal).Error()
	}
	if w.unreported != "" && w.send(w.unreported) {
		w.unreported = ""
	}
	live := w.live()
	if n := live.Demoted; n >= max(1, 2*w.demotions) && w.send(fmt.Sprintf("%s (%d times)", ipc.DemotedWarning, n)) {
		w.demotions = n
	}
	if e := live.PriorityError; e != w.priority && (e == nil || w.send(ipc.PriorityWarning+e.Error())) {
		w.priority = e
	}
	if now := warningOf(w.robot); now != w.last && (now == "" || w.limit.Allow() && w.send(now)) {
		w.last = now
	}
}

// warningOf returns the present warning of a robot, "" for none.
func warningOf(robot hal.Warner) string {
	if robot == nil {
		return ""
	}
	if err := robot.Warning(); err != nil {
		return err.Error()
	}
	return ""
}

// reportWarnings reports the warnings of robot and loop, and why the robot was not armed by its own
// input or automatically, until end is called.
func (c *controlProcess) reportWarnings(loop *rtloop.Loop) (end func()) {
	w := &warnings{
		robot: c.warner, refusal: &c.refusal, live: loop.Live, send: c.link.Warn,
		limit: rate.NewLimiter(rate.Every(warnEvery), warnBurst),
	}
	return c.repeat(reportEvery, func() {
		w.report()
		c.link.Demoted.Store(loop.Live().Demoted)
	})
}

// repeat calls a function again and again on a goroutine, until end is called. A panic, for example
// of a driver's Warning, stops the robot.
func (c *controlProcess) repeat(every time.Duration, f func()) (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		defer c.mailbox.catchPanic()
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				f()
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// reportHeldStops reports stops that do not end the run to the host, until end is called.
func (c *controlProcess) reportHeldStops() (end func()) {
	if !c.holdStops {
		return func() {}
	}
	var last *controller.FaultError
	return c.repeat(reportEvery, func() {
		if cause := c.heldStop.Load(); cause != last { // also after a reset
			last = cause
			c.link.Report(cause, false)
		}
	})
}
