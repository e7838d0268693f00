// Package collect records transitions of a simulated robot under exploring
// actions: the data that a behaviour foundation model is trained on.
//
// The data shall cover the state space rather than show any skill, so a
// recording is cut into short episodes, each from another initial state and
// with another manner of exploring: a fresh random action every tick, an action
// held for a while (often an extreme one, which is how top speeds and walls are
// found), or a random walk that drifts back to the middle (an
// Ornstein-Uhlenbeck process, the noise of time-correlated exploration).
//
// It works for whatever implements [hal.Robot] and [hal.Resetter].
package collect
