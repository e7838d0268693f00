package bridge

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"optibfm/hal/monotonic"
)

// errDeadline is the error of a deadline that passed before the peer answered or read.
var errDeadline = errors.New("bridge: the server did not answer or read in time; " +
	"see whether it keeps up, or raise robot.bridge.timeout_ms")

// socket is a non-blocking descriptor with a receive buffer. The net package
// would park the goroutine until another thread wakes it; the control thread must
// keep its thread, so it waits in ppoll. Only the errors of a broken connection
// allocate. One goroutine uses a socket; any may call shut.
type socket struct {
	fd    int
	ends  sync.Mutex // of shut and close: the kernel reuses the number of a closed descriptor
	wait  [1]unix.PollFd
	left  unix.Timespec
	buf   []byte // buf[start:end] was received and not yet consumed
	start int
	end   int
}

// newSocket duplicates the descriptor of conn and closes conn.
func newSocket(conn net.Conn) (*socket, error) {
	defer conn.Close()
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("bridge: the connection has no descriptor (%T); use a Unix or TCP socket", conn)
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("bridge: descriptor of the connection: %w", err)
	}
	s := &socket{fd: -1}
	var dupErr error
	err = control.Control(func(fd uintptr) {
		s.fd, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, dupErr); err != nil {
		return nil, fmt.Errorf("bridge: descriptor of the connection: %w", err)
	}
	if err := unix.SetNonblock(s.fd, true); err != nil {
		_ = unix.Close(s.fd)
		return nil, fmt.Errorf("bridge: make the connection non-blocking: %w", err)
	}
	return s, nil
}

// reserve sizes the buffer for frames with payloads of up to limit bytes.
func (s *socket) reserve(limit int) {
	buf := make([]byte, max(headerSize+limit, s.end-s.start))
	s.end = copy(buf, s.buf[s.start:s.end])
	s.start = 0
	s.buf = buf
}

// send writes the whole frame. n is the number of bytes written.
func (s *socket) send(frame []byte, deadline int64) (n int, err error) {
	for n < len(frame) {
		k, err := unix.Write(s.fd, frame[n:])
		switch err {
		case nil:
			n += k
		case unix.EINTR:
		case unix.EAGAIN:
			if err := s.ready(unix.POLLOUT, deadline); err != nil {
				return n, err
			}
		default:
			return n, fmt.Errorf("bridge: send: %w; the server closed the connection", err)
		}
	}
	return n, nil
}

// receive returns the next frame. Its payload, of at most limit bytes, is valid until
// the next call. A frame that is incomplete at the deadline stays in the buffer.
func (s *socket) receive(limit int, deadline int64) (header, []byte, error) {
	if err := s.fill(headerSize, deadline); err != nil {
		return header{}, nil, err
	}
	h, err := decodeHeader(s.buf[s.start:], limit)
	if err != nil {
		return h, nil, err
	}
	size := headerSize + int(h.length)
	if err := s.fill(size, deadline); err != nil {
		return h, nil, err
	}
	payload := s.buf[s.start+headerSize : s.start+size]
	s.start += size
	return h, payload, nil
}

// fill waits until the buffer holds n bytes.
func (s *socket) fill(n int, deadline int64) error {
	if s.start+n > len(s.buf) {
		s.end = copy(s.buf, s.buf[s.start:s.end])
		s.start = 0
	}
	for s.end-s.start < n {
		// A reply is seldom there already: wait first, it saves a call.
		if err := s.ready(unix.POLLIN, deadline); err != nil {
			return err
		}
		k, err := unix.Read(s.fd, s.buf[s.end:])
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil:
			return fmt.Errorf("bridge: receive: %w; the server closed the connection", err)
		case k == 0:
			return s.ended()
		default:
			s.end += k
		}
	}
	return nil
}

func (s *socket) ended() error {
	if pending := s.end - s.start; pending > 0 {
		return fmt.Errorf("bridge: the server closed the connection within a frame (after %d bytes of it): %w; "+
			"see what the server printed", pending, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("bridge: the server closed the connection: %w; see what the server printed", io.EOF)
}

// ready waits until the descriptor can be read or written.
func (s *socket) ready(events int16, deadline int64) error {
	for {
		left := max(deadline-monotonic.Now(), 0)
		s.wait[0] = unix.PollFd{Fd: int32(s.fd), Events: events}
		s.left = unix.NsecToTimespec(left)
		n, err := unix.Ppoll(s.wait[:], &s.left, nil)
		switch {
		case n > 0:
			return nil
		case err != nil && err != unix.EINTR:
			return fmt.Errorf("bridge: poll: %w", err)
		case left == 0:
			return errDeadline
		}
	}
}

// shut ends the connection and every wait. The server then halts its robot.
func (s *socket) shut() {
	s.ends.Lock()
	defer s.ends.Unlock()
	if s.fd >= 0 {
		_ = unix.Shutdown(s.fd, unix.SHUT_RDWR)
	}
}

func (s *socket) close() error {
	s.ends.Lock()
	defer s.ends.Unlock()
	err := unix.Close(s.fd)
	s.fd = -1
	return err
}
