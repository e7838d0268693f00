// Package serial is a serial port for a control thread: every call has a deadline on
// CLOCK_MONOTONIC, returns by it, and allocates nothing.
//
// The port is a non-blocking descriptor in raw mode. Calls wait in ppoll(2) on the calling thread;
// there is no goroutine beside it.
//
//	port, err := serial.Open(serial.Config{Path: "/dev/serial/by-id/...", Baud: 1_000_000})
//	deadline := monotonic.After(3 * time.Millisecond)
//	err = port.Drain()
//	err = port.Write(request, deadline)
//	n, err := port.ReadFull(reply, deadline)
//
// # Opening
//
// Any baud rate is possible (termios2 with BOTHER). Open refuses a rate that the hardware misses
// by more than 2.5 %. It locks the port by TIOCEXCL and by flock(2), which also excludes root. It
// sets the driver's low-latency flag if there is one; without it an FTDI adapter holds answers
// back for up to 16 ms (its latency timer), which is longer than most transactions.
//
// # A lost port
//
// After an adapter is unplugged, or the line hangs up, this call and every further one fails at
// once with an error that wraps hal.ErrLost, and [Port.Lost] is true. [Port.Recover] opens the port
// again, so that a Halt reaches the devices of an adapter that has returned. It needs a name in
// /dev/serial/by-id: /dev/ttyUSB0 may be another adapter after replugging.
//
// # Half duplex
//
// Some adapters for one-wire buses receive what they send. With Config.Echo, Write reads the echo
// back and compares it, which detects collisions. Without it, the echo looks like an answer. For
// RS-485 transceivers whose direction the UART's driver switches, set Config.RS485 (TIOCSRS485).
package serial
