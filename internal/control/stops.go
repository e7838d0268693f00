package control

import (
	"errors"
	"fmt"
	"time"

	"optibfm/controller"
	"optibfm/hal"
	"optibfm/rtloop"
)

// A stop has one cause: the first that any thread of the control process noted since
// the last reset. It is what the error of the run, the log, the summary, the status
// and the consoles report; what follows from it is listed after it at most.

// Note notes a cause that ends the run, unless another one does. A stop that is held
// does not. Any thread may call it.
func (c *control) Note(cause *controller.FaultError) {
	if !c.board.stopped.CompareAndSwap(nil, cause) {
		if held := c.held.Load(); held != nil {
			c.board.stopped.CompareAndSwap(held, cause)
		}
	}
}

// holdStop notes a cause that the run outlasts.
func (c *control) holdStop(cause *controller.FaultError) {
	c.held.Store(cause)
	c.board.stopped.CompareAndSwap(nil, cause)
}

// Found is the cause of a loop that ended with err; nil for an orderly end.
func (c *control) Found(err error) *controller.FaultError {
	var fault *controller.FaultError
	var panicked *rtloop.PanicError
	kind := controller.FaultHost // the segment is broken
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
	return &controller.FaultError{Fault: kind, Tick: c.at.Load(), Err: err}
}

// halt is the loop's Halt hook.
func (c *control) halt(cause error) {
	fault := controller.FaultNone
	if found := c.Found(cause); found != nil {
		c.Note(found)
		fault = found.Fault
	}
	if err := c.agent.Halt(fault); err != nil {
		// The robot's own deadman is what is left; the error is
		// reported again when the robot is closed.
		c.Note(&controller.FaultError{Fault: controller.FaultAct, Tick: c.at.Load(), Err: err})
	}
	c.board.show(c.agent)
	c.link.Stage.Store(uint64(controller.StageBetweenTicks))
}

// outcome is the error of a run whose loop ended with err: the first cause, and what
// followed. An operator's stop is no failure, after which a service would be started
// again.
func (c *control) outcome(first *controller.FaultError, err error) error {
	result := []error{first}
	for _, e := range separate(err) {
		var panicked *rtloop.PanicError
		switch {
		case e == nil || errors.Is(e, errDone) || errors.Is(e, first) || errors.Is(e, first.Err):
		case first.Fault == controller.FaultPanic && errors.As(e, &panicked):
			result[0] = &controller.FaultError{Fault: first.Fault, Tick: first.Tick, Err: panicked} // with its stack
		default:
			result = append(result, fmt.Errorf("then: %w", e))
		}
	}
	if hung := c.hung.Load(); hung != nil && hung != first {
		result = append(result, fmt.Errorf("then: %w", hung))
	}
	if first.Err == errSaidStop && len(result) == 1 {
		return nil
	}
	return errors.Join(result...)
}

// separate takes joined errors apart.
func separate(err error) (all []error) {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, e := range many.Unwrap() {
		all = append(all, separate(e)...)
	}
	return all
}

// errStuck is wrapped by every stuckError.
var errStuck = errors.New("a tick did not end")

// stuckError says where the control thread hangs.
type stuckError struct {
	stage controller.Stage
	robot string // the driver
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

// cutOff halts the robot past a control thread that hangs.
func (c *control) cutOff(stall rtloop.Stall) {
	stage := controller.Stage(c.link.Stage.Load())
	hung := &controller.FaultError{
		Fault: controller.FaultStuck, Tick: c.at.Load(), Err: &stuckError{stage, c.session.File.Robot.Driver, stall},
	}
	if !c.hung.CompareAndSwap(nil, hung) {
		return
	}
	c.Note(hung)
	if h, ok := c.robot.(hal.Backstop); ok {
		h.HaltBeside()
	}
	time.AfterFunc(loosening, func() { close(c.abandoned) })
}

// reportEvery is how often the control process looks for a held stop to report.
const reportEvery = 50 * time.Millisecond

// reportHeld reports stops that the run outlasts to the host, until end is called:
// the control thread formats nothing.
func (c *control) reportHeld() (end func()) {
	if !c.hold {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(reportEvery)
		defer ticker.Stop()
		var last *controller.FaultError
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			if cause := c.held.Load(); cause != last { // also where it was reset meanwhile
				last = cause
				c.link.Report(cause, false)
			}
		}
	}()
	return func() { close(stop); <-stopped }
}
