// Package haltest has a fake robot for the tests of packages that drive one.
//
// [New] gives a [Robot] that keeps the contract of hal.Robot to the letter: it
// starts halted, refuses to act until armed, refuses an action outside of its
// limits, and shows in Output what its actuators do. What it senses is a script
// of observations or a function; what fails is said in its exported fields,
// which a test may change between calls. Sense and Act allocate nothing, so a
// test may count the allocations of what it tests.
//
// [NewSimulator] gives the same robot with Reset and Reward.
package haltest
