package i2cbus

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"
)

// The limits of a bus's timeout.
const (
	DefaultTimeout = 10 * time.Millisecond
	MaxTimeout     = time.Second
)

// The kernel's interface: include/uapi/linux/i2c-dev.h and i2c.h, explained in
// Documentation/i2c/dev-interface.rst.
const (
	ioctlRetries = 0x0701
	ioctlTimeout = 0x0702 // in units of 10 ms
	ioctlFuncs   = 0x0705
	ioctlRdwr    = 0x0707

	funcI2C  = 0x1 // plain I²C transfers, not only SMBus ones
	flagRead = 0x1
	maxMsg   = 8192 // bytes in a message; i2c-dev.c refuses more
)

// message is struct i2c_msg. Its pointer is visible to the garbage collector.
type message struct {
	addr, flags, length uint16
	_                   uint16
	data                unsafe.Pointer
}

// transfer is struct i2c_rdwr_ioctl_data.
type transfer struct {
	messages unsafe.Pointer
	count    uint32
}

// kernel is ioctl with a number or with the address of one.
type kernel struct {
	set   func(fd uintptr, request uint, value uintptr) syscall.Errno
	point func(fd uintptr, request uint, at unsafe.Pointer) syscall.Errno
}

// linux makes the system calls, visible to the scheduler because they last as long
// as the transfer.
var linux = kernel{
	set: func(fd uintptr, request uint, value uintptr) syscall.Errno {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uintptr(request), value)
		return errno
	},
	point: func(fd uintptr, request uint, at unsafe.Pointer) syscall.Errno {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uintptr(request), uintptr(at))
		return errno
	},
}

// Bus is an I²C bus of the kernel. It implements [i2c.BusCloser]. Unlike periph's
// own adapter it limits the time of a transaction, keeps the kernel's error
// number, and allocates nothing. Goroutines may share it.
type Bus struct {
	file    *os.File
	path    string
	timeout time.Duration // of the adapter
	kernel

	mu       sync.Mutex
	messages [2]message
	transfer transfer
	node     unix.Stat_t
	reopen   time.Time // after a removal; zero: the adapter is there
}

// ErrRemoved is the error of a bus whose adapter was removed.
var ErrRemoved = errors.New("the adapter was removed")

// reopenInterval is longer than a controller bridges the failures of a sensor: a device that lost
// its power with its adapter has lost its settings.
const reopenInterval = time.Second

var _ i2c.BusCloser = (*Bus)(nil)

// Open opens a bus such as /dev/i2c-1. It sets the adapter to abort a transfer
// after timeout, rounded up to 10 ms and at most [MaxTimeout], and not to repeat
// it. This setting of the adapter affects all programs that use the bus.
func Open(path string, timeout time.Duration) (*Bus, error) {
	return open(path, timeout, linux)
}

func open(path string, timeout time.Duration, k kernel) (*Bus, error) {
	if timeout <= 0 || timeout > MaxTimeout {
		return nil, fmt.Errorf("i2cbus: %s: the timeout is out of range (%v); choose more than 0, up to %v",
			path, timeout, MaxTimeout)
	}
	b := &Bus{path: path, timeout: Granted(timeout), kernel: k}
	if err := b.open(); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Bus) open() error {
	file, err := os.OpenFile(b.path, os.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("i2cbus: %s: no such bus; enable it and load the module i2c-dev (i2cdetect -l)", b.path)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("i2cbus: %s: permission denied; add the user to the group of the file (i2c)", b.path)
	case err != nil:
		return fmt.Errorf("i2cbus: %w", err)
	}
	if err := b.configure(file.Fd()); err != nil {
		file.Close()
		return err
	}
	b.file, b.reopen = file, time.Time{}
	return nil
}

// configure sets the adapter's timeout.
func (b *Bus) configure(fd uintptr) error {
	var funcs uint64 // the kernel writes an unsigned long
	if errno := b.point(fd, ioctlFuncs, unsafe.Pointer(&funcs)); errno != 0 {
		return fmt.Errorf("i2cbus: %s: not an I²C bus (%w); see i2cdetect -l", b.path, errno)
	}
	if funcs&funcI2C == 0 {
		return fmt.Errorf("i2cbus: %s: the adapter supports SMBus only (functions %#x)", b.path, funcs)
	}
	if errno := b.set(fd, ioctlTimeout, uintptr(b.timeout/timeoutUnit)); errno != 0 {
		return fmt.Errorf("i2cbus: %s: the adapter's timeout could not be set: %w", b.path, errno)
	}
	if errno := b.set(fd, ioctlRetries, 0); errno != 0 {
		return fmt.Errorf("i2cbus: %s: the adapter's retries could not be turned off: %w", b.path, errno)
	}
	return nil
}

func (b *Bus) String() string { return b.path }

const timeoutUnit = 10 * time.Millisecond // the kernel's

// Granted returns the timeout of a bus that was opened with a timeout.
func Granted(timeout time.Duration) time.Duration {
	return (timeout + timeoutUnit - 1) / timeoutUnit * timeoutUnit
}

// Timeout is the time after which the adapter aborts a transfer.
func (b *Bus) Timeout() time.Duration { return b.timeout }

var (
	errAddress = errors.New("i2cbus: the address is not a 7-bit address; use 0x08 to 0x77")
	errLength  = errors.New("i2cbus: the message is longer than 8192 bytes")
)

// Tx writes w, then reads r, in one transaction. Its errors are the kernel's:
// ETIMEDOUT for a blocked bus, ENXIO or EREMOTEIO for a device that does not
// answer, EAGAIN for lost arbitration, EIO for other faults;
// Documentation/i2c/fault-codes.rst. After the removal of a USB adapter Tx returns
// [ErrRemoved], and opens the bus again, at most once a second, by its path.
func (b *Bus) Tx(addr uint16, w, r []byte) error {
	if addr < 0x08 || addr > 0x77 {
		return errAddress
	}
	if len(w) > maxMsg || len(r) > maxMsg {
		return errLength
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.reopen.IsZero() && !b.reopened() {
		return ErrRemoved
	}
	n := 0
	if len(w) > 0 {
		b.messages[n] = message{addr: addr, length: uint16(len(w)), data: unsafe.Pointer(&w[0])}
		n++
	}
	if len(r) > 0 {
		b.messages[n] = message{addr: addr, flags: flagRead, length: uint16(len(r)), data: unsafe.Pointer(&r[0])}
		n++
	}
	if n == 0 {
		return nil
	}
	b.transfer = transfer{messages: unsafe.Pointer(&b.messages), count: uint32(n)}
	errno := b.point(b.file.Fd(), ioctlRdwr, unsafe.Pointer(&b.transfer))
	b.messages = [2]message{} // do not keep the caller's buffers alive
	switch {
	case errno == 0:
		return nil
	case b.removed():
		return ErrRemoved
	}
	return errno
}

// removed reports whether the kernel deleted the node of the bus, and closes the bus: the kernel
// cannot release a removed adapter before.
func (b *Bus) removed() bool {
	if err := unix.Fstat(int(b.file.Fd()), &b.node); err != nil || b.node.Nlink > 0 {
		return false
	}
	_ = b.file.Close()
	b.reopen = time.Now().Add(reopenInterval)
	return true
}

// reopened opens the bus again if it is time to.
func (b *Bus) reopened() bool {
	now := time.Now()
	if now.Before(b.reopen) {
		return false
	}
	b.reopen = now.Add(reopenInterval)
	return b.open() == nil
}

// SetSpeed returns an error: the device tree sets the speed of a bus.
func (b *Bus) SetSpeed(physic.Frequency) error {
	return fmt.Errorf("i2cbus: %s: the speed is fixed; set clock-frequency in the device tree", b.path)
}

// Close closes the bus. Tx must not be called afterwards.
func (b *Bus) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.reopen.IsZero() {
		return nil
	}
	return b.file.Close()
}
