// Package collect records transitions of a simulated robot under exploring
// actions: the training data of a behaviour foundation model.
//
// The data must cover the state space. A recording therefore consists of short
// episodes, each with another initial state and another kind of exploration: a
// random action in every tick; an action held for some ticks, often at a limit,
// which reaches top speeds and walls; or an Ornstein-Uhlenbeck process
// (time-correlated exploration). [Explorer.BeginRhythm] makes legs run, which these seldom do.
//
// [Record] records any [hal.Robot] with [hal.Resetter] in simulated time. Package lab/recording
// records any robot, in real time, with the [Explorer] of this package.
package collect
