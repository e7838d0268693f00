package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Dial connects to a robot's server, which it starts first where config has a
// Command, and learns what the robot is. The robot is halted. ctx limits the
// dialling only.
func Dial(ctx context.Context, config Config) (*Robot, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if len(config.Command) == 0 {
		conn, err := connect(ctx, config.Address)
		if err != nil {
			return nil, fmt.Errorf("bridge: dial %s: %w: start the server first, or give its command", config.Address, err)
		}
		return greet(ctx, conn, config)
	}
	return dialChild(ctx, config)
}

func dialChild(ctx context.Context, config Config) (*Robot, error) {
	server, err := startChild(config)
	if err != nil {
		return nil, err
	}
	conn, err := server.connect(ctx, orDefault(config.StartTimeoutMs, startTimeout))
	if err != nil {
		server.stop()
		return nil, err
	}
	robot, err := greet(ctx, conn, config)
	if err != nil {
		server.stop()
		return nil, err
	}
	robot.server = server
	return robot, nil
}

func connect(ctx context.Context, address string) (net.Conn, error) {
	network, where, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, network, where)
}

// greet says hello on a new connection, which it takes over.
func greet(ctx context.Context, conn net.Conn, config Config) (*Robot, error) {
	sock, err := newSocket(conn)
	if err != nil {
		return nil, err
	}
	m, err := handshake(ctx, sock, config)
	if err != nil {
		_ = sock.close()
		return nil, err
	}
	period := m.spec.Period
	if m.mode == lockstep {
		return newRobot(sock, m, orDefault(config.TimeoutMs, lockstepTimeout), 0), nil
	}
	r := newRobot(sock, m, orDefault(config.TimeoutMs, period/2), orDefault(config.StaleMs, 3*period))
	r.deadman = deadmanOf(config)
	return r, nil
}

func handshake(ctx context.Context, sock *socket, config Config) (welcome, error) {
	want, err := config.mode()
	if err != nil {
		return welcome{}, err
	}
	m := hello{mode: want, task: config.Task}
	if want == free {
		m.deadman = deadmanOf(config)
	}
	payload := m.encode()
	frame := make([]byte, headerSize, headerSize+len(payload))
	header{kind: kindHello, length: uint32(len(payload))}.put(frame)
	deadline := helloDeadline(ctx)
	if _, err := sock.send(append(frame, payload...), deadline); err != nil {
		return welcome{}, fmt.Errorf("bridge: hello: %w", err)
	}
	sock.reserve(maxWelcome)
	h, reply, err := sock.receive(maxWelcome, deadline)
	if err != nil {
		return welcome{}, fmt.Errorf("bridge: hello: %w: is this the address of a bridge?", err)
	}
	switch {
	case h.seq != 0:
		return welcome{}, malformed(h.kind.String(), "repeat the hello's", "wrong sequence number (%d, expected 0)", h.seq)
	case h.kind == kindError:
		return welcome{}, decodeError(reply)
	case h.kind != kindWelcome:
		return welcome{}, malformed(h.kind.String(), "answer with welcome or error", "it is no answer to hello")
	}
	got, err := decodeWelcome(reply)
	if err == nil && got.mode != want {
		err = malformed("welcome", "confirm the mode that hello asked for, or refuse", "the mode is another one (%d, asked for %d)", got.mode, want)
	}
	return got, err
}

// deadmanOf is what the server is asked for in free mode, in the whole
// milliseconds that hello has.
func deadmanOf(config Config) time.Duration {
	return orDefault(config.DeadmanMs, freeDeadman).Truncate(time.Millisecond)
}

// helloDeadline is ctx's deadline where it has one. A server may have to build
// its robot first.
func helloDeadline(ctx context.Context) int64 {
	patience := startTimeout
	if until, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(until))
	}
	return after(patience)
}

// interrupted prefers the context's reason to the one that it caused.
func interrupted(ctx context.Context, err error) error {
	if reason := context.Cause(ctx); reason != nil {
		return errors.Join(reason, err)
	}
	return err
}
