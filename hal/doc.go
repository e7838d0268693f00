// Package hal defines a robot: named channels that can be sensed, commanded and
// stopped.
//
// # The contract
//
// A [Robot] has five methods. A control loop calls them from one goroutine,
// once a period, in this order:
//
//	Spec ── once ──> Arm ──> Sense ──> Act ──> Sense ──> Act ... ──> Halt
//
// Sense returns the state s_t, Act sets the command that holds until the next
// one. Neither allocates, and both return within a time that is small against the
// period: a driver of a slow device communicates elsewhere and returns the newest
// sample. The time of a sample is when it was taken, not the time of the call.
//
// # Halting
//
// A robot starts halted, and Halt latches: until Arm, Act returns [ErrHalted]
// and moves nothing. Halt commands the Failsafe value of every action channel.
// It may be called at any time and any number of times, also when the robot was
// never armed, has lost its connection or has just failed; it does what is still
// possible and returns quickly. Arm is an explicit act of the operator.
//
// Three optional interfaces concern stopping. A [Disarmer] has an output for an
// orderly stop that differs from the failsafe one. A [StopInput] reports an
// emergency stop. A [DeadmanTimer] robot has a deadman, which stops it when the
// computer fails.
//
// A [Bounder] robot or device has upper bounds on the duration of its calls. The
// program compares them with the loop's period and watchdog before it arms.
//
// # Where motion begins
//
// An action channel that is measured, or in rad, mrad, deg, rev, m, cm or mm, commands a position.
// If it begins where the actuator is not, the actuator jumps there at full speed. Therefore a
// channel names the observation that measures it ([Channel].Measured), or the robot is a [Meter];
// the controller then begins at the measured value. Arm itself holds the measured positions. A
// [Limper] can end an orderly stop without torque.
//
// # Channels
//
// A [Spec] names every element of the observation and of the action, in the
// order of the model's training, with unit and limits. Limits of actions are
// mandatory: a driver refuses values outside with [Spec.CheckAction], and the
// controller's guard clips to them before. A driver calls Spec.Validate before it
// returns a Spec, and the controller when it receives one.
//
// # Simulators
//
// Two optional interfaces make a robot usable for experiments. [Resetter]
// starts an episode from a seed. [Rewarder] returns the task's reward of the
// state that the last Sense returned. In lockstep a tick is: sense s_t, take its
// reward r_t, act. The return of an episode is the sum of the rewards after each
// of its steps:
//
//	sim.Reset(seed)
//	robot.Sense(obs) // s_0; its reward is not part of the return
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
// Each driver is a package below this one: hal/bridge drives a robot in another
// process, such as a simulator in Python; hal/composite combines devices to a
// robot, each of which is a [Device], such as hal/bno055. Package hal/haltest has
// a programmable fake robot for tests.
package hal
