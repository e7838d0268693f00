package can

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal"
	"optibfm/hal/serial"
)

// Socket is a CAN interface. It is used by one thread.
type Socket struct {
	address string
	only    []uint32
	fd      int
	lost    bool
	busOff  bool
	faults  Faults

	wait [1]unix.PollFd
	left unix.Timespec
	raw  [Size]byte
	ctx  context.Context // of the opening of a device; nil: nothing interrupts a wait

	errTimeout, errLost, errFull, errBusOff, errShort error
}

// Faults counts what the controller has reported (linux/can/error.h), in frames.
type Faults struct {
	BusOff      uint64 // it has left the bus
	Restarted   uint64 // it has come back
	Passive     uint64 // 128 errors or more: it cannot tell others any more
	Warning     uint64 // 96 errors or more
	Overflow    uint64 // frames were lost in its buffers
	NoAck       uint64 // nobody acknowledged a frame
	Arbitration uint64 // it was lost, in one-shot mode
	Protocol    uint64 // bits, stuffing, CRC: wiring, termination or bit rate
	Transceiver uint64
	TxTimeout   uint64 // the driver gave a frame up
	Other       uint64
}

const unixPrefix = "unix:"

// Open opens an interface such as can0, or unix:/path of a simulator. With only,
// the kernel passes no other frames than those with these 11-bit IDs: a busy bus
// then costs the control thread nothing. A simulator sends what it likes.
func Open(address string, only ...uint32) (*Socket, error) {
	if address == "" {
		return nil, fmt.Errorf("can: the interface is empty: name one, such as can0 (ip link show type can)")
	}
	connect := openInterface
	if strings.HasPrefix(address, unixPrefix) {
		connect = openUnix
	}
	s := &Socket{
		address:    address,
		only:       only,
		fd:         -1,
		errTimeout: fmt.Errorf("can: %s: %w: see power, wiring, IDs and bit rate", address, hal.ErrTimeout),
		errLost:    fmt.Errorf("can: %s: %w (the interface is down or gone): ip link set it up, and arm again", address, hal.ErrBus),
		errFull:    fmt.Errorf("can: %s: %w (the transmit queue is full: nobody acknowledges): see power, wiring, termination and bit rate", address, hal.ErrTimeout),
		errBusOff:  fmt.Errorf("can: %s: %w (bus-off: the controller has left the bus): see wiring and termination; set restart-ms", address, hal.ErrBus),
		errShort:   fmt.Errorf("can: %s: %w (a frame that is not 16 bytes)", address, hal.ErrShort),
	}
	fd, err := connect(address, only)
	if err != nil {
		return nil, err
	}
	s.fd = fd
	return s, nil
}

func openInterface(name string, only []uint32) (int, error) {
	there, err := net.InterfaceByName(name)
	if err != nil {
		return -1, fmt.Errorf("can: %s: %w: name an interface that there is (ip link show type can)", name, err)
	}
	fd, err := unix.Socket(unix.AF_CAN, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.CAN_RAW)
	if err != nil {
		return -1, fmt.Errorf("can: %s: socket: %w: the kernel needs CAN_RAW (modprobe can_raw)", name, err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_CAN_RAW, unix.CAN_RAW_ERR_FILTER, unix.CAN_ERR_MASK); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("can: %s: ask for error frames: %w", name, err)
	}
	if err := filter(fd, only); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("can: %s: filter: %w", name, err)
	}
	if err := unix.Bind(fd, &unix.SockaddrCAN{Ifindex: there.Index}); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("can: %s: bind: %w: name a CAN interface", name, err)
	}
	return fd, nil
}

// filter asks for data frames with these IDs. Error frames pass by another one.
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
		return -1, fmt.Errorf("can: %s: socket: %w", address, err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: strings.TrimPrefix(address, unixPrefix)}); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("can: %s: connect: %w: start the simulator first", address, err)
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

// Interrupt makes Send and Receive return an error that wraps ctx.Err(), within
// interruptEvery, when ctx ends, until end is called. It is for opening a device
// that may take long to answer, not for a tick.
func (s *Socket) Interrupt(ctx context.Context) (end func()) {
	s.ctx = ctx
	return func() { s.ctx = nil }
}

// interruptEvery is the longest time that a call waits before it looks at the
// context again.
const interruptEvery = 50 * time.Millisecond

func (s *Socket) interrupted() error {
	if s.ctx == nil || s.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("can: %s: interrupted: %w", s.address, s.ctx.Err())
}

// Close gives the interface back.
func (s *Socket) Close() error {
	if s.fd < 0 {
		return nil
	}
	err := unix.Close(s.fd)
	s.fd, s.lost = -1, true
	return err
}

// Lost tells whether the socket has failed and waits for Reopen.
func (s *Socket) Lost() bool { return s.lost }

// BusOff tells whether the controller has left the bus and not yet come back, as
// far as what was received says.
func (s *Socket) BusOff() bool { return s.busOff }

// Faults gives what the controller has reported so far.
func (s *Socket) Faults() Faults { return s.faults }

// Send hands a frame to the interface's queue. An error wraps hal.ErrTimeout or
// hal.ErrBus.
func (s *Socket) Send(f *Frame, deadline int64) error {
	f.Marshal(&s.raw)
	for {
		switch {
		case s.lost:
			return s.errLost
		case s.busOff:
			return s.errBusOff
		}
		if err := s.interrupted(); err != nil {
			return err
		}
		n, err := unix.Write(s.fd, s.raw[:])
		switch {
		case err == nil && n == Size:
			return nil
		case err == unix.EINTR:
		case err == unix.ENOBUFS:
			return s.errFull
		case err == unix.EAGAIN:
			if err := s.ready(unix.POLLOUT, deadline); err != nil {
				return err
			}
		default:
			return s.lose(err)
		}
	}
}

// Receive waits for the next frame of the bus. An error wraps hal.ErrTimeout,
// hal.ErrBus, hal.ErrShort or hal.ErrProtocol.
func (s *Socket) Receive(f *Frame, deadline int64) error {
	for reports := 0; ; {
		switch {
		case s.lost:
			return s.errLost
		case reports == reportsMost:
			return s.errTimeout
		}
		if err := s.interrupted(); err != nil {
			return err
		}
		n, err := unix.Read(s.fd, s.raw[:])
		switch {
		case err == nil && n == Size:
			isError, err := f.Unmarshal(&s.raw)
			if !isError {
				return err
			}
			s.report(f)
			reports++
		case err == nil && n > 0:
			return s.errShort
		case err == unix.EINTR:
		case err == unix.EAGAIN && s.busOff:
			return s.errBusOff // nothing will come: do not wait for it
		case err == unix.EAGAIN:
			if err := s.ready(unix.POLLIN, deadline); err != nil {
				return err
			}
		default:
			return s.lose(err)
		}
	}
}

// reportsMost bounds how many error frames Receive passes over: a controller that
// reports without end must not hold the thread.
const reportsMost = 64

// drainMost bounds Drain: a babbling bus must not hold the thread.
const drainMost = 1024

// Drain throws away what has been received and nobody has read, except for the
// controller's reports. It does not wait.
func (s *Socket) Drain() error {
	var f Frame
	for range drainMost {
		err := s.Receive(&f, 0)
		if errors.Is(err, hal.ErrTimeout) {
			return nil
		}
		if errors.Is(err, hal.ErrBus) {
			return err
		}
	}
	return nil
}

// report takes an error frame: the class is in the ID, details are in the data.
func (s *Socket) report(f *Frame) {
	known := s.faults
	count := func(class uint32, counter *uint64) {
		if f.ID&class != 0 {
			*counter++
		}
	}
	count(unix.CAN_ERR_TX_TIMEOUT, &s.faults.TxTimeout)
	count(unix.CAN_ERR_LOSTARB, &s.faults.Arbitration)
	count(unix.CAN_ERR_PROT|unix.CAN_ERR_BUSERROR, &s.faults.Protocol)
	count(unix.CAN_ERR_TRX, &s.faults.Transceiver)
	count(unix.CAN_ERR_ACK, &s.faults.NoAck)
	count(unix.CAN_ERR_BUSOFF, &s.faults.BusOff)
	count(unix.CAN_ERR_RESTARTED, &s.faults.Restarted)
	if f.ID&unix.CAN_ERR_CRTL != 0 {
		s.reportController(f.Data[1])
	}
	if s.faults == known {
		s.faults.Other++
	}
	if f.ID&unix.CAN_ERR_BUSOFF != 0 {
		s.busOff = true
	}
	if f.ID&unix.CAN_ERR_RESTARTED != 0 {
		s.busOff = false
	}
}

func (s *Socket) reportController(problem byte) {
	switch {
	case problem&(unix.CAN_ERR_CRTL_RX_PASSIVE|unix.CAN_ERR_CRTL_TX_PASSIVE) != 0:
		s.faults.Passive++
	case problem&(unix.CAN_ERR_CRTL_RX_WARNING|unix.CAN_ERR_CRTL_TX_WARNING) != 0:
		s.faults.Warning++
	case problem&(unix.CAN_ERR_CRTL_RX_OVERFLOW|unix.CAN_ERR_CRTL_TX_OVERFLOW) != 0:
		s.faults.Overflow++
	}
}

// lose remembers that the socket has failed. An interface that is down may be
// brought up again, and the socket then works on.
func (s *Socket) lose(cause error) error {
	if cause != unix.ENETDOWN {
		s.lost = true
	}
	return s.errLost
}

// ready waits until the socket can be read or written, or the context is to be
// looked at.
func (s *Socket) ready(events int16, deadline int64) error {
	for {
		left := max(deadline-serial.Monotonic(), 0)
		wait := left
		if s.ctx != nil {
			wait = min(left, int64(interruptEvery))
		}
		s.wait[0] = unix.PollFd{Fd: int32(s.fd), Events: events}
		s.left = unix.NsecToTimespec(wait)
		n, err := unix.Ppoll(s.wait[:], &s.left, nil)
		switch {
		case n > 0:
			return nil // what is wrong, the next call will say
		case err != nil && err != unix.EINTR:
			return s.lose(err)
		case left == 0:
			return s.errTimeout
		case wait < left:
			return nil
		}
	}
}
