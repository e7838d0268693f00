package control

import (
	"errors"

	"optibfm/controller"
	"optibfm/internal/link"
	"optibfm/rtloop"
)

// obey does what operators have asked for since the last tick: at the control
// socket, or a stop from the host.
func (c *control) obey() error {
	if broken := c.board.broken.Load(); broken != nil {
		return &controller.FaultError{Fault: controller.FaultPanic, Tick: c.at.Load(), Err: *broken}
	}
	if c.board.stopping.Load() || c.link.Stop.Load() == link.StopRobot {
		err := c.stop(controller.FaultOperator, errSaidStop)
		c.board.show(c.agent)
		c.board.stopping.Store(false)
		c.link.Stop.CompareAndSwap(link.StopRobot, link.StopNone)
		return err
	}
	number, a := c.board.next()
	if a == commandNone {
		return nil
	}
	c.acted = true
	was := c.agent.Mode()
	refusal := c.do(a)
	c.board.show(c.agent)
	c.board.Answer(number, refusal)
	if was != controller.Stopped && c.agent.Mode() == controller.Stopped { // it did not disarm
		return c.outlast(&controller.FaultError{Fault: c.agent.Cause(), Tick: c.at.Load(), Err: refusal})
	}
	return nil
}

// do is an operator's act. It may take the robot's time, and allocate.
func (c *control) do(a command) error {
	switch a {
	case commandDisarm:
		c.arming = false
		return c.agent.Disarm()
	case commandReset, commandArm:
		if c.silent() {
			return errHostSilent
		}
	}
	if a == commandReset {
		err := c.agent.Reset()
		if err == nil {
			c.board.stopped.Store(nil)
		}
		return err
	}
	if !c.planned {
		return errNoPlanYet
	}
	c.arming = false
	return c.agent.Arm()
}

// stop latches a stop that the agent did not find by itself. Its error ends the
// run.
func (c *control) stop(fault controller.Fault, cause error) error {
	if c.agent.Mode() == controller.Stopped {
		return nil
	}
	if err := c.agent.Halt(fault); err != nil {
		cause = errors.Join(cause, err)
	}
	return c.outlast(&controller.FaultError{Fault: fault, Tick: c.at.Load(), Err: cause})
}

// overrun answers missed ticks: with a stop, unless a robot was just armed or
// disarmed, which may take some periods.
func (c *control) overrun(e *rtloop.OverrunError) (goOn bool) {
	if c.acted {
		c.acted = false
		return true
	}
	return c.hold && c.stop(controller.FaultOverrun, e) == nil
}

// outlast notes a stop, and returns it where the run does not outlast it. A stop by
// the host's fault says what that last did.
func (c *control) outlast(err error) error {
	var fault *controller.FaultError
	if !errors.As(err, &fault) {
		return err
	}
	if fault.Fault == controller.FaultHost || fault.Fault == controller.FaultStalePlan {
		fault.Err = c.link.Stall(fault.Err)
	}
	if c.hold {
		c.holdStop(fault)
		return nil
	}
	c.Note(fault)
	return err
}
