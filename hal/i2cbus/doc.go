// Package i2cbus makes transactions on an I²C bus bounded and countable, for
// drivers whose devices are read and written by a control loop.
//
// It has two parts. [Open] opens a bus of the Linux kernel and limits the duration
// of a transaction. [Conn] is a device on any periph.io [i2c.Bus]: it reads and
// writes registers, tries a transaction a second time if that can help, classifies
// and counts faults by the kinds of package hal, and allocates nothing:
//
//	bus, err := i2cbus.Open("/dev/i2c-1", i2cbus.DefaultTimeout)
//	...
//	conn := i2cbus.NewConn(bus, 0x68, "mpu6050")
//	err = conn.Read(0x3B, buffer)
//
// # The worst case
//
// The kernel's adapter waits for a transfer at most the bus's timeout, in units of
// 10 ms. Some adapters wait that long for each of the two messages that reading a
// register consists of, and some then free a stuck bus, which takes nine clocks,
// 0.1 ms at 100 kHz. A transaction that timed out is not repeated. A second try
// follows only a failure within a fifth of the timeout (no acknowledge, lost
// arbitration). Both tries together take at most [Conn.Timeout], 1.2 times the
// timeout. A successful transaction takes its time on the wire, 9 bits a byte:
// 0.1 ms for a register and 0.4 ms for 14 registers at 400 kHz.
//
// # Fakes
//
// Package i2cbustest simulates a bus with chips down to their registers, and the
// faults of a bus.
package i2cbus
