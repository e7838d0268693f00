// Package shadow makes a robot read-only: a [Robot] passes Sense and Halt to the
// robot that it wraps, and ignores Arm and Act. The controller runs as usual: it
// asks, learns, decides and records, while the robot stands still or another
// controller moves it.
//
// Halt is passed on, so that the controller stops the robot on every exit. A robot
// starts halted; halting it again changes nothing.
package shadow
