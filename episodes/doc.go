// Package episodes divides the run of a simulator into episodes, and steps an
// agent through them in lockstep.
//
// [Episodes] numbers the ticks of each episode and resets the robot between
// episodes. Runs of a simulator in real time use it too. [Stepper] runs an agent
// in lockstep: simulated time, one goroutine, the planner inside the tick. Such a
// run depends only on the configuration, the model and the seed. `optibfm run
// --fast` and package eval use it.
package episodes
