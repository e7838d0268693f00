// Package simulate runs robots that can start over: it divides a run into
// episodes, and steps an agent through them in lockstep.
//
// [Episodes] says which tick belongs to which episode and resets the robot in
// between; runs in real time use it too, where the robot is a simulator.
// [Stepper] is a run in lockstep: simulated time, one goroutine, the planner
// inside the tick, so that a run is a function of the configuration, the model
// and the seed. `optibfm run --fast` and package eval are made of it.
package simulate
