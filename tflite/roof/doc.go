// Package roof finds the limits of one core that a network's evaluation runs
// into: how many float32 multiply-adds it makes, and how fast it reads memory
// of each level. `optibfm bench` sets the networks' figures beside them, by the
// roofline model (Williams, Waterman, Patterson, "Roofline: An Insightful
// Visual Performance Model", 2009): with so many operations a byte, no program
// is faster than
//
//	min(peak, operations per byte · bandwidth)
//
// The package has no clock: its functions do a known amount of work, which the
// caller times.
package roof
