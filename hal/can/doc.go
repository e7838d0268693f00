// Package can sends and receives CAN frames on a control thread, through the kernel's SocketCAN
// (Documentation/networking/can.rst). Every call has a deadline and allocates nothing.
//
//	bus, err := can.Open("can0")
//	deadline := monotonic.After(time.Millisecond)
//	err = bus.Send(&can.Frame{ID: 1, Len: 8}, deadline)
//	err = bus.Receive(&frame, deadline)
//
// It uses raw AF_CAN sockets. The socketcan package of go.einride.tech/can does not suit a control
// thread: it reads through the runtime's poller, which parks the goroutine; each missed deadline
// allocates an error; and its bufio.Scanner stops at the first error.
//
// Receive does not return the controller's error frames. After bus-off, Send and Receive fail at
// once with hal.ErrBus until the controller restarts. It restarts automatically only with
// restart-ms, which a robot should set:
//
//	ip link set can0 type can bitrate 1000000 restart-ms 100
//	ip link set can0 txqueuelen 64 up
//
// A full transmit queue, which means that no node acknowledges, is hal.ErrTimeout at once: the
// kernel does not report when the queue has room again.
//
// [LinkState] reads an interface's bit rate and state by rtnetlink, for checks at start. The
// control thread does not call it: it learns of bus-off from the error frames.
//
// The address "unix:/path" in place of an interface connects to a SOCK_SEQPACKET socket that
// carries the same 16-byte frames. Simulators use it, and package cantest.
package can
