// Package lockstep runs agent and planner in one goroutine on simulated time.
//
// The planner runs inside the tick, as in the paper: sense, reward, update, plan, act. A run is a
// function of configuration, model and seed, and runs as fast as the computer allows. It needs a
// simulator and a scripted operator, or none: simulated time does not wait for a person. `optibfm
// run --fast` calls [Run].
package lockstep
