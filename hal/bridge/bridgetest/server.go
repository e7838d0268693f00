// Package bridgetest is a robot's server that violates the bridge's protocol once, at
// a chosen request. It has its own encoder, so that it does not share the mistakes of
// package bridge.
package bridgetest

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/internal/fatal"
)

// Kind is the kind of a frame, as in PROTOCOL.md.
type Kind byte

// The kinds of frames.
const (
	Hello Kind = iota + 1
	Welcome
	Sense
	Act
	Reset
	Arm
	Halt
	Bye
	State
	OK
	Error
)

func (k Kind) String() string {
	return [...]string{"", "hello", "welcome", "sense", "act", "reset", "arm", "halt", "bye", "state", "ok", "error"}[k]
}

// Options of a Server.
type Options struct {
	Spec  hal.Spec
	Free  bool  // the mode that the client asks for
	At    Kind  // the request at which the server commits the fault
	After int   // this many requests of that kind
	Fault Fault // without Answer: none
}

// Server serves one client.
type Server struct {
	Address string // for bridge.Config

	options  Options
	listener net.Listener
	samples  int
	done     chan struct{}
	faulty   chan struct{} // closed when the fault is committed
	acted    chan struct{} // closed at the first act

	mu   sync.Mutex
	conn net.Conn
	seen Report
}

// Report is a server's summary of its session.
type Report struct {
	Committed bool // the fault
	Acts      int  // in total
	ActsAfter int  // the fault
	Halted    bool // no action has effect any more: halt after the last arm, or the connection ended
	Bye       bool // the client left in order
}

// Serve starts a server, which ends with the test.
func Serve(t testing.TB, options Options) *Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "robot.sock")
	l, err := net.Listen("unix", path)
	fatal.If(t, err)
	s := &Server{
		Address: "unix:" + path, options: options, listener: l,
		done: make(chan struct{}), faulty: make(chan struct{}), acted: make(chan struct{}),
	}
	go s.serve()
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		if s.conn != nil {
			_ = s.conn.Close()
		}
		s.mu.Unlock()
		<-s.done
	})
	return s
}

// Committed is closed when the server has committed its fault.
func (s *Server) Committed() <-chan struct{} { return s.faulty }

// Acted is closed when the server has received an action.
func (s *Server) Acted() <-chan struct{} { return s.acted }

// Ended is closed when the connection has ended.
func (s *Server) Ended() <-chan struct{} { return s.done }

// Report returns the events that the server has seen.
func (s *Server) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *Server) serve() {
	defer close(s.done)
	conn, err := s.listener.Accept()
	if err != nil {
		return
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	s.talk(conn)
	_ = conn.Close()
	s.note(func(r *Report) { r.Halted = true })
}

func (s *Server) note(change func(*Report)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.seen)
}

// talk serves a connection until it ends.
func (s *Server) talk(conn net.Conn) {
	silent, left := false, s.options.After
	for {
		kind, seq, err := readRequest(conn)
		if err != nil {
			return
		}
		s.see(kind)
		if kind == Bye {
			return
		}
		answer := s.answer(kind, seq)
		due := kind == s.options.At && s.options.Fault.Answer != nil
		if due && left == 0 {
			if !s.commit(conn, kind, seq, answer) {
				return
			}
			silent = s.options.Fault.Then == BeSilent
			left = -1
			continue
		}
		if due {
			left--
		}
		if silent || kind == Act && s.options.Free {
			continue
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// see notes a request.
func (s *Server) see(kind Kind) {
	s.note(func(r *Report) {
		switch kind {
		case Act:
			if r.Acts++; r.Acts == 1 {
				close(s.acted)
			}
			if r.Committed {
				r.ActsAfter++
			}
		case Arm:
			r.Halted = false
		case Halt:
			r.Halted = true
		case Bye:
			r.Bye = true
		}
	})
}

// commit commits the fault. It reports whether the connection stays open.
func (s *Server) commit(conn net.Conn, kind Kind, seq uint32, answer []byte) bool {
	s.note(func(r *Report) { r.Committed = true })
	close(s.faulty)
	f := s.options.Fault
	frames := f.Answer(answer)
	for len(frames) > 0 {
		n := len(frames)
		if f.Then == BeSlow {
			n = 1
			time.Sleep(60 * time.Millisecond)
		}
		if _, err := conn.Write(frames[:n]); err != nil {
			return false
		}
		frames = frames[n:]
	}
	return f.Then != CloseConnection
}

func readRequest(conn net.Conn) (kind Kind, seq uint32, err error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return 0, 0, err
	}
	_, err = io.CopyN(io.Discard, conn, int64(binary.LittleEndian.Uint32(head[:])))
	return Kind(head[4]), binary.LittleEndian.Uint32(head[8:]), err
}

// answer is the right answer to a request: for an act in free mode, one that is
// not allowed.
func (s *Server) answer(request Kind, seq uint32) []byte {
	switch request {
	case Hello:
		return Frame(Welcome, 0, seq, s.welcome())
	case Sense, Act, Reset:
		return Frame(State, 1, seq, s.state())
	}
	return Frame(OK, 0, seq, nil)
}

func (s *Server) welcome() []byte {
	mode := byte(1)
	if s.options.Free {
		mode = 2
	}
	spec := s.options.Spec
	version := byte(1)
	for _, c := range spec.Action {
		if c.Measured.Obs != "" {
			version = 2
		}
	}
	b := append([]byte("OBFM"), version, 0, mode, 3)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(spec.Period))
	b = text(b, spec.Name)
	b = text(b, "")
	b = append(b, 0, 0)
	for i, channels := range [][]hal.Channel{spec.Obs, spec.Action} {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(channels)))
		for _, c := range channels {
			b = text(text(b, c.Name), c.Unit)
			b = numbers(b, c.Min, c.Max, c.MaxRate, c.Failsafe)
			if i == 1 && version == 2 {
				b = numbers(text(b, c.Measured.Obs), c.Measured.Scale, c.Measured.Offset)
			}
		}
	}
	return b
}

// state is the next sample: its age and its reward are 0.
func (s *Server) state() []byte {
	s.samples++
	b := binary.LittleEndian.AppendUint64(nil, uint64(s.samples)*uint64(s.options.Spec.Period))
	b = append(b, make([]byte, 16)...)
	for i := range s.options.Spec.Obs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32((s.samples+i)%7)/10))
	}
	return b
}

func numbers(b []byte, values ...float64) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func text(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

const headerSize = 12

// Frame encodes a frame.
func Frame(kind Kind, flags byte, seq uint32, payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	b = append(b, byte(kind), flags, 0, 0)
	return append(binary.LittleEndian.AppendUint32(b, seq), payload...)
}
