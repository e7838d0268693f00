package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/rtloop"
	"optibfm/simulate"
)

// simulator reports whether nobody is hurt when the robot moves: it can be
// reset, which no body can.
func simulator(r hal.Robot) bool { return simulate.Resetter(r) != nil }

// harmless reports whether nothing moves whatever the program does.
func harmless(r hal.Robot, f configs.File) bool { return simulator(r) || f.Run.Shadow }

// checkArming refuses, before anything is armed, what a strict posture does not
// allow a real robot, and warns of it in another.
func checkArming(out io.Writer, robot hal.Robot, file configs.File) error {
	if harmless(robot, file) {
		return nil
	}
	var wrong []error
	if file.Safety.Arm == configs.ArmAutomatic {
		wrong = append(wrong, errors.New("safety.arm: automatic arms this robot, which is no simulator, as soon as there is a plan: set it to operator"))
	}
	if parts := withoutDeadman(robot, file); parts != "" && file.Safety.ExternalDeadman == "" {
		wrong = append(wrong, fmt.Errorf("safety.external_deadman: found no deadman of %s: when this computer dies it goes on: set deadman_ms where the driver has it, else cut supply or enable line by a watchdog of its own, and say here which", parts))
	}
	if file.Loop.Posture == rtloop.Strict {
		return errors.Join(wrong...)
	}
	for _, err := range wrong {
		fmt.Fprint(out, wrap("warning: "+err.Error()))
	}
	return nil
}

// withoutDeadman names what does not stop by itself when nothing is heard, as far as
// that is known before it is armed.
func withoutDeadman(robot hal.Robot, file configs.File) string {
	if file.Robot.Driver == configs.DriverComposite {
		return strings.Join(file.Robot.Composite.Unguarded(), ", ")
	}
	if _, ok := robot.(hal.Guarded); ok {
		return ""
	}
	return "this robot's driver"
}

// knownDeadman says in words what stops the robot when this computer dies, where
// that is known before it is armed; else it is empty.
func knownDeadman(robot hal.Robot, s configs.Safety) string {
	switch {
	case s.ExternalDeadman != "":
		return s.ExternalDeadman
	case simulator(robot):
		return "a simulator needs none"
	}
	return ""
}

// obey does what operators have asked for since the last tick: at the control
// socket, or a stop from the host.
func (c *control) obey() error {
	if broken := c.board.broken.Load(); broken != nil {
		return &controller.FaultError{Fault: controller.FaultPanic, Tick: c.at.Load(), Err: *broken}
	}
	if c.board.stopping.Load() || c.link.stop.Load() == stopRobot {
		err := c.stop(controller.FaultOperator, errSaidStop)
		c.board.show(c.agent)
		c.board.stopping.Store(false)
		c.link.stop.CompareAndSwap(stopRobot, stopNone)
		return err
	}
	number, a := c.board.next()
	if a == actNone {
		return nil
	}
	c.acted = true
	was := c.agent.Mode()
	refusal := c.do(a)
	c.board.show(c.agent)
	c.board.answer(number, refusal)
	if was != controller.Stopped && c.agent.Mode() == controller.Stopped { // it did not disarm
		return c.outlast(&controller.FaultError{Fault: c.agent.Cause(), Tick: c.at.Load(), Err: refusal})
	}
	return nil
}

// do is an operator's act. It may take the robot's time, and allocate.
func (c *control) do(a act) error {
	switch a {
	case actDisarm:
		c.arming = false
		return c.agent.Disarm()
	case actReset, actArm:
		if c.silent() {
			return errHostSilent
		}
	}
	if a == actReset {
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

// waitsForHost reports whether a robot may stand still until a slow host has
// caught up: it is simulated, and its time passes with its acts alone.
func waitsForHost(r hal.Robot, f configs.File) bool { return simulator(r) && simulated(f.Robot) }

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
		fault.Err = c.link.stall(fault.Err)
	}
	if c.hold {
		c.holdStop(fault)
		return nil
	}
	c.note(fault)
	return err
}
