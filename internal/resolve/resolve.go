// Package resolve connects to computers by name, also by a multicast DNS name such as camera.local
// (RFC 6762). The resolver of a program without cgo asks DNS alone, which has no such names;
// systemd-resolved and avahi answer over D-Bus. It asks for IPv4 addresses, as NSS does by default
// (mdns4_minimal): many devices have a link-local IPv6 address at which their server does not
// listen.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// lookupTimeout limits a lookup. Avahi answers within 5 s.
const lookupTimeout = 6 * time.Second

// Dial is dialer.DialContext that also finds multicast DNS names. Its error for an unknown one has
// a fix.
func Dial(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	return machine.dial(ctx, dialer, network, address)
}

// resolver is the resolvers of a machine.
type resolver struct {
	system func(ctx context.Context, host string) ([]netip.Addr, error)
	bus    func(ctx context.Context) (*dbus.Conn, error)
}

var machine = resolver{
	system: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
	},
	bus: func(ctx context.Context) (*dbus.Conn, error) { return dbus.ConnectSystemBus(dbus.WithContext(ctx)) },
}

func (r resolver) dial(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isMulticast(host) {
		return dialer.DialContext(ctx, network, address)
	}
	found, err := r.lookup(ctx, strings.TrimSuffix(host, "."))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, addr := range found {
		conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("%s: %w", host, errors.Join(errs...))
}

func isMulticast(host string) bool {
	return strings.HasSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), ".local")
}

// lookup asks all resolvers at the same time and returns the first answer: an absent DNS server or
// daemon may be slow.
func (r resolver) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	type answer struct {
		from  string
		addrs []netip.Addr
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	resolvers := map[string]func(context.Context, string) ([]netip.Addr, error){
		"system": r.system, "systemd-resolved": r.resolved, "avahi": r.avahi,
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w; use the address", host, err)
	}
	answers := make(chan answer, len(resolvers))
	for from, ask := range resolvers {
		go func() {
			addrs, err := ask(ctx, host)
			answers <- answer{from, addrs, err}
		}()
	}
	reasons := map[string]error{}
	for len(reasons) < len(resolvers) {
		select {
		case a := <-answers:
			if a.err == nil && len(a.addrs) > 0 {
				return a.addrs, nil
			}
			reasons[a.from] = a.err
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w; use the address", host, context.Cause(ctx))
		}
	}
	return nil, fmt.Errorf("%s: unknown name (systemd-resolved: %v; avahi: %v); "+
		"use the address, or install avahi-daemon", host, reasons["systemd-resolved"], reasons["avahi"])
}

var errNotRunning = errors.New("not running")

// call calls a method of a daemon on the system bus, which does not start it, and stores the
// results.
func (r resolver) call(
	ctx context.Context, daemon string, path dbus.ObjectPath, method string, arguments, results []any,
) error {
	conn, err := r.bus(ctx)
	if err != nil {
		return fmt.Errorf("no D-Bus: %w", err)
	}
	defer conn.Close()
	call := conn.Object(daemon, path).CallWithContext(ctx, method, dbus.FlagNoAutoStart, arguments...)
	var refused dbus.Error
	if errors.As(call.Err, &refused) && (refused.Name == "org.freedesktop.DBus.Error.ServiceUnknown" ||
		refused.Name == "org.freedesktop.DBus.Error.NameHasNoOwner") {
		return errNotRunning
	}
	return call.Store(results...)
}

const (
	anyInterface = int32(0)  // of systemd-resolved
	anywhere     = int32(-1) // interface or protocol of avahi
	avahiIPv4    = int32(0)
	familyIPv4   = int32(2) // AF_INET
)

// resolved asks systemd-resolved (org.freedesktop.resolve1(5)).
func (r resolver) resolved(ctx context.Context, host string) ([]netip.Addr, error) {
	var found []struct {
		Interface, Family int32
		Address           []byte
	}
	var canonical string
	var flags uint64
	err := r.call(ctx, "org.freedesktop.resolve1", "/org/freedesktop/resolve1",
		"org.freedesktop.resolve1.Manager.ResolveHostname",
		[]any{anyInterface, host, familyIPv4, uint64(0)}, []any{&found, &canonical, &flags})
	if err != nil {
		return nil, err
	}
	var list []netip.Addr
	for _, f := range found {
		if addr, ok := netip.AddrFromSlice(f.Address); ok {
			list = append(list, addr)
		}
	}
	return list, nil
}

// avahi asks avahi-daemon (org.freedesktop.Avahi.Server.xml).
func (r resolver) avahi(ctx context.Context, host string) ([]netip.Addr, error) {
	var on, protocol, family int32
	var name, address string
	var flags uint32
	err := r.call(ctx, "org.freedesktop.Avahi", "/", "org.freedesktop.Avahi.Server.ResolveHostName",
		[]any{anywhere, anywhere, host, avahiIPv4, uint32(0)},
		[]any{&on, &protocol, &name, &family, &address, &flags})
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return nil, err
	}
	return []netip.Addr{addr}, nil
}
