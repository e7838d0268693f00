package control

import (
	"errors"

	"optibfm/controller"
	"optibfm/internal/ipc"
	"optibfm/rtloop"
)

// runCommands runs the command that an operator gave since the last tick: at the control socket, or
// a stop through the host.
func (c *controlProcess) runCommands() error {
	if cause := c.mailbox.serverPanic.Load(); cause != nil {
		return &controller.FaultError{Fault: controller.FaultPanic, Tick: c.index.Load(), Err: *cause}
	}
	if c.mailbox.stopRequested.Load() || c.link.Stop.Load() == ipc.StopRobot {
		err := c.stopRobot(controller.FaultOperator, errOperatorStop)
		c.mailbox.publishMode(c.agent)
		c.mailbox.stopRequested.Store(false)
		c.link.Stop.CompareAndSwap(ipc.StopRobot, ipc.StopNone)
		return err
	}
	number, a := c.mailbox.next()
	if a == commandNone {
		c.armByInput()
		return nil
	}
	c.ranCommand = true
	was := c.agent.Mode()
	refusal := c.runCommand(a)
	if refusal != nil {
		refusal = latch(refusal) // other goroutines format it, and drivers reuse their errors
	}
	c.mailbox.publishMode(c.agent)
	c.mailbox.reply(number, refusal)
	if was != controller.Stopped && c.agent.Mode() == controller.Stopped { // Disarm failed
		return c.endOrHold(&controller.FaultError{Fault: c.agent.Cause(), Tick: c.index.Load(), Err: refusal})
	}
	return nil
}

// armByInput arms the robot if its operator asked for it with an input of the robot, as `optibfm
// arm` does.
func (c *controlProcess) armByInput() {
	if c.armInput == nil || !c.armInput.ArmRequested() || c.agent.Mode().Moves() {
		return
	}
	c.ranCommand = true
	if refusal := c.runCommand(commandArm); refusal != nil {
		c.refusal.Store(&refusal)
	}
	c.mailbox.publishMode(c.agent)
}

// forwardPresses passes presses of the robot's buttons to the host.
func (c *controlProcess) forwardPresses() {
	if c.labelInput == nil {
		return
	}
	for _, p := range c.presses[:c.labelInput.Presses(c.presses[:])] {
		c.link.Press(p)
	}
}

// runCommand runs a command, in as many periods as the robot takes. It may allocate.
func (c *controlProcess) runCommand(a command) error {
	switch a {
	case commandDisarm:
		c.autoArm = false
		return c.agent.Disarm()
	case commandReset, commandArm, commandSwitch:
		if c.hostIsSilent() {
			return errHostSilent
		}
	}
	if a == commandReset {
		err := c.agent.Reset()
		if err == nil {
			c.mailbox.cause.Store(nil)
		}
		return err
	}
	if a == commandSwitch {
		return c.switchTask(c.mailbox.task.Load())
	}
	if !c.hasPlan {
		return errNoPlan
	}
	return c.arm()
}

// stopRobot latches a stop that the agent did not detect. Its error ends the run.
func (c *controlProcess) stopRobot(fault controller.Fault, cause error) error {
	if c.agent.Mode() == controller.Stopped {
		return nil
	}
	if err := c.agent.Halt(fault); err != nil {
		cause = errors.Join(cause, err)
	}
	return c.endOrHold(&controller.FaultError{Fault: fault, Tick: c.index.Load(), Err: cause})
}

// onOverrun stops the robot after missed ticks, except after a command: arming and disarming may
// take several periods. It reports whether the loop continues.
func (c *controlProcess) onOverrun(e *rtloop.OverrunError) (proceed bool) {
	if c.ranCommand {
		c.ranCommand = false
		return true
	}
	return c.holdStops && c.stopRobot(controller.FaultOverrun, e) == nil
}

// endOrHold notes a stop, and returns it if it ends the run. A fault of the host also lists the
// last activities of the host.
func (c *controlProcess) endOrHold(err error) error {
	var fault *controller.FaultError
	if !errors.As(err, &fault) {
		return err
	}
	c.autoArm = false // after a stop only an operator arms
	if fault.Fault == controller.FaultHost || fault.Fault == controller.FaultStalePlan {
		fault.Err = c.link.Stall(fault.Err)
	}
	fault.Err = latch(fault.Err)
	if c.holdStops && c.stuck.Load() == nil {
		c.holdStop(fault)
		return nil
	}
	c.noteStop(fault)
	return err
}
