// Package legged computes what a robot with legs does not measure: where its links are, how fast its
// base moves, and how high it is.
//
//   - A [Body] is the tree of its links.
//   - [Kinematics] computes position, orientation and velocities of every link in the frame of the
//     base.
//   - [Estimator] estimates velocity and height of the base from joints, IMU and, if the robot feels
//     it, the load of its feet. docs/estimator.md has its errors.
//
// The arithmetic is float64, fuses no products and uses no function but Sqrt and Floor: the same
// readings give the same bits on every CPU.
package legged
