// Package bridge drives a robot in another process: a simulator in Python, a
// vendor's program, another computer. [Dial] returns a [Robot], which is a
// hal.Robot. [Serve] is the server for robots in Go, scripts/optibfm_bridge the
// one for robots in Python. PROTOCOL.md in this folder specifies the protocol.
//
// # Dialling
//
// A [Config] has the address of the server, or the command that starts it, or
// both. With a command one configuration runs everything:
//
//	command: [python3, scripts/dmc_bridge.py, cheetah, walk]
//	mode: lockstep
//
// Dial returns as soon as its context ends.
//
// # Modes
//
// In lockstep the calls advance the robot's time: each Act makes one step of one
// period and returns the next state and its reward, so a tick costs one round trip
// and Sense costs none. The same seed and the same actions give the same states.
//
// Free mode uses real time. Sense requests the newest sample and waits for the
// answer for at most timeout_ms. Without an answer it returns the previous
// sample until that is older than stale_ms, and [ErrStale] then. Act does not
// wait for an answer.
//
// # A lost robot
//
// After a broken connection, a protocol error or, in lockstep, a timeout, the state
// of the robot is unknown: every call returns [ErrLost], and the client closes the
// connection, after which the server halts its robot. In both modes an answer
// without a request is a protocol error. A [RemoteError], which the robot itself
// reports, does not end the connection.
//
// # Where motion begins
//
// A welcome of version 2 names the observations that measure the actuators, which Dial
// returns in hal.Channel.Measured.
//
// # The control thread
//
// Sense and Act allocate nothing. They wait in ppoll on their own thread with an
// absolute deadline, without other goroutines.
package bridge
