// Package legged computes what a robot with legs does not measure: where its links are, from its joints.
//
// A [Body] is the tree of its links. [Kinematics] computes position, orientation and velocities of every link in the
// frame of the base.
//
// The arithmetic is float64, fuses no products and uses no function but Sqrt and Floor: the same readings give the same
// bits on every CPU.
package legged
