package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"optibfm/internal/resolve"
)

// Dial connects to a robot's server, which it starts first if config has a
// Command, and reads the robot's description. The robot is halted. When ctx ends,
// Dial closes the connection, ends the server that it started, and returns an error
// that wraps ctx.Err(). The Robot does not depend on ctx.
func Dial(ctx context.Context, config Config) (*Robot, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	limit := config.startTimeout()
	deadline := time.Now().Add(limit)
	if len(config.Command) > 0 {
		return dialChild(ctx, config, deadline)
	}
	connecting, cancel := context.WithDeadlineCause(ctx, deadline,
		fmt.Errorf("no connection within %v (start_timeout_ms)", limit))
	defer cancel()
	conn, err := connect(connecting, config.Address, nil, func(err error) {
		fmt.Fprintf(config.output(), "bridge: waiting for the server at %s, at most %v (start_timeout_ms): %v\n",
			config.Address, limit, err)
	})
	if err != nil {
		return nil, fmt.Errorf("bridge: dial %s: %w; start the server first, or set command", config.Address, err)
	}
	return greet(ctx, conn, config, deadline)
}

func dialChild(ctx context.Context, config Config, deadline time.Time) (*Robot, error) {
	server, err := startChild(config)
	if err != nil {
		return nil, err
	}
	conn, err := server.connect(ctx, deadline, config.startTimeout())
	if err != nil {
		server.terminate()
		server.stop()
		return nil, err
	}
	robot, err := greet(ctx, conn, config, deadline)
	if err != nil {
		server.stop()
		return nil, err
	}
	robot.server = server
	return robot, nil
}

const (
	firstConnectPause   = 20 * time.Millisecond // between attempts; it doubles
	longestConnectPause = 250 * time.Millisecond
)

// errExited means that the server ended before it listened.
var errExited = errors.New("the server ended before it listened")

// connect connects as soon as a server listens and, on the network, its address is reached. It
// gives up when ctx ends or exited is closed. waiting, if not nil, receives the first failure.
func connect(ctx context.Context, address string, exited <-chan struct{}, waiting func(error)) (net.Conn, error) {
	network, where, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	var last error
	for pause := firstConnectPause; ; pause = min(2*pause, longestConnectPause) {
		conn, err := resolve.Dial(ctx, &net.Dialer{}, network, where)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if waiting != nil && ctx.Err() == nil {
			waiting(err)
			waiting = nil
		}
		select {
		case <-exited:
			return nil, errExited
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", interrupted(ctx, last), last)
		case <-time.After(pause):
		}
	}
}

// greet sends hello on a new connection, which it owns from then on.
func greet(ctx context.Context, conn net.Conn, config Config, deadline time.Time) (*Robot, error) {
	m, err := handshake(ctx, conn, config, deadline)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	sock, err := newSocket(conn)
	if err != nil {
		return nil, err
	}
	wait := time.Duration(0)
	if m.capabilities&canReset != 0 {
		wait = config.SimulatorWait
	}
	period, halting := m.spec.Period, max(haltTimeout, min(wait, longestHalt))
	if m.mode == lockstep {
		return newRobot(sock, m, orDefault(config.TimeoutMs, lockstepTimeout), 0, halting), nil
	}
	stale := max(orDefault(config.StaleMs, 3*period), wait)
	timeout := orDefault(config.TimeoutMs, period/2)
	r := newRobot(sock, m, timeout, stale, max(halting, min(timeout, longestHalt)))
	r.deadman, r.patient = deadmanOf(config), halting > haltTimeout
	return r, nil
}

// handshake sends hello and reads the answer until a deadline, that of start_timeout_ms:
// a server may have to build its robot first.
func handshake(ctx context.Context, conn net.Conn, config Config, deadline time.Time) (welcome, error) {
	want := config.mode()
	m := hello{mode: want, task: config.Task}
	if want == free {
		m.deadman = deadmanOf(config)
	}
	limit := config.startTimeout()
	if err := conn.SetDeadline(deadline); err != nil {
		return welcome{}, fmt.Errorf("bridge: hello: deadline: %w", err)
	}
	// A deadline in the past ends a blocked Read or Write.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(0, 0)) })
	defer stop()
	notice := time.AfterFunc(noticeAfter, func() {
		fmt.Fprintf(config.output(), "bridge: waiting for the server's welcome, at most %v (start_timeout_ms)\n", limit)
	})
	defer notice.Stop()
	w, got, err := ask(conn, m)
	var broken *ProtocolError
	var remote *RemoteError
	switch {
	case err == nil, errors.As(err, &remote):
		return w, err
	case errors.As(err, &broken):
		return welcome{}, during(kindHello, err)
	case ctx.Err() != nil:
		return welcome{}, fmt.Errorf("bridge: hello: interrupted while waiting for the welcome (%d bytes received): %w",
			got, interrupted(ctx, err))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return welcome{}, fmt.Errorf("bridge: hello: no complete welcome within %v (%d bytes received); "+
			"check that the address is that of a bridge, or raise start_timeout_ms", limit, got)
	}
	return welcome{}, fmt.Errorf("bridge: hello: the server closed the connection before the welcome was complete "+
		"(%d bytes received): %w; see its output", got, err)
}

// ask sends hello and returns the welcome. It received got bytes.
func ask(conn net.Conn, m hello) (w welcome, got int, err error) {
	payload := m.encode()
	frame := make([]byte, headerSize, headerSize+len(payload))
	header{kind: kindHello, length: uint32(len(payload))}.put(frame)
	if _, err := conn.Write(append(frame, payload...)); err != nil {
		return w, 0, err
	}
	got, err = io.ReadFull(conn, frame)
	if err != nil {
		return w, got, err
	}
	h, err := decodeHeader(frame, maxWelcome)
	if err != nil {
		return w, got, err
	}
	payload = make([]byte, h.length)
	n, err := io.ReadFull(conn, payload)
	if err != nil {
		return w, got + n, err
	}
	w, err = accepted(h, payload, m.mode)
	return w, got + n, err
}

// accepted decodes the answer to hello.
func accepted(h header, payload []byte, want mode) (welcome, error) {
	switch {
	case h.seq != 0:
		return welcome{}, malformed(h.kind.String(), "repeat the hello's",
			"wrong sequence number (%d, expected 0)", h.seq)
	case h.kind == kindError:
		return welcome{}, refusal(payload)
	case h.kind != kindWelcome:
		return welcome{}, malformed(h.kind.String(), "answer with welcome or error", "not an answer to hello")
	}
	got, err := decodeWelcome(payload)
	if err == nil && got.mode != want {
		err = malformed("welcome", "confirm the mode of hello, or answer with an error",
			"another mode than hello's (%d, expected %d)", got.mode, want)
	}
	return got, err
}

// refusal decodes an error frame that answers hello.
func refusal(payload []byte) error {
	err := decodeError(payload)
	remote, ok := err.(*RemoteError)
	if ok && remote.Code != CodeProtocol && remote.Request != kindHello.String() {
		return wrongRequest(remote, kindHello)
	}
	return err
}

// deadmanOf returns the deadman time in free mode, in whole milliseconds.
func deadmanOf(config Config) time.Duration {
	return orDefault(config.DeadmanMs, freeDeadman).Truncate(time.Millisecond)
}

// interrupted returns the reason why ctx ended, or err if it has not ended.
func interrupted(ctx context.Context, err error) error {
	reason, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case reason == nil:
		return err
	case cause == reason:
		return reason
	}
	return fmt.Errorf("%w: %w", reason, cause)
}
