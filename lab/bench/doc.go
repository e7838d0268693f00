// Package bench answers one question: can this computer run this model at this rate, and what
// limits it?
//
// [Run] steps a controller and its planner against a simulated robot, with a label in every tick,
// and times each part:
//
//	control tick       one call of Agent.Step, without the planner
//	  φ, π             the model's features and action, within the tick
//	  D-gap, update    Forget, NormSq, Update and Mean of a second belief, after the tick
//	  other            the rest: guards, label gate, hashes, copies
//	plan               one call of Planner.Plan
//	  search           the model's Search, and the calls of Gradient, within the plan
//	  other            the rest: drawing the candidates, inverting R
//
// # Verdict
//
// The control tick has one period. A plan has the interval to the next plan; if z is planned
// once an episode, it has the age at which z halts the robot. Every line is compared with the time
// of its tick or plan: it fits, it is late at times (the maximum is above that time), or it does
// not fit (the 99th percentile is). The margin is that time divided by the 99th percentile.
//
// The verdict is about computing alone. `optibfm jitter` measures how late the computer wakes the
// loop. Use an idle computer, and compare ratios within one run.
//
// # Limit
//
// A tflite.Network counts the bytes (weights, inputs and outputs) and the floating-point operations
// of its matrix products. Copying as many bytes as the model has weights gives the rate at which
// this computer moves memory. A network that moves its bytes at half of that rate or more is
// limited by memory bandwidth, any other by arithmetic, including the functions between the
// products. Rates are medians.
//
// # Single functions
//
// Single functions have benchmarks beside their tests; benchstat (golang.org/x/perf) compares two
// commits:
//
//	go test -run '^$' -bench . -count 10 ./posterior ./controller ./tflite > new.txt
//	benchstat old.txt new.txt
package bench
