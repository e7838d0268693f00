// Package legged computes the poses of the links of a robot with legs, and the velocity and height
// of its base. Sensors do not measure them.
//
//   - A [Body] is the tree of links.
//   - [Kinematics] computes position, orientation and velocities of every link in the frame of the
//     base.
//   - [Estimator] estimates velocity and height of the base from joints, IMU and, if measured, the
//     load of the feet. docs/estimator.md has its errors.
//
// The same readings give the same bits on every CPU: the arithmetic is float64 without fused
// products, and Sqrt and Floor are its only functions.
package legged
