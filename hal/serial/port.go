package serial

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal"
)

// Port is an open serial port. It is used by one thread.
type Port struct {
	config     Config
	fd         int // -1 while there is none
	lowLatency bool
	lost       bool

	wait [1]unix.PollFd
	left unix.Timespec
	echo [64]byte
	ctx  context.Context // of the opening of a device; nil: nothing interrupts a wait

	// Made by Open and returned as they are.
	errTimeout, errLost, errEcho error
}

// Open opens the port. It takes some milliseconds.
func Open(c Config) (*Port, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	fd, low, err := openDevice(c)
	if err != nil {
		return nil, err
	}
	return &Port{
		config: c, fd: fd, lowLatency: low,
		errTimeout: fmt.Errorf("serial: %s: %w: see power, wiring and baud", c.Path, hal.ErrTimeout),
		errLost:    fmt.Errorf("serial: %s: %w (the port is gone or hung up): plug it in and arm again", c.Path, hal.ErrBus),
		errEcho:    fmt.Errorf("serial: %s: %w (what came back is not what was sent): see whether two devices speak at once, or leave echo out", c.Path, hal.ErrBus),
	}, nil
}

// Config gives the settings that the port was opened with.
func (p *Port) Config() Config { return p.config }

// LowLatency tells whether the driver hands bytes on at once.
func (p *Port) LowLatency() bool { return p.lowLatency }

// Lost tells whether the port has failed and waits for Reopen.
func (p *Port) Lost() bool { return p.lost }

// Reopen closes the port and tries once to open it again, as Open did. It is
// not for a tick: see the package documentation.
func (p *Port) Reopen() error {
	_ = p.Close()
	fd, low, err := openDevice(p.config)
	if err != nil {
		return fmt.Errorf("%w: %w", hal.ErrBus, err)
	}
	p.fd, p.lowLatency, p.lost = fd, low, false
	return nil
}

// Interrupt makes Read and Write return an error that wraps ctx.Err(), within
// interruptEvery, when ctx ends, until end is called. It is for opening a device
// that may take long to answer, not for a tick.
func (p *Port) Interrupt(ctx context.Context) (end func()) {
	p.ctx = ctx
	return func() { p.ctx = nil }
}

// interruptEvery is the longest time that a call waits before it looks at the
// context again.
const interruptEvery = 50 * time.Millisecond

func (p *Port) interrupted() error {
	if p.ctx == nil || p.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("serial: %s: interrupted: %w", p.config.Path, p.ctx.Err())
}

// Close gives the port back. Every later call but Reopen says that the port is
// gone.
func (p *Port) Close() error {
	if p.fd < 0 {
		return nil
	}
	err := unix.Close(p.fd)
	p.fd, p.lost = -1, true
	return err
}

// Drain throws away what the kernel has received and nobody has read: a late
// answer must not be taken for that of the next request. What an adapter still
// holds cannot be reached. It does not wait.
func (p *Port) Drain() error {
	if p.lost {
		return p.errLost
	}
	if err := unix.IoctlSetInt(p.fd, unix.TCFLSH, unix.TCIFLUSH); err != nil {
		return p.lose()
	}
	return nil
}

// Write hands all of b to the port by the deadline, CLOCK_MONOTONIC
// nanoseconds. It does not wait until the bytes are on the line, but with
// Config.Echo it does: until they have come back. An error wraps
// hal.ErrTimeout or hal.ErrBus.
func (p *Port) Write(b []byte, deadline int64) error {
	for sent := 0; sent < len(b); {
		if p.lost {
			return p.errLost
		}
		if err := p.interrupted(); err != nil {
			return err
		}
		n, err := unix.Write(p.fd, b[sent:])
		switch {
		case err == nil && n > 0:
			sent += n
		case err == unix.EINTR:
		case err == unix.EAGAIN || err == nil:
			if err := p.ready(unix.POLLOUT, deadline); err != nil {
				return err
			}
		default:
			return p.lose()
		}
	}
	if !p.config.Echo {
		return nil
	}
	return p.hear(b, deadline)
}

// Read waits until there is at least one byte and reads what is there, up to
// len(dst). An error wraps hal.ErrTimeout or hal.ErrBus.
func (p *Port) Read(dst []byte, deadline int64) (int, error) {
	if len(dst) == 0 {
		return 0, nil // 0 bytes from the kernel would mean a hang-up
	}
	for {
		if p.lost {
			return 0, p.errLost
		}
		if err := p.interrupted(); err != nil {
			return 0, err
		}
		n, err := unix.Read(p.fd, dst)
		switch {
		case err == nil && n > 0:
			return n, nil
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if err := p.ready(unix.POLLIN, deadline); err != nil {
				return 0, err
			}
		default: // also the 0 bytes of a line that hung up
			return 0, p.lose()
		}
	}
}

// ReadFull fills dst. Where it fails, n tells how many bytes had come.
func (p *Port) ReadFull(dst []byte, deadline int64) (n int, err error) {
	for n < len(dst) {
		k, err := p.Read(dst[n:], deadline)
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

// hear reads back what was sent.
func (p *Port) hear(sent []byte, deadline int64) error {
	for len(sent) > 0 {
		part := p.echo[:min(len(sent), len(p.echo))]
		if _, err := p.ReadFull(part, deadline); err != nil {
			return err
		}
		if !bytes.Equal(part, sent[:len(part)]) {
			return p.errEcho
		}
		sent = sent[len(part):]
	}
	return nil
}

// ready waits until the descriptor can be read or written, or the context is to be
// looked at.
func (p *Port) ready(events int16, deadline int64) error {
	for {
		left := max(deadline-Monotonic(), 0)
		wait := left
		if p.ctx != nil {
			wait = min(left, int64(interruptEvery))
		}
		p.wait[0] = unix.PollFd{Fd: int32(p.fd), Events: events}
		p.left = unix.NsecToTimespec(wait)
		n, err := unix.Ppoll(p.wait[:], &p.left, nil)
		switch {
		case n > 0 && p.wait[0].Revents&events != 0:
			return nil // also with POLLHUP: what came before it is still read
		case n > 0 || (err != nil && err != unix.EINTR):
			return p.lose()
		case left == 0:
			return p.errTimeout
		case wait < left:
			return nil
		}
	}
}

func (p *Port) lose() error {
	p.lost = true
	return p.errLost
}

// Monotonic is CLOCK_MONOTONIC in nanoseconds.
func Monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the kernel has no such clock
	}
	return t.Nano()
}

// After is the deadline that is d from now.
func After(d time.Duration) int64 { return Monotonic() + int64(d) }
