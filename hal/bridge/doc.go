// Package bridge drives a robot that lives in another process: a simulator in
// Python, a vendor's program, another computer. [Dial] gives a [Robot], which
// is a hal.Robot; [Serve] is the other side for robots written in Go, and
// scripts/optibfm_bridge.py for robots written in Python. PROTOCOL.md in this
// folder says what goes over the socket.
//
// # Dialling
//
// A [Config] has the address of the server, or the command that starts it, or
// both. With a command one configuration runs everything:
//
//	command: [python3, scripts/dmc_bridge.py, cheetah, walk]
//	mode: lockstep
//
// # Two kinds of time
//
// In lockstep the robot's time is that of the calls: each Act makes one step of
// one period and brings the state that follows back with its reward, so a tick
// costs one round trip and Sense costs none. The same seed and the same actions
// give the same states.
//
// In free mode time passes by itself. Sense asks for the newest sample and waits
// for the answer at most timeout_ms; without an answer it gives the previous
// sample again until that is older than stale_ms, and [ErrStale] then. Act does
// not wait at all.
//
// # What is lost stays lost
//
// After a broken connection, a breach of the protocol or, in lockstep, a missed
// timeout, nobody knows what the robot does: every call returns [ErrLost], and
// the connection is cut. That is also the command to halt, because a server
// halts its robot whenever a connection ends. Errors that the robot itself
// reports are a [RemoteError], and the connection goes on.
//
// # The control thread
//
// Sense and Act allocate nothing, and they wait in ppoll on their own thread
// with an absolute deadline; no other goroutine takes part.
package bridge
