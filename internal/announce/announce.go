// Package announce publishes a service in the local network: DNS-SD (RFC 6763) over multicast DNS
// (RFC 6762).
//
// avahi-daemon does it, over D-Bus: it owns the computer's name in .local, resolves conflicts with
// other computers, and parses what the network sends, so that the program opens no port for it. The
// service ends with its [Publisher].
package announce

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	daemon = "org.freedesktop.Avahi"
	server = daemon + ".Server."
	group  = daemon + ".EntryGroup."

	timeout = time.Second // of an update

	anywhere = int32(-1) // interface or protocol

	stateCollision = 3 // of an entry group (avahi-common/defs.h)
	stateFailure   = 4

	maxAttempts = 4 // other names, after a collision
)

// ErrNotRunning is returned where avahi-daemon does not run.
var ErrNotRunning = errors.New("avahi-daemon does not run")

// Service is the service that a robot announces.
type Service struct {
	Name string // of this instance, for people
	Type string // such as _optibfm._tcp
	Port uint16
	Text []string // KEY=VALUE
}

// Publisher publishes one service. The zero value is ready to use; one goroutine calls its methods.
type Publisher struct {
	// Bus connects to the system bus; nil: that of this computer.
	Bus func(context.Context) (*dbus.Conn, error)

	conn    *dbus.Conn
	hangUp  context.CancelFunc
	entries dbus.BusObject // nil: nothing is published
	service Service        // that is published
	name    string         // under which it is
}

// Update publishes the service in place of the former one, or checks that it is still published. It
// returns the name of this computer in the local network, such as walker.local.
func (p *Publisher) Update(ctx context.Context, s Service) (host string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if host, err = p.update(ctx, s); err != nil {
		p.Close()
		return "", fmt.Errorf("announce: %w", err)
	}
	return host, nil
}

func (p *Publisher) update(ctx context.Context, s Service) (host string, err error) {
	name := s.Name
	if p.entries != nil && reflect.DeepEqual(p.service, s) {
		state := int32(stateFailure)
		err := p.call(ctx, p.entries, group+"GetState", nil, &state) // fails after a restart of the daemon
		switch {
		case err == nil && state < stateCollision:
			return p.host(ctx)
		case state == stateCollision:
			if name, err = p.alternative(ctx, p.name); err != nil {
				return "", err
			}
		}
	}
	p.Close()
	if err := p.connect(); err != nil {
		return "", err
	}
	if host, err = p.host(ctx); err != nil {
		return "", err
	}
	return host, p.publish(ctx, s, name)
}

// connect connects to the bus. The connection outlives the update.
func (p *Publisher) connect() (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	tooLate := time.AfterFunc(timeout, cancel)
	defer tooLate.Stop()
	bus := p.Bus
	if bus == nil {
		bus = func(ctx context.Context) (*dbus.Conn, error) { return dbus.ConnectSystemBus(dbus.WithContext(ctx)) }
	}
	if p.conn, err = bus(ctx); err != nil {
		cancel()
		return fmt.Errorf("%w: no D-Bus: %w", ErrNotRunning, err)
	}
	p.hangUp = cancel
	return nil
}

// host returns the computer's name.
func (p *Publisher) host(ctx context.Context) (name string, err error) {
	err = p.call(ctx, p.conn.Object(daemon, "/"), server+"GetHostNameFqdn", nil, &name)
	return name, err
}

// alternative returns the name to try after one that is taken.
func (p *Publisher) alternative(ctx context.Context, taken string) (name string, err error) {
	err = p.call(ctx, p.conn.Object(daemon, "/"), server+"GetAlternativeServiceName", []any{taken}, &name)
	return name, err
}

// publish publishes the service under a name, or under another one if a program of this computer
// has that.
func (p *Publisher) publish(ctx context.Context, s Service, name string) error {
	var path dbus.ObjectPath
	if err := p.call(ctx, p.conn.Object(daemon, "/"), server+"EntryGroupNew", nil, &path); err != nil {
		return err
	}
	p.entries = p.conn.Object(daemon, path)
	text := make([][]byte, len(s.Text))
	for i := range s.Text {
		text[i] = []byte(s.Text[i])
	}
	for range maxAttempts {
		err := p.call(ctx, p.entries, group+"AddService", []any{
			anywhere, anywhere, uint32(0), name, s.Type, "", "", s.Port, text,
		})
		if err == nil {
			p.service, p.name = s, name
			return p.call(ctx, p.entries, group+"Commit", nil)
		}
		if failed := (dbus.Error{}); !errors.As(err, &failed) || failed.Name != daemon+".CollisionError" {
			return err
		}
		if name, err = p.alternative(ctx, name); err != nil {
			return err
		}
	}
	return fmt.Errorf("the name %q and others are taken", s.Name)
}

// call calls a method of the daemon, without starting it, and stores the results.
func (p *Publisher) call(ctx context.Context, on dbus.BusObject, method string, args []any, results ...any) error {
	call := on.CallWithContext(ctx, method, dbus.FlagNoAutoStart, args...)
	if refused := (dbus.Error{}); errors.As(call.Err, &refused) &&
		refused.Name == "org.freedesktop.DBus.Error.ServiceUnknown" {
		return ErrNotRunning
	}
	return call.Store(results...)
}

// Close withdraws the service. Update publishes it again.
func (p *Publisher) Close() {
	if p.conn != nil {
		p.hangUp()
		_ = p.conn.Close() // the daemon withdraws what its clients published
	}
	p.conn, p.entries = nil, nil
}
