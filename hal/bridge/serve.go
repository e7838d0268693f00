package bridge

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"time"

	"optibfm/hal"
	"optibfm/hal/monotonic"
)

// Listen opens the address of a Config: "unix:/path/of/socket" or
// "tcp:host:port". It replaces an abandoned socket file.
func Listen(address string) (net.Listener, error) {
	network, where, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	if network == "unix" && abandoned(where) {
		_ = os.Remove(where)
	}
	l, err := net.Listen(network, where)
	if err != nil {
		return nil, fmt.Errorf("bridge: listen on %s: %w; choose another address or end the other server", address, err)
	}
	return l, nil
}

func abandoned(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return false
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return err != nil
}

// Serve lets clients drive robot, one after the other, until ctx is done or l
// fails; it closes l. Serve halts the robot whenever a connection ends, and when a
// client in free mode is silent for longer than its deadman time. It serves Reset
// and rewards if robot is a hal.Resetter or a hal.Rewarder. In lockstep a Sense
// follows every Act, so Act must make the robot's step.
//
// A stop input of the robot (hal.StopInput) halts it here: the client gets an error from Arm and
// Act. The protocol carries no arming by the robot, buttons or warnings (hal.ArmInput, LabelInput,
// Warner).
//
// The protocol carries the measurements of actuators by observation channels
// (hal.Channel.Measured). Serve refuses a robot with another one, such as a hal.Meter
// with a sensor beside the observation.
//
// report, if not nil, receives the error that ended a connection; nil for a normal
// end.
func Serve(ctx context.Context, l net.Listener, robot hal.Robot, report func(error)) error {
	spec := robot.Spec()
	if err := spec.Validate(); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := checkMeasured(spec); err != nil {
		return errors.Join(fmt.Errorf("bridge: serve %s: %w; add the measured value to the observation, and name its channel",
			spec.Name, err), l.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer l.Close()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("bridge: accept: %w", err)
		}
		err = serveOne(ctx, conn, robot)
		if report != nil {
			report(err)
		}
	}
}

// startPatience is the longest time from the hello of a client with a deadman to its
// first request.
const startPatience = time.Minute

// session is one client's connection, at the server.
type session struct {
	conn    net.Conn
	in      *bufio.Reader
	robot   hal.Robot
	mode    mode
	deadman time.Duration
	heard   bool   // a request was received
	seq     uint32 // of the present request; before hello, the predecessor of 0
	buf     []byte // payload received
	out     []byte // frame to send
	action  []float32
	state   sample
}

func serveOne(ctx context.Context, conn net.Conn, robot hal.Robot) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	s := &session{
		conn: conn, in: bufio.NewReader(conn), robot: robot, buf: make([]byte, maxHello), seq: math.MaxUint32,
	}
	err := s.greet()
	if err == nil {
		err = s.work()
	}
	return errors.Join(err, robot.Halt())
}

func (s *session) greet() error {
	_ = s.conn.SetReadDeadline(time.Now().Add(resetTimeout))
	h, payload, err := s.receive(maxHello)
	if err != nil {
		return s.refuse(kindHello, err)
	}
	if h.kind != kindHello {
		return s.refuse(h.kind, malformed(h.kind.String(), "say hello first", "it came before hello"))
	}
	m, err := decodeHello(payload)
	if err != nil {
		return s.refuse(kindHello, err)
	}
	if m.task != "" {
		return s.fail(kindHello, CodeUnsupported, fmt.Sprintf("unknown task %q: this robot has none", m.task))
	}
	s.mode, s.deadman = m.mode, m.deadman
	spec := s.robot.Spec()
	s.state.obs = make([]float32, len(spec.Obs))
	s.action = make([]float32, len(spec.Action))
	return s.reply(kindWelcome, 0, welcome{mode: m.mode, capabilities: capabilities(s.robot), spec: spec}.encode())
}

func capabilities(robot hal.Robot) (c capability) {
	if _, ok := robot.(hal.Resetter); ok {
		c |= canReset
	}
	if _, ok := robot.(hal.Rewarder); ok {
		c |= canReward
	}
	return c
}

// work answers requests until the client leaves. It returns nil after bye.
func (s *session) work() error {
	limit := max(8, 4*len(s.action))
	for {
		if err := s.conn.SetReadDeadline(s.patience()); err != nil {
			return fmt.Errorf("bridge: deadline: %w", err)
		}
		h, payload, err := s.receive(limit)
		if errors.Is(err, os.ErrDeadlineExceeded) && !s.heard {
			return fmt.Errorf("bridge: no request within %v of hello; check the client", startPatience)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("bridge: the client was silent for longer than its deadman time (%v)", s.deadman)
		}
		if err != nil {
			return s.refuse(kindHello, err)
		}
		if h.kind == kindBye {
			return nil
		}
		s.heard = true
		if err := s.answer(h, payload); err != nil {
			return err
		}
	}
}

// patience returns the deadline of the next request. A client may take longer to its
// first request, while the robot is halted.
func (s *session) patience() time.Time {
	if s.deadman == 0 {
		return time.Time{}
	}
	if !s.heard {
		return time.Now().Add(startPatience)
	}
	return time.Now().Add(s.deadman)
}

// answer handles a request. Its error ends the connection.
func (s *session) answer(h header, payload []byte) error {
	want, ok := s.size(h.kind)
	if !ok {
		return s.refuse(h.kind, malformed(h.kind.String(), "send sense, act, reset, arm, halt or bye", "not a request"))
	}
	if len(payload) != want {
		return s.refuse(h.kind, wrongLength(h.kind, len(payload), want))
	}
	switch h.kind {
	case kindAct:
		return s.act(payload)
	case kindReset:
		return s.reset(binary.LittleEndian.Uint64(payload))
	case kindArm:
		if err := s.stopped(); err != nil {
			return s.confirm(h.kind, err)
		}
		return s.confirm(h.kind, s.robot.Arm())
	case kindHalt:
		return s.confirm(h.kind, s.robot.Halt())
	}
	return s.sense(h.kind)
}

// size returns the size of a request's payload.
func (s *session) size(k kind) (size int, ok bool) {
	switch k {
	case kindAct:
		return 4 * len(s.action), true
	case kindReset:
		return 8, true
	case kindSense, kindArm, kindHalt:
		return 0, true
	}
	return 0, false
}

func (s *session) act(payload []byte) error {
	decodeFloats(s.action, payload)
	if err := s.stopped(); err != nil {
		return s.confirm(kindAct, err)
	}
	if err := s.robot.Act(s.action); err != nil {
		return s.confirm(kindAct, err)
	}
	if s.mode == free {
		return nil
	}
	return s.sense(kindAct)
}

func (s *session) reset(seed uint64) error {
	sim, ok := s.robot.(hal.Resetter)
	if !ok {
		return s.sendError(kindReset, CodeUnsupported, "this robot cannot be reset")
	}
	if err := sim.Reset(seed); err != nil {
		return s.confirm(kindReset, err)
	}
	return s.sense(kindReset)
}

// errStop is the error of Arm and Act while the stop input is pressed.
var errStop = errors.New("bridge: the stop input of the robot is pressed")

// stopped halts the robot while its stop input is pressed.
func (s *session) stopped() error {
	if stop, ok := s.robot.(hal.StopInput); ok && stop.StopPressed() {
		return errors.Join(errStop, s.robot.Halt())
	}
	return nil
}

// sense answers a request with the state.
func (s *session) sense(request kind) error {
	at, err := s.robot.Sense(s.state.obs)
	_ = s.stopped() // Act returns the error
	if err != nil {
		return s.confirm(request, err)
	}
	s.state.at, s.state.age = at, 0
	if s.mode == free {
		s.state.age = min(max(monotonic.Now()-at, 0), maxAge)
	}
	if sim, ok := s.robot.(hal.Rewarder); ok {
		s.state.reward, s.state.hasReward = sim.Reward()
	}
	s.out = s.state.append(s.begin(kindState, s.state.flags()))
	return s.send()
}

// confirm answers with ok or with the error.
func (s *session) confirm(request kind, err error) error {
	switch {
	case err == nil:
		return s.reply(kindOK, 0, nil)
	case errors.Is(err, hal.ErrHalted):
		return s.sendError(request, CodeHalted, err.Error())
	}
	return s.sendError(request, CodeRobot, err.Error())
}

// refuse reports a protocol error to the client, if it still listens.
func (s *session) refuse(request kind, err error) error {
	var broken *ProtocolError
	if errors.As(err, &broken) {
		return errors.Join(err, s.sendError(request, CodeProtocol, err.Error()))
	}
	return err
}

func (s *session) fail(request kind, code Code, text string) error {
	return errors.Join(errors.New("bridge: "+text), s.sendError(request, code, text))
}

func (s *session) sendError(request kind, code Code, text string) error {
	if !request.known() {
		request = kindHello
	}
	return s.reply(kindError, 0, encodeError(request, code, text))
}

func (s *session) receive(limit int) (header, []byte, error) {
	if _, err := io.ReadFull(s.in, s.buf[:headerSize]); err != nil {
		return header{}, nil, fmt.Errorf("bridge: the client left without bye: %w", err)
	}
	h, err := decodeHeader(s.buf, limit)
	if err != nil {
		return h, nil, err
	}
	expected := s.seq + 1
	if s.seq = h.seq; h.seq != expected {
		return h, nil, malformed(h.kind.String(), "number the requests 0, 1, 2, ...",
			"wrong sequence number (%d, expected %d)", h.seq, expected)
	}
	payload := s.buf[:h.length]
	if _, err := io.ReadFull(s.in, payload); err != nil {
		return h, nil, fmt.Errorf("bridge: the client left within a frame (%v): %w", h.kind, err)
	}
	return h, payload, nil
}

func (s *session) begin(k kind, flags uint8) []byte {
	b := append(s.out[:0], make([]byte, headerSize)...)
	header{kind: k, flags: flags, seq: s.seq}.put(b)
	return b
}

func (s *session) reply(k kind, flags uint8, payload []byte) error {
	s.out = append(s.begin(k, flags), payload...)
	return s.send()
}

func (s *session) send() error {
	binary.LittleEndian.PutUint32(s.out, uint32(len(s.out)-headerSize))
	if err := s.conn.SetWriteDeadline(s.patience()); err != nil {
		return fmt.Errorf("bridge: deadline: %w", err)
	}
	if _, err := s.conn.Write(s.out); err != nil {
		return fmt.Errorf("bridge: sending the answer: %w", err)
	}
	return nil
}
