// Package i2cbus makes transactions on an I²C bus bounded and countable, for
// drivers whose devices are read and written by a control loop.
//
// It has two parts. [Open] opens a bus of the Linux kernel and limits how long
// a transaction may take. [Conn] is a device on any periph.io [i2c.Bus]: it
// reads and writes registers, tries a transaction a second time where that can
// help, sorts what went wrong into the kinds of package hal, counts them, and
// allocates nothing:
//
//	bus, err := i2cbus.Open("/dev/i2c-1", i2cbus.DefaultTimeout)
//	...
//	conn := i2cbus.NewConn(bus, 0x68, "mpu6050")
//	err = conn.Read(0x3B, buffer)
//
// # The worst case
//
// The kernel's adapter waits at most the bus's time-out for a transfer; the
// unit is 10 ms, so nothing below 10 ms can be asked for. Some adapters wait
// that long for each of the two messages that reading a register is made of,
// and some then free a stuck bus, which takes nine clocks, 0.1 ms at 100 kHz. A
// transaction that timed out is not tried again: the second try is for those
// that fail at once (no acknowledge, lost arbitration), within a fifth of the
// time-out. Both tries together so take [Conn.Timeout] at most, a time-out and a
// fifth, however they fail, and healthy ones their time on the wire: 9 bits a byte, so 0.1 ms for a register
// and 0.4 ms for 14 registers at 400 kHz.
//
// # Fakes
//
// Package i2cbustest has a bus with chips that behave like the real ones down
// to their registers, and that can be broken in the ways buses break.
package i2cbus
