// Package bridge drives a robot that another process holds: a simulator in
// Python, a vendor's program, another computer. [Dial] returns a [Robot], which
// is a hal.Robot. [Serve] is the server for robots written in Go,
// scripts/optibfm_bridge.py the one for robots written in Python. PROTOCOL.md in
// this folder describes what goes over the socket.
//
// # Dialling
//
// A [Config] has the address of the server, or the command that starts it, or
// both. With a command one configuration runs everything:
//
//	command: [python3, scripts/dmc_bridge.py, cheetah, walk]
//	mode: lockstep
//
// The end of Dial's context ends it at once, whatever the server does.
//
// # Modes
//
// In lockstep the robot's time is that of the calls: each Act makes one step of
// one period and brings the next state and its reward, so a tick costs one round
// trip and Sense costs none. The same seed and the same actions give the same
// states.
//
// In free mode time passes by itself. Sense asks for the newest sample and waits
// for the answer at most timeout_ms. Without an answer it returns the previous
// sample until that is older than stale_ms, and [ErrStale] then. Act does not
// wait for an answer.
//
// # A lost robot
//
// After a broken connection, a breach of the protocol or, in lockstep, a missed
// timeout, the state of the robot is unknown: every call returns [ErrLost], and
// the connection is cut, upon which the server halts its robot. In both modes an
// answer that no request asked for is a breach. A [RemoteError], which the robot
// itself reports, does not end the connection.
//
// # The control thread
//
// Sense and Act allocate nothing, and they wait in ppoll on their own thread
// with an absolute deadline; no other goroutine takes part.
package bridge
