// Package rover is a simulated differential-drive robot in a walled arena: the
// robot that optibfm carries with it, so that the method can be watched without
// any hardware.
//
// # The robot
//
// Two driven wheels in a square arena. An action is a pair of wheel commands in
// [-1, 1], left and right, relative to the top speed. The motors follow their
// command with a first-order lag, and the wheels slip by a random part of their
// speed. The axle lies a little behind the middle of the round body, so that a
// wall that the rover drives into turns it along itself; backing into a wall, or
// meeting it head-on, stalls the wheels.
//
// The observation has six elements, whatever the arena's size:
//
//	x, y               position from the centre, in half arenas: the walls are at -1 and 1
//	heading_cos, _sin  heading, counter-clockwise from +x (east)
//	speed              forward speed of the body over the top speed
//	yaw_rate           yaw rate of the body over the top yaw rate
//
// [PoseFromObs] turns it back to metres and radians.
//
// # Tasks
//
// A task is a reward of the observation alone, in [0, 1] or [-1, 1]; [Tasks]
// lists them and [Reward] computes any of them for any observation, which is
// what labels a data set. A [Rover] rewards the task in its [Config].
//
// # Time
//
// The simulation advances by one period in [Rover.Act] and nowhere else. A run
// is a function of the configuration, the seeds given to [Rover.Reset] and the
// actions. Without a clock [Rover.Sense] returns simulated time; a controller
// that runs at the real rate gives its clock in [Config.Now].
//
// # Model
//
// [Model] is the forward-backward model that was trained for the rover with
// scripts/train_fb.py on data of "optibfm-lab collect"; its bfm.json says how.
package rover
