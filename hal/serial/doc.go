// Package serial is a serial port for a control thread: every call has a
// deadline, returns by it, and allocates nothing.
//
// The port is a non-blocking descriptor in raw mode. Waiting is done in
// ppoll(2) with what is left until a deadline on CLOCK_MONOTONIC, see
// [Monotonic] and [After]; the calling thread keeps its thread, nothing runs
// beside it.
//
//	port, err := serial.Open(serial.Config{Path: "/dev/serial/by-id/...", Baud: 1_000_000})
//	deadline := serial.After(3 * time.Millisecond)
//	err = port.Drain()
//	err = port.Write(request, deadline)
//	n, err := port.ReadFull(reply, deadline)
//
// # Opening
//
// Any baud rate can be asked for (termios2 with BOTHER); a rate that the
// hardware does not reach within 2.5 % is refused. The port is taken exclusively,
// by TIOCEXCL and by flock(2), which also holds against root. Where the driver
// has a low-latency flag it is set; [Port.LowLatency] tells whether it was. An
// FTDI adapter without it holds answers back for up to 16 ms (its latency
// timer), which is more than most transactions last.
//
// # A port that disappears
//
// An adapter that is pulled out, or a line that hangs up, gives an error that
// wraps hal.ErrBus, at once and on every further call; [Port.Lost] tells. The
// port does not come back by itself: [Port.Reopen] tries once, takes no longer
// than the kernel's open does (some milliseconds, no waiting for a carrier), and
// is meant for the moment in which an operator arms the robot again. A name
// under /dev/serial/by-id survives being plugged in again; /dev/ttyUSB0 may not.
//
// # Half duplex
//
// Some adapters of one-wire buses hear what they send. With Config.Echo, Write
// also reads that back and compares it, which finds collisions; without it the
// echo would be taken for an answer. Transceivers for RS-485 whose direction the
// UART's driver switches want Config.RS485 (TIOCSRS485; it is verified).
package serial
