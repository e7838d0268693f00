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

// MaxWrite is the longest write in bytes: a register's number and 128 bytes of
// data.
const MaxWrite = 129

// Conn is a device on a bus with byte-addressed registers. One goroutine uses it.
type Conn struct {
	bus     i2c.Bus
	addr    uint16
	name    string
	timeout time.Duration  // of the bus
	out     [MaxWrite]byte // an array on the stack of Read or Write would escape to the heap
	check   [1]byte
	faults  hal.Faults
	failed  [4]Error // the newest
	next    int
}

// NewConn returns the device at a 7-bit address. Messages contain the name.
func NewConn(bus i2c.Bus, addr uint16, name string) *Conn {
	return &Conn{bus: bus, addr: addr, timeout: timeoutOf(bus), name: fmt.Sprintf("%s at %#02x on %s", name, addr, bus)}
}

// Name returns the name of the device: "mpu6050 at 0x68 on /dev/i2c-1".
func (c *Conn) Name() string { return c.name }

// Timeout is the longest duration of a transaction with its second try: 1.2 times
// the bus's timeout, or of the kernel's default, [MaxTimeout], if the bus does not
// have the method Timeout. An adapter that waits for each message of a transaction
// takes up to twice as long.
func (c *Conn) Timeout() time.Duration { return TransactionTimeout(c.timeout) }

// TransactionTimeout returns [Conn.Timeout] for the timeout of a bus.
func TransactionTimeout(bus time.Duration) time.Duration { return bus + bus/retryWithin }

// retryWithin limits a second try: it follows only if the first one failed within
// 1/retryWithin of the bus's timeout.
const retryWithin = 5

func timeoutOf(bus i2c.Bus) time.Duration {
	if b, ok := bus.(interface{ Timeout() time.Duration }); ok {
		return b.Timeout()
	}
	return MaxTimeout
}

// Faults returns the fault counts since NewConn.
func (c *Conn) Faults() hal.Faults { return c.faults }

// Read reads len(dst) registers from reg on. After an error dst is unspecified.
func (c *Conn) Read(reg byte, dst []byte) error {
	c.out[0] = reg
	return c.transact(c.out[:1], dst)
}

// Write writes data to the registers from reg on. It panics if data is longer than
// [MaxWrite] allows.
func (c *Conn) Write(reg byte, data ...byte) error {
	c.out[0] = reg
	n := copy(c.out[1:], data)
	if n < len(data) {
		panic(fmt.Sprintf("i2cbus: %d bytes in one write: at most %d", len(data), MaxWrite-1))
	}
	return c.transact(c.out[:1+n], nil)
}

// Setting is a register and its required value. Ignore masks bits that may have any value.
type Setting struct{ Reg, Value, Ignore byte }

// Verify reads settings back. Another value is a fault of the kind hal.ErrDevice.
func (c *Conn) Verify(settings ...Setting) error {
	for _, s := range settings {
		if err := c.Read(s.Reg, c.check[:]); err != nil {
			return err
		}
		if got := c.check[0]; got&^s.Ignore != s.Value {
			return c.Fail(hal.ErrDevice, fmt.Errorf("register %#02x holds %#02x, want %#02x", s.Reg, got, s.Value))
		}
	}
	return nil
}

// transact tries a transaction up to twice. Both tries share one deadline, Timeout:
// the second, which may take the bus's whole timeout, starts only if that much time
// is left.
func (c *Conn) transact(w, r []byte) error {
	begun := time.Now()
	err := c.bus.Tx(c.addr, w, r)
	if err == nil {
		return nil
	}
	if kindOf(err) != hal.ErrTimeout && time.Since(begun) <= c.timeout/retryWithin {
		if err = c.bus.Tx(c.addr, w, r); err == nil {
			c.faults.Recovered++
			return nil
		}
	}
	return c.Fail(kindOf(err), err)
}

// Fail counts a fault that a driver found in an answer, and returns its error. The
// fourth error after it reuses its memory.
func (c *Conn) Fail(kind, cause error) error {
	e := &c.failed[c.next%len(c.failed)]
	c.next++
	*e = Error{Device: c.name, Kind: kind, Cause: cause}
	c.faults.Count(kind)
	return e
}

// kindOf classifies the errors of a bus.
func kindOf(err error) error {
	switch {
	case errors.Is(err, hal.ErrTimeout), errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, os.ErrDeadlineExceeded):
		return hal.ErrTimeout
	case errors.Is(err, hal.ErrShort), errors.Is(err, io.ErrUnexpectedEOF):
		return hal.ErrShort
	}
	return hal.ErrBus
}

// Error is a fault of a device. It wraps its kind, one of package hal's, and its
// cause.
type Error struct {
	Device string
	Kind   error
	Cause  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v (%v); %s", e.Device, e.Kind, e.Cause, e.advice())
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Is lets errors.Is find the cause. Unwrapping to a slice would allocate.
func (e *Error) Is(target error) bool { return errors.Is(e.Cause, target) }

func (e *Error) advice() string {
	switch {
	case errors.Is(e.Cause, ErrRemoved):
		return "connect it, wait a second, then reset"
	case errors.Is(e.Cause, syscall.EOPNOTSUPP):
		return "the adapter cannot make transfers of this length; use another adapter, or fewer channels"
	case e.Kind == hal.ErrTimeout:
		return "check the pull-ups and the wiring, or cycle the power"
	case e.Kind == hal.ErrDevice:
		return "check its power, then restart the run"
	}
	return "check the wiring, the address and the power (i2cdetect lists the devices)"
}
