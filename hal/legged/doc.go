// Package legged computes values that a legged robot does not measure: the poses of its links, and
// the velocity and height of its base.
//
//   - A [Body] is the tree of links.
//   - [Kinematics] computes position, orientation and velocities of every link in the frame of the
//     base.
//   - [Estimator] estimates velocity and height of the base from joints, IMU and, if measured, foot
//     loads. docs/estimator.md lists the errors.
//
// Equal readings give bit-identical results on every CPU: the arithmetic is float64 without fused
// products, and its only functions are Sqrt, Floor and Abs.
package legged
