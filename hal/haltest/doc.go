// Package haltest has a fake robot for tests.
//
// [New] returns a [Robot] that keeps the contract of hal.Robot: it starts halted,
// refuses to act until armed, refuses an action outside of its limits, and shows
// the state of its actuators in Output. A script or a function gives its
// observations. Exported fields, which a test may change between calls, select
// its faults. Sense and Act allocate nothing, so a test can count allocations.
//
// [NewSimulator] returns the same robot with Reset and Reward.
package haltest
