package resolve

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"optibfm/internal/bustest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// daemons is a system bus with the daemons that run. Both know camera.local.
type daemons struct {
	t        *testing.T
	resolved string // the address that it finds; "": it does not run
	avahi    string
	system   string // without a daemon
	silent   bool   // the bus accepts connections and says nothing
}

func (d *daemons) start() resolver {
	d.t.Helper()
	bus := bustest.Start(d.t, func() (bustest.Answer, func()) {
		if d.silent {
			return nil, func() {}
		}
		return d.call, func() {}
	})
	return resolver{
		system: func(context.Context, string) ([]netip.Addr, error) {
			addr, err := netip.ParseAddr(d.system)
			return []netip.Addr{addr}, err
		},
		bus: bus,
	}
}

// call returns the name of an error, or "", and the body of the reply.
func (d *daemons) call(m *dbus.Message) (failure string, body []any) {
	header := func(f dbus.HeaderField) string { return fmt.Sprint(m.Headers[f].Value()) }
	asked := fmt.Sprint(header(dbus.FieldMember), header(dbus.FieldSignature), " ", m.Body)
	switch on := header(dbus.FieldDestination); {
	case on == "org.freedesktop.DBus":
		return "", []any{":1.1"} // Hello
	case m.Flags&dbus.FlagNoAutoStart == 0:
		return "test.StartsADaemon", nil
	case on == "org.freedesktop.resolve1" && d.resolved != "":
		if asked != "ResolveHostnameisit [0 camera.local 2 0]" {
			return "test.Unknown: " + asked, nil
		}
		type found struct {
			Interface, Family int32
			Address           []byte
		}
		address := netip.MustParseAddr(d.resolved).AsSlice()
		return "", []any{[]found{{3, 2, address}}, "camera.local", uint64(1)}
	case on == "org.freedesktop.Avahi" && d.avahi != "":
		if asked != "ResolveHostNameiisiu [-1 -1 camera.local 0 0]" {
			return "org.freedesktop.Avahi.TimeoutError", []any{"Timeout reached"}
		}
		return "", []any{int32(3), int32(0), "camera.local", int32(0), d.avahi, uint32(0)}
	}
	return "org.freedesktop.DBus.Error.ServiceUnknown", []any{"it does not run"}
}

func TestDial_FindsMulticastNames(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Addr().String())
	for name, c := range map[string]struct {
		on    daemons
		host  string
		fails []string
	}{
		"systemd-resolved": {daemons{resolved: "127.0.0.1"}, "camera.local", nil},
		"avahi":            {daemons{avahi: "127.0.0.1"}, "camera.local", nil},
		"the system":       {daemons{system: "127.0.0.1"}, "camera.local", nil},
		"a silent bus":     {daemons{system: "127.0.0.1", silent: true}, "camera.local", nil},
		"no server there":  {daemons{avahi: "127.0.0.2"}, "camera.local", []string{"camera.local", "refused"}},
		"not an address":   {daemons{avahi: "camera"}, "camera.local", []string{"use the address"}},
		"no daemon":        {daemons{}, "camera.local", []string{"camera.local", "not running", "use the address"}},
		"an unknown name": {
			daemons{avahi: "127.0.0.1"}, "other.local", []string{"Timeout reached", "use the address"},
		},
		"an address":          {daemons{silent: true}, "127.0.0.1", nil},
		"a name of this host": {daemons{silent: true}, "localhost", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.on.t = t
			conn, err := c.on.start().dial(t.Context(), &net.Dialer{}, "tcp", net.JoinHostPort(c.host, port))
			if err == nil {
				defer conn.Close()
			}
			if (err == nil) != (c.fails == nil) {
				t.Fatal(err)
			}
			for _, want := range c.fails {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
		})
	}
}

func TestDial_EndsWithItsContext(t *testing.T) {
	r := (&daemons{t: t, silent: true}).start()
	r.system = func(ctx context.Context, _ string) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errtest.Is(t, errtest.Of(r.dial(ctx, &net.Dialer{}, "tcp", "camera.local:80")), context.Canceled)
}
