// Package i2cbustest has an I²C bus in memory, with chips that answer like the
// real ones down to their registers and that can be broken in the ways buses
// and chips break. It is for the tests of drivers, and of their users.
package i2cbustest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"

	"optibfm/hal"
	"optibfm/hal/cp2112test"
	"optibfm/hal/devicetest"
	"optibfm/hal/i2cbus"
)

// Bus is a bus with chips. Its errors are those of Linux.
type Bus struct {
	mu     sync.Mutex
	chips  map[uint16]*Chip
	held   time.Duration // how long a transaction waits for a bus that is held; 0: it is free
	nacks  int
	count  int
	closed bool

	adapter *cp2112test.Adapter // with kernel; nil: none
	kernel  *i2cbus.Bus
}

var _ i2c.BusCloser = (*Bus)(nil)

// New returns a bus with the chips at their addresses.
func New(chips map[uint16]*Chip) *Bus {
	b := &Bus{chips: chips}
	if os.Getenv("OPTIBFM_VM") == "" {
		return b
	}
	var err error
	if b.adapter, err = cp2112test.New(b.transact); err != nil {
		panic(err)
	}
	if b.kernel, err = i2cbus.Open(b.adapter.Bus, i2cbus.DefaultTimeout); err != nil {
		panic(err)
	}
	return b
}

func (b *Bus) String() string { return "i2c-fake" }

// Path returns the node of the bus in the kernel, such as /dev/i2c-3.
func (b *Bus) Path() string { return b.adapter.Bus }

// SetSpeed does nothing.
func (b *Bus) SetSpeed(physic.Frequency) error { return nil }

// Close notes that the bus was closed.
func (b *Bus) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	again := b.closed
	b.closed = true
	if b.kernel == nil || again {
		return nil
	}
	return errors.Join(b.kernel.Close(), b.adapter.Close())
}

// Closed reports whether Close was called.
func (b *Bus) Closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// Hold makes every transaction fail with ETIMEDOUT after a time, as on a bus
// whose clock or data line is held low. 0 lets it go.
func (b *Bus) Hold(timeout time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = timeout
}

// Nack makes the next n transactions fail with EREMOTEIO, for any chip.
func (b *Bus) Nack(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nacks = n
}

// Faults are those of a bus with a chip, for drivers that only read it after Arm.
func (b *Bus) Faults(chip *Chip) []devicetest.Fault {
	const held = time.Microsecond
	return []devicetest.Fault{
		{Name: "unplugged", Break: func() { chip.Unplugged = true }, Read: hal.ErrBus, Arm: hal.ErrBus},
		{Name: "held bus", Break: func() { b.Hold(held) }, Read: hal.ErrTimeout, Arm: hal.ErrTimeout},
	}
}

// Transactions counts the calls of Tx.
func (b *Bus) Transactions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// With calls f with a chip while no transaction is under way: the tests' way
// to change and to see it.
func (b *Bus) With(addr uint16, f func(*Chip)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	chip, ok := b.chips[addr]
	if !ok {
		panic(fmt.Sprintf("i2cbustest: no chip at %#02x", addr))
	}
	f(chip)
}

// Tx makes a transaction with the chip at addr.
func (b *Bus) Tx(addr uint16, w, r []byte) error {
	if b.kernel != nil {
		return b.kernel.Tx(addr, w, r)
	}
	return b.transact(addr, w, r)
}

func (b *Bus) transact(addr uint16, w, r []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	if b.held > 0 {
		time.Sleep(b.held)
		return syscall.ETIMEDOUT
	}
	if b.nacks > 0 {
		b.nacks--
		return syscall.EREMOTEIO
	}
	chip := b.chips[addr]
	if chip == nil || chip.Unplugged {
		return syscall.EREMOTEIO
	}
	return chip.transact(w, r)
}
