// Package summary prints the result of a run: returns, labels, ticks, lateness and the cause of a
// stop, as text or as JSON.
//
// [Print] is called at the end of `optibfm run`. After a run with the built-in rover it also
// measures two baselines in lockstep from the same initial states: an oracle, whose z is inferred
// from 50,000 labelled observations, and random behaviour. [FollowOracle] implements run --oracle.
//
// The numbers come from package record; this package counts nothing during a run.
package summary
