package announce

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"optibfm/internal/bustest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

var service = Service{Name: "rover on walker", Type: "_optibfm._tcp", Port: 8642, Text: []string{"scheme=https"}}

type avahi struct {
	mu     sync.Mutex
	stops  bool
	silent bool
	taken  string // name of a service of another program
	state  int32  // of groups
	groups int    // so far
	has    map[int]string
}

func (a *avahi) accept() (bustest.Answer, func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent {
		return nil, func() {}
	}
	a.groups++
	id := a.groups
	return func(m *dbus.Message) (string, []any) { return a.call(id, m) }, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.has, id)
	}
}

func (a *avahi) call(id int, m *dbus.Message) (failure string, body []any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	header := func(f dbus.HeaderField) string { return fmt.Sprint(m.Headers[f].Value()) }
	member := header(dbus.FieldInterface) + "." + header(dbus.FieldMember)
	switch {
	case header(dbus.FieldDestination) == "org.freedesktop.DBus":
		return "", []any{":1.1"} // Hello
	case a.stops:
		return "org.freedesktop.DBus.Error.ServiceUnknown", []any{"it does not run"}
	case m.Flags&dbus.FlagNoAutoStart == 0:
		return "test.StartsADaemon", nil
	}
	switch member {
	case "org.freedesktop.Avahi.Server.GetHostNameFqdn":
		return "", []any{"walker.local"}
	case "org.freedesktop.Avahi.Server.EntryGroupNew":
		return "", []any{dbus.ObjectPath(fmt.Sprintf("/Client1/EntryGroup%d", id))}
	case "org.freedesktop.Avahi.Server.GetAlternativeServiceName":
		return "", []any{m.Body[0].(string) + " #2"}
	case "org.freedesktop.Avahi.EntryGroup.AddService":
		if m.Body[3] == a.taken {
			return "org.freedesktop.Avahi.CollisionError", []any{"Local name collision"}
		}
		a.has[id] = fmt.Sprint(header(dbus.FieldSignature), m.Body)
		return "", nil
	case "org.freedesktop.Avahi.EntryGroup.Commit":
		return "", nil
	case "org.freedesktop.Avahi.EntryGroup.GetState":
		return "", []any{a.state}
	}
	return "test.Unknown", []any{member}
}

func (a *avahi) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// expect waits until exactly one service with a name is published, or none for "".
func (a *avahi) expect(t *testing.T, name string) {
	t.Helper()
	arguments := fmt.Sprint([]any{-1, -1, 0, name, "_optibfm._tcp", "", "", 8642, [][]byte{[]byte("scheme=https")}})
	want := "map[%d:iiussssqaay" + arguments + "]"
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		a.mu.Lock()
		got := fmt.Sprint(a.has)
		expected := "map[]"
		for id := range a.has {
			expected = fmt.Sprintf(want, id)
		}
		ok := got == expected && (len(a.has) == 0) == (name == "")
		a.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("published %s, want %s", got, fmt.Sprintf(want, 1))
		}
	}
}

func TestPublisher_FollowsTheDaemon(t *testing.T) {
	daemon := &avahi{state: 2, has: map[int]string{}}
	p := &Publisher{Bus: bustest.Start(t, daemon.accept)}
	update := func() {
		t.Helper()
		if host, err := p.Update(t.Context(), service); err != nil || host != "walker.local" {
			t.Fatalf("host %q, %v", host, err)
		}
	}
	update()
	daemon.expect(t, "rover on walker")
	update()
	if daemon.groups != 1 {
		t.Errorf("%d connections for an unchanged service", daemon.groups)
	}
	daemon.change(func() { daemon.state = stateCollision }) // another computer has the name
	update()
	daemon.expect(t, "rover on walker #2")
	daemon.change(func() { daemon.state, daemon.stops = 2, true })
	errtest.Is(t, errtest.Of(p.Update(t.Context(), service)), ErrNotRunning, "without the daemon")
	daemon.expect(t, "")
	daemon.change(func() { daemon.stops, daemon.taken = false, service.Name })
	update()
	daemon.expect(t, "rover on walker #2")
	p.Close()
	daemon.expect(t, "")
	daemon.change(func() { daemon.taken = "" })
	update()
	daemon.expect(t, "rover on walker")
	p.Close()
}

func TestPublisher_DoesNotWaitForASilentBus(t *testing.T) {
	p := &Publisher{Bus: bustest.Start(t, (&avahi{silent: true}).accept)}
	errtest.Is(t, errtest.Of(p.Update(t.Context(), service)), ErrNotRunning)
	p = &Publisher{Bus: func(context.Context) (*dbus.Conn, error) { return dbus.Connect("unix:path=/nonexistent") }}
	errtest.Is(t, errtest.Of(p.Update(t.Context(), service)), ErrNotRunning)
}

const busConfiguration = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth><policy context="default">
<allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/>
<allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
<allow receive_type="method_call"/><allow receive_type="method_return"/><allow receive_type="error"/>
<allow receive_type="signal"/></policy></busconfig>`

// start starts a program until the test ends, and returns when its output has a text.
func start(t *testing.T, env []string, ready, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	out := &output{has: make(chan struct{}), ready: ready}
	cmd.Stdout, cmd.Stderr = out, out
	fatal.If(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	select {
	case <-out.has:
	case <-time.After(time.Minute):
		t.Skipf("%s is not ready: %s", program, out.text.String())
	}
}

type output struct {
	text  strings.Builder
	ready string
	has   chan struct{}
	once  sync.Once
}

func (o *output) Write(p []byte) (int, error) {
	o.text.Write(p)
	if strings.Contains(o.text.String(), o.ready) {
		o.once.Do(func() { close(o.has) })
	}
	return len(p), nil
}

// avahi-browse is an independent client. Both daemons are those of Debian.
func TestPublisher_IsFoundByAvahiBrowse(t *testing.T) {
	for _, program := range []string{"dbus-daemon", "avahi-daemon", "avahi-browse"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("no " + program)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("avahi-daemon needs root")
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	address := "unix:path=" + filepath.Join(dir, "bus")
	env := []string{"DBUS_SYSTEM_BUS_ADDRESS=" + address}
	start(t, nil, "unix:path=", "dbus-daemon", "--nofork", "--print-address",
		"--config-file="+write("bus.conf", fmt.Sprintf(busConfiguration, filepath.Join(dir, "bus"))))
	start(t, env, "Server startup complete", "avahi-daemon", "--no-drop-root", "--no-chroot", "--no-rlimits",
		"-f", write("avahi.conf", "[server]\nhost-name=walker-test\n"))
	p := &Publisher{Bus: func(ctx context.Context) (*dbus.Conn, error) {
		return dbus.Connect(address, dbus.WithContext(ctx))
	}}
	defer p.Close()
	if host, err := p.Update(t.Context(), service); err != nil || host != "walker-test.local" {
		t.Fatal(host, err)
	}
	browse := func() string {
		cmd := exec.CommandContext(t.Context(), "avahi-browse", "-rpt", service.Type)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	found := func() bool {
		text := browse()
		return strings.Contains(text, ";walker-test.local;") && strings.Contains(text, `;8642;"scheme=https"`)
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s", what, browse())
			}
		}
	}
	await("published", found)
	p.Close()
	await("withdrawn", func() bool { return !strings.Contains(browse(), "8642") })
}
