// Package rover is a simulated differential-drive robot in a walled arena. It is
// part of optibfm, so that the method runs without hardware.
//
// # The robot
//
// Two driven wheels in a square arena. An action is a pair of wheel commands in
// [-1, 1], left and right, relative to the top speed. The motors follow their
// command with a first-order lag, and the wheels slip by a random part of their
// speed. The axle is slightly behind the centre of the round body: a wall that the
// rover drives into turns it parallel to the wall; backing into a wall, or driving
// into it head-on, stalls the wheels.
//
// The observation has six elements for every size of the arena:
//
//	x, y               position from the centre, in half arenas: the walls are at -1 and 1
//	heading_cos, _sin  heading, counter-clockwise from +x (east)
//	speed              forward speed of the body over the top speed
//	yaw_rate           yaw rate of the body over the top yaw rate
//
// [PoseFromObs] converts it to metres and radians.
//
// # Tasks
//
// A task is a reward of the observation alone, in [0, 1] or [-1, 1]; [Tasks]
// lists them, and [Reward] computes any of them for any observation, for example
// to label a data set. A [Rover] rewards the task in its [Config].
//
// # Time
//
// The simulation advances by one period in each [Rover.Act]. A run
// is a function of the configuration, the seeds given to [Rover.Reset] and the
// actions. Without a clock [Rover.Sense] returns simulated time; a controller
// that runs at the real rate gives its clock in [Config.Now].
//
// # Model
//
// [Model] is the forward-backward model for the rover, trained with
// scripts/train_fb.py on data of "optibfm-lab collect"; its bfm.json has the settings. These
// commands made its task prior (the program of commit 9d78693b):
//
//	optibfm-lab collect --transitions 50000 --seed 1 --out obs.npz
//	optibfm model prior hal/rover/model --observations obs.npz
package rover
