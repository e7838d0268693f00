// Package hal says what a robot is: a body with named channels that can be
// sensed, acted upon and brought to rest.
//
// # The contract
//
// A [Robot] has five methods. A control loop calls them from one goroutine,
// once a period, in this order:
//
//	Spec ── once ──> Arm ──> Sense ──> Act ──> Sense ──> Act ... ──> Halt
//
// Sense gives the state s_t, Act the command that holds until the next one.
// Neither allocates, and both return within a time that is small against the
// period: a driver that talks to something slow does so elsewhere and hands
// out the newest sample. A sample's time is that of the sample, not of the
// call, so that a caller can tell how old it is.
//
// # Halting
//
// A robot starts halted, and Halt latches: until Arm, Act returns [ErrHalted]
// and moves nothing. Halt commands the Failsafe value of every action channel.
// It may be called at any time and any number of times, also when the robot
// was never armed, has lost its connection or has just failed; it does what
// still can be done and returns quickly. Arm is an operator's explicit act.
//
// Three optional interfaces say more about rest. A [Disarmer] has an output for
// an orderly stop that is not the failsafe one. A [StopInput] tells of an
// emergency stop. A robot that is [Guarded] stops by itself when it hears
// nothing, which is what is left when the computer dies.
//
// A robot or device that is [Bounded] says how long its calls take at most. The
// program compares that with the loop's period and watchdog before it arms.
//
// # Channels
//
// A [Spec] names every element of the observation and of the action, in the
// order that the model was trained with, with unit and limits. Limits of
// actions are mandatory: whoever writes to the actuators can then refuse what
// lies outside, with [Spec.CheckAction], and the controller's guard clips to
// them before. Spec.Validate tells whether a description is usable; a driver
// calls it before it hands a Spec out, and the controller when it gets one.
//
// # Simulators
//
// Two optional interfaces make a robot usable for experiments. [Resetter]
// starts an episode from a seed. [Rewarder] tells the task's reward of the
// state that the last Sense returned, which is what a scripted operator looks
// at. In lockstep a tick is: sense s_t, take its reward r_t, act; the return of
// an episode is the sum of the rewards after each of its steps:
//
//	sim.Reset(seed)
//	robot.Sense(obs) // s_0; its reward is no part of the return
//	for range steps {
//		robot.Act(policy(obs))
//		robot.Sense(obs)
//		if r, ok := sim.Reward(); ok {
//			ret += r
//		}
//	}
//
// # Drivers and fakes
//
// Each driver is a package of its own below this one: hal/bridge talks to a
// robot in another process, such as a simulator in Python; hal/composite makes
// a robot of devices, each of which is a [Device] in a package of its own, such
// as hal/bno055. Package hal/haltest
// has a programmable fake robot for the tests of whatever uses a Robot.
package hal
