package can

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"optibfm/hal"
	"optibfm/hal/monotonic"
)

// Socket is an open CAN interface. Only one thread may use it.
type Socket struct {
	address string
	only    []uint32
	fd      int
	lost    bool
	busOff  bool
	waiter  monotonic.Waiter
	raw     [Size]byte

	// Made by Open, so that failures do not allocate.
	errTimeout, errLost, errFull, errBusOff, errShort error
}

const unixPrefix = "unix:"

// Open opens an interface such as can0, or unix:/path of a simulator. With only, the kernel passes
// only frames with these 11-bit IDs, so that other traffic does not cost the control thread time. A
// simulator is not filtered.
func Open(address string, only ...uint32) (*Socket, error) {
	if address == "" {
		return nil, fmt.Errorf("can: interface: empty; set it to one of: ip link show type can")
	}
	connect := openInterface
	if strings.HasPrefix(address, unixPrefix) {
		connect = openUnix
	}
	fd, err := connect(address, only)
	if err != nil {
		return nil, fmt.Errorf("can: %s: %w", address, err)
	}
	failure := func(kind error, cause, fix string) error {
		return fmt.Errorf("can: %s: %w%s; %s", address, kind, cause, fix)
	}
	return &Socket{
		address:    address,
		only:       only,
		fd:         fd,
		errTimeout: failure(hal.ErrTimeout, "", "check power, wiring, IDs and bit rate"),
		errLost: failure(hal.ErrBus, " (interface down or removed)",
			"set it up with ip link; after a removal start the run again"),
		errFull: failure(hal.ErrTimeout, " (transmit queue full: no node acknowledges)",
			"check power, wiring, termination and bit rate"),
		errBusOff: failure(hal.ErrBus, " (bus-off)", "check wiring and termination, and set restart-ms with ip link"),
		errShort:  failure(hal.ErrShort, " (frame is not 16 bytes)", "check the simulator"),
	}, nil
}

func openInterface(name string, only []uint32) (int, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return -1, fmt.Errorf("%w; list the interfaces with: ip link show type can", err)
	}
	fd, err := unix.Socket(unix.AF_CAN, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.CAN_RAW)
	if err != nil {
		return -1, fmt.Errorf("socket: %w; load the kernel module: modprobe can_raw", err)
	}
	err = unix.SetsockoptInt(fd, unix.SOL_CAN_RAW, unix.CAN_RAW_ERR_FILTER, unix.CAN_ERR_MASK)
	if err != nil {
		err = fmt.Errorf("request error frames: %w", err)
	} else if err = filter(fd, only); err != nil {
		err = fmt.Errorf("filter: %w", err)
	} else if err = unix.Bind(fd, &unix.SockaddrCAN{Ifindex: link.Index}); err != nil {
		err = fmt.Errorf("bind: %w; set interface to a CAN interface", err)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// filter limits reception to data frames with these IDs. Error frames have their own filter.
func filter(fd int, only []uint32) error {
	if len(only) == 0 {
		return nil
	}
	filters := make([]unix.CanFilter, len(only))
	for i, id := range only {
		filters[i] = unix.CanFilter{Id: id, Mask: unix.CAN_SFF_MASK | unix.CAN_EFF_FLAG | unix.CAN_RTR_FLAG}
	}
	return unix.SetsockoptCanRawFilter(fd, unix.SOL_CAN_RAW, unix.CAN_RAW_FILTER, filters)
}

func openUnix(address string, _ []uint32) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: strings.TrimPrefix(address, unixPrefix)}); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("connect: %w; start the simulator first", err)
	}
	return fd, nil
}

// Reopen tries once to open the interface again. It is not for a tick.
func (s *Socket) Reopen() error {
	fresh, err := Open(s.address, s.only...)
	if err != nil {
		return fmt.Errorf("%w: %w", hal.ErrBus, err)
	}
	_ = s.Close()
	s.fd, s.lost, s.busOff = fresh.fd, false, false
	return nil
}

// Interrupt makes Send and Receive fail with an error that wraps ctx.Err() soon after ctx ends,
// until end is called. See [monotonic.Waiter.Interrupt].
func (s *Socket) Interrupt(ctx context.Context) (end func()) { return s.waiter.Interrupt(ctx) }

// usable returns the reason why the socket cannot be used.
func (s *Socket) usable() error {
	if s.lost {
		return s.errLost
	}
	if err := s.waiter.Err(); err != nil {
		return s.interrupted(err)
	}
	return nil
}

func (s *Socket) interrupted(cause error) error {
	return fmt.Errorf("can: %s: interrupted: %w", s.address, cause)
}

// Close releases the interface.
func (s *Socket) Close() error {
	if s.fd < 0 {
		return nil
	}
	err := unix.Close(s.fd)
	s.fd, s.lost = -1, true
	return err
}

// Lost reports whether the socket has failed. Only Reopen makes it usable again.
func (s *Socket) Lost() bool { return s.lost }

// BusOff reports whether the controller has left the bus, according to the error frames that
// Receive has read.
func (s *Socket) BusOff() bool { return s.busOff }

// Send puts a frame into the interface's transmit queue. An error wraps hal.ErrTimeout or
// hal.ErrBus.
func (s *Socket) Send(f *Frame, deadline int64) error {
	f.Marshal(&s.raw)
	for {
		if err := s.usable(); err != nil {
			return err
		}
		if s.busOff {
			return s.errBusOff
		}
		n, err := unix.Write(s.fd, s.raw[:])
		switch {
		case err == nil && n == Size:
			return nil
		case err == unix.EINTR:
		case err == unix.ENOBUFS:
			return s.errFull
		case err == unix.EAGAIN:
			if err := s.wait(unix.POLLOUT, deadline); err != nil {
				return err
			}
		default:
			return s.lose(err)
		}
	}
}

// Receive waits for the next frame. An error wraps hal.ErrTimeout, hal.ErrBus, hal.ErrShort or
// hal.ErrProtocol.
func (s *Socket) Receive(f *Frame, deadline int64) error {
	for errorFrames := 0; ; {
		if err := s.usable(); err != nil {
			return err
		}
		if errorFrames == maxErrorFrames {
			return s.errTimeout
		}
		n, err := unix.Read(s.fd, s.raw[:])
		switch {
		case err == nil && n == Size:
			isError, err := f.Unmarshal(&s.raw)
			if !isError {
				return err
			}
			s.noteError(f)
			errorFrames++
		case err == nil && n > 0:
			return s.errShort
		case err == unix.EINTR:
		case err == unix.EAGAIN && s.busOff:
			return s.errBusOff // no frame can arrive
		case err == unix.EAGAIN:
			if err := s.wait(unix.POLLIN, deadline); err != nil {
				return err
			}
		default:
			return s.lose(err)
		}
	}
}

// maxErrorFrames limits the error frames that Receive skips, and maxDiscard the frames that discard
// reads: a flooded bus must not hold the thread.
const (
	maxErrorFrames = 64
	maxDiscard     = 1024
)

// noteError notes bus-off, and its end, of an error frame: its class is in the ID.
func (s *Socket) noteError(f *Frame) {
	s.busOff = (s.busOff || f.ID&unix.CAN_ERR_BUSOFF != 0) && f.ID&unix.CAN_ERR_RESTARTED == 0
}

// lose marks the socket as lost, unless the interface is only down: the socket works again when it
// is up. Setting it up ends bus-off without an error frame.
func (s *Socket) lose(cause error) error {
	if cause == unix.ENETDOWN {
		s.discard()
		s.busOff = false
	} else {
		s.lost = true
	}
	return s.errLost
}

// discard reads the frames from before the interface was down: the kernel reports ENETDOWN first,
// and an old error frame would report bus-off again.
func (s *Socket) discard() {
	for range maxDiscard {
		if _, err := unix.Read(s.fd, s.raw[:]); err != nil && err != unix.EINTR {
			return
		}
	}
}

// wait waits until the socket can be read or written. After a failure the next read or write
// returns its cause.
func (s *Socket) wait(events int16, deadline int64) error {
	_, err := s.waiter.Wait(s.fd, events, deadline)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return s.errTimeout
	case err == s.waiter.Err():
		return s.interrupted(err)
	}
	return s.lose(err)
}
