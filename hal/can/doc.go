// Package can sends and receives CAN frames for a control thread, through the
// kernel's SocketCAN (Documentation/networking/can.rst): every call has a
// deadline and allocates nothing.
//
//	bus, err := can.Open("can0")
//	err = bus.Send(&can.Frame{ID: 1, Len: 8}, serial.After(time.Millisecond))
//	err = bus.Receive(&frame, deadline)
//
// It uses raw AF_CAN sockets. The socketcan package of go.einride.tech/can was
// considered: it reads through os.File and so through the runtime's poller, which
// parks the goroutine and lets another thread wake it; each deadline passed is an
// allocated error; and its bufio.Scanner ends for good at the first one.
//
// Error frames of the controller are taken out of the stream and counted by
// [Socket.Faults]. After bus-off, Send and Receive fail at once with hal.ErrBus
// until the controller has been restarted: by itself, where the interface was set
// up with restart-ms, which a robot should have:
//
//	ip link set can0 type can bitrate 1000000 restart-ms 100
//	ip link set can0 txqueuelen 64 up
//
// The kernel does not say when a transmit queue has room again: a full one, which
// means that nobody acknowledges, is hal.ErrTimeout at once.
//
// An address "unix:/path" instead of an interface connects to a SOCK_SEQPACKET
// socket that carries the same 16-byte frames: simulators, and package cantest,
// where there is no CAN.
package can
