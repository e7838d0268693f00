package i2cbus

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"periph.io/x/conn/v3/i2c"

	"optibfm/hal"
)

// MaxWrite is the most bytes that Write takes: a register's number and 128
// bytes for it.
const MaxWrite = 129

// Conn is a device on a bus, whose registers are addressed by a byte. It is
// used by one goroutine.
type Conn struct {
	bus     i2c.Bus
	addr    uint16
	name    string
	timeout time.Duration  // of the bus
	out     [MaxWrite]byte // a caller's array on its stack would be moved to the heap in every call
	faults  hal.Faults
	failed  [4]Error // the newest
	next    int
}

// NewConn returns the device at a 7-bit address. The name is for messages.
func NewConn(bus i2c.Bus, addr uint16, name string) *Conn {
	return &Conn{bus: bus, addr: addr, timeout: timeoutOf(bus), name: fmt.Sprintf("%s at %#02x on %s", name, addr, bus)}
}

// Name says which device this is: "mpu6050 at 0x68 on /dev/i2c-1".
func (c *Conn) Name() string { return c.name }

// Timeout is the longest time that a transaction takes, its second try included:
// the bus's time-out and a fifth of it. A bus that does not say is taken for one
// with the kernel's own, [MaxTimeout]. An adapter that waits for each message of a
// transaction takes up to twice as long.
func (c *Conn) Timeout() time.Duration { return TransactionTimeout(c.timeout) }

// TransactionTimeout is what [Conn.Timeout] is on a bus with a time-out.
func TransactionTimeout(bus time.Duration) time.Duration { return bus + bus/retryWithin }

// retryWithin is the part of the bus's time-out within which the first try has
// failed where there is a second one.
const retryWithin = 5

func timeoutOf(bus i2c.Bus) time.Duration {
	if b, ok := bus.(interface{ Timeout() time.Duration }); ok {
		return b.Timeout()
	}
	return MaxTimeout
}

// Faults counts what failed since NewConn.
func (c *Conn) Faults() hal.Faults { return c.faults }

// Read reads len(dst) registers from reg on. After an error dst is unspecified.
func (c *Conn) Read(reg byte, dst []byte) error {
	c.out[0] = reg
	return c.transact(c.out[:1], dst)
}

// ReadRegister reads one register. It is not for a control tick: it allocates.
func (c *Conn) ReadRegister(reg byte) (byte, error) {
	value := make([]byte, 1)
	err := c.Read(reg, value)
	return value[0], err
}

// Write writes data to the registers from reg on. It panics where there are
// more than fit into [MaxWrite].
func (c *Conn) Write(reg byte, data ...byte) error {
	c.out[0] = reg
	n := copy(c.out[1:], data)
	if n < len(data) {
		panic(fmt.Sprintf("i2cbus: %d bytes in one write: at most %d", len(data), MaxWrite-1))
	}
	return c.transact(c.out[:1+n], nil)
}

// transact tries a transaction up to twice. Both tries have one deadline, Timeout:
// the second, which may take the bus's whole time-out, is only begun where that much
// is left.
func (c *Conn) transact(w, r []byte) error {
	begun := time.Now()
	err := c.bus.Tx(c.addr, w, r)
	if err == nil {
		return nil
	}
	if kindOf(err) != hal.ErrTimeout && time.Since(begun) <= c.timeout/retryWithin {
		if err = c.bus.Tx(c.addr, w, r); err == nil {
			c.faults.Mended++
			return nil
		}
	}
	return c.Fail(kindOf(err), err)
}

// Fail counts a fault and returns its error: what a driver found wrong in an
// answer that came. The error's memory is used again by the fourth one after it.
func (c *Conn) Fail(kind, cause error) error {
	e := &c.failed[c.next%len(c.failed)]
	c.next++
	*e = Error{Device: c.name, Kind: kind, Cause: cause}
	c.faults.Count(kind)
	return e
}

// kindOf sorts the errors of a bus.
func kindOf(err error) error {
	switch {
	case errors.Is(err, hal.ErrTimeout), errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, os.ErrDeadlineExceeded):
		return hal.ErrTimeout
	case errors.Is(err, hal.ErrShort), errors.Is(err, io.ErrUnexpectedEOF):
		return hal.ErrShort
	}
	return hal.ErrBus
}

// Error is what went wrong with a device. It wraps its kind, one of package
// hal's, and its cause.
type Error struct {
	Device string
	Kind   error
	Cause  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v (%v): %s", e.Device, e.Kind, e.Cause, advice(e.Kind))
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Is makes the cause found by errors.Is too. A list of two to unwrap would have
// to be allocated.
func (e *Error) Is(target error) bool { return errors.Is(e.Cause, target) }

func advice(kind error) string {
	switch kind {
	case hal.ErrTimeout:
		return "somebody holds the bus; check the pull-ups and the wiring, or cycle the power"
	case hal.ErrDevice:
		return "check its power, then start again"
	}
	return "check the wiring, the address and the power (i2cdetect shows who answers)"
}
