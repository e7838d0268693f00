// Package collect records transitions of a simulated robot under exploring
// actions: the training data of a behaviour foundation model.
//
// The data must cover the state space. A recording therefore consists of short
// episodes, each with another initial state and another kind of exploration: a
// random action in every tick; an action held for some ticks, often at a limit,
// which reaches top speeds and walls; or an Ornstein-Uhlenbeck process
// (time-correlated exploration).
//
// Any [hal.Robot] with [hal.Resetter] can be recorded.
package collect
