// Package shadow lets a robot be sensed and not moved: a [Robot] passes Sense
// and Halt on to the robot that it wraps, and keeps Arm and Act to itself. A
// controller on top of it runs as it always does: it asks, learns, decides and
// records, while the robot stands still or is moved by somebody else.
//
// Halt is passed on, so that every way out of the controller ends as it does
// without a shadow. A robot starts halted; halting it again changes nothing.
package shadow
