package serial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal"
	"optibfm/hal/monotonic"
)

// Port is an open serial port. Only one thread may use it.
type Port struct {
	config Config
	fd     int // -1 after Close
	lost   bool
	named  bool  // the path is a name of one adapter
	retry  int64 // when Recover may try again
	waiter monotonic.Waiter
	echo   [64]byte

	// Made by Open, so that failures do not allocate.
	errTimeout, errLost, errEcho error
}

// Open opens the port. It takes some milliseconds.
func Open(c Config) (*Port, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	fd, err := openDevice(c)
	if err != nil {
		return nil, err
	}
	named, fix := strings.Contains(c.Path, "/by-id/"), "plug it in, then reset and arm"
	if !named {
		fix = "plug it in and start the run again, or set path to its name in /dev/serial/by-id"
	}
	return &Port{
		config:     c,
		fd:         fd,
		named:      named,
		errTimeout: fmt.Errorf("serial: %s: %w; check power, wiring and baud", c.Path, hal.ErrTimeout),
		errLost:    fmt.Errorf("serial: %s: %w; %s", c.Path, hal.ErrLost, fix),
		errEcho: fmt.Errorf("serial: %s: %w (echo differs from the sent bytes); "+
			"check for two devices that send at once, or unset echo", c.Path, hal.ErrBus),
	}, nil
}

// Config returns the settings given to Open.
func (p *Port) Config() Config { return p.config }

// Lost reports whether the port has failed. Only Recover makes it usable again.
func (p *Port) Lost() bool { return p.lost }

// recoverInterval is the time between two attempts of Recover.
const recoverInterval = 100 * time.Millisecond

// Recover opens a lost port again with the settings given to Open, at most once in 100 ms: it is
// for Arm, and for a Halt, which the control thread repeats in every tick until it succeeds. It
// opens only a name in /dev/serial/by-id, which belongs to one adapter, if that has a serial
// number: /dev/ttyUSB0 may be another adapter by now. Opening takes some milliseconds and
// allocates.
func (p *Port) Recover() error {
	if !p.lost {
		return nil
	}
	if !p.named || monotonic.Now() < p.retry {
		return p.errLost
	}
	p.retry = monotonic.After(recoverInterval)
	_ = p.Close() // the kernel keeps the old name in use until then
	if unix.Access(p.config.Path, unix.F_OK) != nil {
		return p.errLost
	}
	fd, err := openDevice(p.config)
	if err != nil {
		return p.errLost
	}
	p.fd, p.lost = fd, false
	return nil
}

// Interrupt makes Read and Write fail with an error that wraps ctx.Err() soon after ctx ends, until
// end is called. See [monotonic.Waiter.Interrupt].
func (p *Port) Interrupt(ctx context.Context) (end func()) { return p.waiter.Interrupt(ctx) }

// usable returns the reason why the port cannot be used.
func (p *Port) usable() error {
	if p.lost {
		return p.errLost
	}
	if err := p.waiter.Err(); err != nil {
		return p.interrupted(err)
	}
	return nil
}

func (p *Port) interrupted(cause error) error {
	return fmt.Errorf("serial: %s: interrupted: %w", p.config.Path, cause)
}

// Close releases the port. Every later call except Recover fails with hal.ErrLost.
func (p *Port) Close() error {
	if p.fd < 0 {
		return nil
	}
	err := unix.Close(p.fd)
	p.fd, p.lost = -1, true
	return err
}

// Drain discards the bytes in the kernel's receive buffer, so that a late answer is not taken for
// the answer to the next request. Bytes inside a USB adapter remain. It does not wait.
func (p *Port) Drain() error {
	if p.lost {
		return p.errLost
	}
	if err := unix.IoctlSetInt(p.fd, unix.TCFLSH, unix.TCIFLUSH); err != nil {
		return p.lose()
	}
	return nil
}

// Write hands all of b to the kernel by the deadline, CLOCK_MONOTONIC nanoseconds. With Config.Echo
// it also waits until b has been read back. An error wraps hal.ErrTimeout or hal.ErrBus.
func (p *Port) Write(b []byte, deadline int64) error {
	for sent := 0; sent < len(b); {
		if err := p.usable(); err != nil {
			return err
		}
		n, err := unix.Write(p.fd, b[sent:])
		switch {
		case err == nil && n > 0:
			sent += n
		case err == unix.EINTR:
		case err == unix.EAGAIN || err == nil:
			if err := p.wait(unix.POLLOUT, deadline); err != nil {
				return err
			}
		default:
			return p.lose()
		}
	}
	if !p.config.Echo {
		return nil
	}
	return p.readEcho(b, deadline)
}

// Read waits for at least one byte and reads up to len(dst). An error wraps hal.ErrTimeout or
// hal.ErrBus.
func (p *Port) Read(dst []byte, deadline int64) (int, error) {
	if len(dst) == 0 {
		return 0, nil // 0 bytes from the kernel would mean a hang-up
	}
	for {
		if err := p.usable(); err != nil {
			return 0, err
		}
		n, err := unix.Read(p.fd, dst)
		switch {
		case err == nil && n > 0:
			return n, nil
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if err := p.wait(unix.POLLIN, deadline); err != nil {
				return 0, err
			}
		default: // also the 0 bytes of a line that hung up
			return 0, p.lose()
		}
	}
}

// ReadFull fills dst. After an error, n is the number of bytes read.
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

// readEcho reads back the sent bytes.
func (p *Port) readEcho(sent []byte, deadline int64) error {
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

// wait waits until the port can be read or written.
func (p *Port) wait(events int16, deadline int64) error {
	ready, err := p.waiter.Wait(p.fd, events, deadline)
	switch {
	case err == nil && ready&events != 0:
		return nil // also with POLLHUP: bytes received before it are still read
	case errors.Is(err, os.ErrDeadlineExceeded):
		return p.errTimeout
	case err != nil && err == p.waiter.Err():
		return p.interrupted(err)
	}
	return p.lose()
}

func (p *Port) lose() error {
	p.lost = true
	return p.errLost
}
