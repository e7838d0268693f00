package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"optibfm/internal/announce"
	"optibfm/internal/authority"
	"optibfm/internal/fatal"
)

func parseAll(texts ...string) (list []netip.Addr) {
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// lan is the network of a machine whose interfaces come and go. Its listeners are on loopback and
// appear to be at the configured address; connections appear to arrive at called.
type lan struct {
	t       *testing.T
	retries chan time.Time
	looks   chan time.Time
	pauses  chan time.Duration
	reports chan string

	mu     sync.Mutex
	local  []netip.Addr
	clock  time.Time
	called net.IP
	last   net.Listener
}

func newLAN(t *testing.T, local ...string) *lan {
	return &lan{
		t: t, local: parseAll(local...), clock: time.Now(), retries: make(chan time.Time), looks: make(chan time.Time),
		pauses: make(chan time.Duration, 64), reports: make(chan string, 64),
	}
}

func (l *lan) network() network {
	return network{listen: l.listen, addresses: l.addresses, after: l.after, now: l.now}
}

// sockets is the network of this machine with the clock of l.
func (l *lan) sockets() network {
	machine := localNetwork()
	machine.after, machine.publish = l.after, nil
	return machine
}

func (l *lan) open(machine network, change func(*Config)) *Server {
	l.t.Helper()
	cfg := DefaultConfig()
	change(&cfg)
	s, err := openOn(machine, cfg, Options{
		Period: time.Millisecond, Report: func(level Level, text string) { l.reports <- string(level) + ": " + text },
	})
	fatal.If(l.t, err)
	l.t.Cleanup(func() { _ = s.Halt() })
	return s
}

func (l *lan) listen(address string) (net.Listener, error) {
	at := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
	l.mu.Lock()
	defer l.mu.Unlock()
	if !at.IP.IsUnspecified() && !slices.Contains(l.local, at.AddrPort().Addr()) {
		cause := os.NewSyscallError("bind", unix.EADDRNOTAVAIL)
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: at, Err: cause}
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	l.last = inner
	return &disguised{inner, l, at}, err
}

func (l *lan) addresses() []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.local)
}

func (l *lan) now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock
}

func (l *lan) after(pause time.Duration) <-chan time.Time {
	if pause == lookEvery {
		return l.looks
	}
	l.pauses <- pause
	return l.retries
}

func (l *lan) set(local ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.local = parseAll(local...)
}

// look makes the server look at the addresses, and waits until it has.
func (l *lan) look() {
	l.looks <- time.Time{}
	l.looks <- time.Time{}
}

// reported returns the reports since the last call.
func (l *lan) reported() (list []string) {
	for len(l.reports) > 0 {
		list = append(list, <-l.reports)
	}
	return list
}

// dial returns the certificate that a browser sees which calls an address.
func (l *lan) dial(address string) (seen *x509.Certificate) {
	l.t.Helper()
	err := l.connect(address, &tls.Config{
		InsecureSkipVerify: true,
		VerifyConnection:   func(c tls.ConnectionState) error { seen = c.PeerCertificates[0]; return nil },
	})
	fatal.If(l.t, err)
	return seen
}

// verify returns the reason why a device that trusts the roots does not trust the certificate of an
// address or a name.
func (l *lan) verify(address string, roots *x509.CertPool) error {
	return l.connect(address, &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(c tls.ConnectionState) error {
		chain := x509.NewCertPool()
		for _, cert := range c.PeerCertificates[1:] {
			chain.AddCert(cert)
		}
		_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: address, Roots: roots, Intermediates: chain})
		return err
	}})
}

func (l *lan) connect(address string, config *tls.Config) error {
	to := l.arriveAt(address)
	if net.ParseIP(address) == nil {
		config.ServerName = address // else browsers send none
	}
	conn, err := tls.Dial("tcp", to, config)
	if err != nil {
		return err
	}
	return conn.Close()
}

// arriveAt lets connections appear to arrive at an address, and returns where they must go.
func (l *lan) arriveAt(address string) (to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.called = net.ParseIP(address)
	return l.last.Addr().String()
}

type disguised struct {
	net.Listener
	lan *lan
	at  *net.TCPAddr
}

func (d *disguised) Addr() net.Addr { return d.at }

func (d *disguised) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	d.lan.mu.Lock()
	defer d.lan.mu.Unlock()
	return &arrived{c, &net.TCPAddr{IP: d.lan.called, Port: d.at.Port}}, err
}

type arrived struct {
	net.Conn
	at *net.TCPAddr
}

func (a *arrived) LocalAddr() net.Addr { return a.at }

// expectReports fails unless there is one report for each text, which has it.
func expectReports(t *testing.T, got []string, want ...string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && strings.Contains(got[i], want[i])
	}
	if !ok {
		t.Errorf("reports %q, want %q", got, want)
	}
}

func TestServer_WaitsForItsAddress(t *testing.T) {
	const address = "192.168.7.5"
	lan := newLAN(t, "127.0.0.1")
	s := lan.open(lan.network(), func(c *Config) { c.Listen = address + ":8642" })
	var pauses []time.Duration
	for range 6 {
		pauses = append(pauses, <-lan.pauses)
		lan.retries <- time.Time{}
	}
	const second = time.Second
	want := []time.Duration{second, 2 * second, 4 * second, 8 * second, longestPause, longestPause}
	if !slices.Equal(pauses, want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
	<-lan.pauses
	expectReports(t, lan.reported(),
		"warn: no console: listen tcp 192.168.7.5:8642: bind: cannot assign requested address")
	if p := s.Pairing(); p.URL != "" || p.Number != 0 || s.Reachable() {
		t.Errorf("without its address: %+v", p)
	}
	lan.set("127.0.0.1", address)
	lan.retries <- time.Time{}
	report := <-lan.reports
	p := s.Pairing()
	expectReports(t, []string{report},
		"info: the console is at https://192.168.7.5:8642, with the certificate "+p.Fingerprint)
	if !strings.HasPrefix(p.URL, "https://192.168.7.5:8642/#") || p.Number != 1 || p.Fingerprint == "" {
		t.Errorf("with its address: %+v", p)
	}
	cert := lan.dial(address)
	if err := cert.VerifyHostname(address); err != nil || authority.Fingerprint(cert.Raw) != p.Fingerprint {
		t.Error(authority.Fingerprint(cert.Raw), err)
	}
	lan.set("127.0.0.1")
	lan.look()
	expectReports(t, lan.reported(), "warn: the console is no longer at https://192.168.7.5:8642")
	lan.set(address)
	lan.look()
	expectReports(t, lan.reported(), "info: the console is at https://192.168.7.5:8642")
	if again := s.Pairing(); again.URL != p.URL || again.Number != p.Number {
		t.Errorf("the address returned: %+v, want %+v, which was announced", again, p)
	}
}

func TestServer_ShowsAddressesThatAppear(t *testing.T) {
	lan := newLAN(t, "127.0.0.1", "::1")
	s := lan.open(lan.network(), func(c *Config) { c.Listen, c.Hosts = "0.0.0.0:8642", []string{"robot.local"} })
	at := func(host string, p Pairing) Place {
		for _, place := range append(p.Others, p.Place) {
			if strings.HasPrefix(place.URL, "https://"+host+":8642/#") {
				return place
			}
		}
		t.Errorf("no %s in %+v", host, p)
		return Place{}
	}
	first := s.Pairing()
	old := at("127.0.0.1", first).Fingerprint
	if !first.NoNetwork || !first.Local || !strings.Contains(first.Text(), "no network yet") {
		t.Errorf("without a network: %+v\n%s", first, first.Text())
	}
	lan.set("127.0.0.1", "::1", "192.168.7.5")
	lan.look()
	second := s.Pairing()
	added := at("192.168.7.5", second)
	expectReports(t, lan.reported(),
		"info: the console is at https://robot.local:8642, with the certificate "+old,
		"info: the console is at https://192.168.7.5:8642, with the certificate "+added.Fingerprint)
	if second.NoNetwork || second.Local || second.Number != first.Number+1 || token(added.URL) != token(first.URL) {
		t.Errorf("with a network: %+v, before %+v", second, first)
	}
	if added.Fingerprint == old || at("robot.local", second).Fingerprint != old {
		t.Errorf("%+v: the name keeps the certificate %s, the new address has another one", second, old)
	}
	for _, fingerprint := range []string{old, added.Fingerprint} {
		if text := second.Text(); !strings.Contains(text, fingerprint) {
			t.Errorf("no %s in\n%s", fingerprint, text)
		}
	}
	for address, want := range map[string]string{
		"192.168.7.5": added.Fingerprint, "127.0.0.1": old, "robot.local": old,
		"10.9.9.9": old, // not an address of this machine
	} {
		cert := lan.dial(address)
		if got := authority.Fingerprint(cert.Raw); got != want {
			t.Errorf("%s: certificate %s, want %s", address, got, want)
		}
		if err := cert.VerifyHostname(address); (err == nil) != (address != "10.9.9.9") {
			t.Errorf("%s: %v", address, err)
		}
	}
	lan.set("127.0.0.1", "::1", "10.9.9.9", "192.168.7.5")
	if cert := lan.dial("10.9.9.9"); cert.VerifyHostname("10.9.9.9") != nil {
		t.Error("a browser that is faster than the look at the addresses got a certificate without its address")
	}
	before := s.Pairing().Number
	for range 3 { // it flaps
		lan.set("192.168.7.5")
		lan.look()
		lan.set("10.9.9.9", "192.168.7.5")
		lan.look()
	}
	if after := s.Pairing().Number; after != before+1 {
		t.Errorf("%d invitations for one new address, want 1", after-before)
	}
}

// local is the multicast DNS of a network.
type local struct {
	mu   sync.Mutex
	name string // of this machine, "": no daemon
	has  *announce.Service
}

func (l *local) Update(_ context.Context, s announce.Service) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has = nil; l.name == "" {
		return "", announce.ErrNotRunning
	}
	l.has = &s
	return l.name, nil
}

func (l *local) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.has = nil
}

func (l *local) set(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.name = name
}

func TestServer_AnnouncesItselfInTheNetwork(t *testing.T) {
	lan, local := newLAN(t, "192.168.7.5"), &local{name: ownName()}
	machine := lan.network()
	machine.publish = local
	s := lan.open(machine, func(c *Config) { c.Listen = "0.0.0.0:8642" })
	want := announce.Service{
		Name: " on " + strings.TrimSuffix(ownName(), ".local"), Type: "_optibfm._tcp", Port: 8642,
		Text: []string{"scheme=https"},
	}
	if !reflect.DeepEqual(local.has, &want) {
		t.Errorf("announced %+v, want %+v", local.has, want)
	}
	at := ownName() + ":8642"
	if text := s.Pairing().Text(); !strings.Contains(text, "https://"+at+"/#") || strings.Contains(text, "cannot name") {
		t.Errorf("no %s in %s", at, text)
	}
	ask := func(host string) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, r)
		return w.Code
	}
	if got := ask(at); got != http.StatusOK {
		t.Errorf("status %d at %s", got, at)
	}
	lan.reported()
	local.set("another-2.local") // the daemon resolved a conflict
	lan.look()
	expectReports(t, lan.reported(),
		"info: the console is at https://another-2.local:8642", "warn: the console is no longer at https://"+at)
	if text := s.Pairing().Text(); !strings.Contains(text, "cannot name https://another-2.local:8642") {
		t.Error(text)
	}
	if got := ask(at); got != http.StatusMisdirectedRequest {
		t.Errorf("status %d at a name that it lost", got)
	}
	local.set("")
	lan.look()
	lan.look()
	expectReports(t, lan.reported(),
		"info: the console is not announced", "warn: the console is no longer at https://another-2.local")
	if err := s.Halt(); err != nil || local.has != nil {
		t.Errorf("after the end: %v, %v", local.has, err)
	}
}

func TestServer_IsNotAnnouncedOnLoopbackOrAgainstItsConfiguration(t *testing.T) {
	for listen, wanted := range map[string]bool{"127.0.0.1:8642": true, "0.0.0.0:8642": false} {
		lan, local := newLAN(t, "192.168.7.5", "127.0.0.1"), &local{name: "walker.local"}
		machine := lan.network()
		machine.publish = local
		lan.open(machine, func(c *Config) { c.Listen, c.Announce = listen, wanted })
		if local.has != nil {
			t.Errorf("listen %s, announce %v: announced", listen, wanted)
		}
	}
}

func TestServer_ReportsAPortInUseAndTakesItWhenItIsFree(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer other.Close()
	lan := newLAN(t)
	s := lan.open(lan.sockets(), func(c *Config) { c.Listen = other.Addr().String() })
	<-lan.pauses
	expectReports(t, lan.reported(), "operator.web.listen")
	fatal.If(t, other.Close())
	lan.retries <- time.Time{}
	expectReports(t, []string{<-lan.reports}, "info: the console is at http://"+other.Addr().String())
	pairWith(t, s, token(s.Pairing().URL))
}

func TestServer_WaitsForItsCertificate(t *testing.T) {
	made := testCertificates(t, []string{"localhost"}, addresses, time.Now)
	cert, err := made.of("localhost")
	fatal.If(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(made.key)
	fatal.If(t, err)
	folder := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(folder, name)
		fatal.If(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	lan := newLAN(t)
	s := lan.open(lan.sockets(), func(c *Config) {
		c.Listen, c.TLS, c.CertFile = "127.0.0.1:0", TLSFiles, filepath.Join(folder, "cert.pem")
		c.KeyFile = write("key.pem", "PRIVATE KEY", key)
	})
	<-lan.pauses
	expectReports(t, lan.reported(), "cert.pem")
	write("cert.pem", "CERTIFICATE", cert.Certificate[0])
	lan.retries <- time.Time{}
	expectReports(t, []string{<-lan.reports}, "info: the console is at https://127.0.0.1")
	conn, err := tls.Dial("tcp", s.bound.Load().addr.String(), &tls.Config{InsecureSkipVerify: true})
	fatal.If(t, err)
	if got := conn.ConnectionState().PeerCertificates[0]; !got.Equal(cert.Leaf) {
		t.Errorf("certificate of %v", got.Subject)
	}
	_ = conn.Close()
}

func TestServer_ListensAgainAfterAFailure(t *testing.T) {
	lan := newLAN(t, "192.168.7.5")
	s := lan.open(lan.network(), func(c *Config) { c.Listen = "192.168.7.5:8642" })
	before := s.Pairing()
	fatal.If(t, lan.last.Close())
	<-lan.pauses
	expectReports(t, lan.reported(), "warn: the console is no longer at https://192.168.7.5:8642", "warn: no console")
	lan.retries <- time.Time{}
	expectReports(t, []string{<-lan.reports}, "info: the console is at https://192.168.7.5:8642")
	if after := s.Pairing(); after.URL != before.URL || after.Number != before.Number {
		t.Errorf("pairing %+v, before %+v", after, before)
	}
	lan.dial("192.168.7.5")
}

func TestServer_ListensOnLocalhostWithoutDNS(t *testing.T) {
	lan := newLAN(t, "127.0.0.1") // panics for a name
	s := lan.open(lan.network(), func(c *Config) { c.Listen = "localhost:8642" })
	if url := s.Pairing().URL; !strings.HasPrefix(url, "http://127.0.0.1:8642/#") {
		t.Error(url)
	}
}

func TestServer_HaltEndsTheWaitForItsAddress(t *testing.T) {
	lan := newLAN(t)
	s := lan.open(lan.network(), func(c *Config) { c.Listen = "192.168.7.5:8642" })
	if err := s.Halt(); err != nil { // Halt waits for the goroutines
		t.Fatal(err)
	}
}

func testCertificates(
	t *testing.T, hosts []string, local func() []netip.Addr, now func() time.Time,
) *certificates {
	t.Helper()
	a, err := authority.New(hosts, now())
	fatal.If(t, err)
	c, err := newCertificates(a, hosts, local, now)
	fatal.If(t, err)
	return c
}

// A computer without a battery-backed clock starts in 1970: its phones do not.
func TestCertificates_AreReplacedBeforeTheyExpire(t *testing.T) {
	lan := newLAN(t, "192.168.7.5")
	lan.clock = time.Unix(100, 0)
	certs := testCertificates(t, []string{"localhost"}, lan.addresses, lan.now)
	first, err := certs.of("192.168.7.5")
	if err != nil || certs.fingerprint("localhost:1") != authority.Fingerprint(first.Leaf.Raw) {
		t.Fatal(first, err)
	}
	made := certs.authority.Clock(lan.clock)
	if made.Year() < 2026 || first.Leaf.NotBefore.After(made) {
		t.Errorf("a certificate from %v, made at %v", first.Leaf.NotBefore, made)
	}
	for _, step := range []struct {
		after time.Duration
		same  bool
	}{
		{0, true}, {authority.LeafLife / 2, true}, {authority.LeafLife - authority.RenewBefore, false},
		{5 * authority.LeafLife, false},
	} {
		lan.clock = made.Add(step.after)
		cert, err := certs.of("192.168.7.5")
		if err != nil || cert.Leaf.Equal(first.Leaf) != step.same || cert.Leaf.NotAfter.Before(lan.clock) {
			t.Errorf("after %v: until %v, %v", step.after, cert.Leaf.NotAfter, err)
		}
		first = cert
	}
}

func TestCertificates_AreBounded(t *testing.T) {
	lan := newLAN(t)
	certs := testCertificates(t, []string{"robot.local"}, lan.addresses, lan.now)
	first := certs.fingerprint("robot.local:1")
	for i := range 3 * maxCertificates {
		address := fmt.Sprintf("10.0.0.%d", i)
		lan.set(address)
		if cert, err := certs.of(address); err != nil || cert.Leaf.VerifyHostname(address) != nil {
			t.Fatal(address, err)
		}
	}
	if n := len(certs.issued); n > maxCertificates {
		t.Errorf("%d certificates, want at most %d", n, maxCertificates)
	}
	if certs.fingerprint("robot.local:1") != first {
		t.Error("the name lost its certificate")
	}
}

const inNamespace = "OPTIBFM_TEST_NAMESPACE"

// The network namespace of the test has no address at first.
func TestServer_WaitsForItsAddressInANamespace(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			t.Skipf("no namespaces here: %v", err)
		}
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	lo, err := netlink.LinkByName("lo")
	fatal.If(t, err)
	fatal.If(t, netlink.LinkSetUp(lo))
	lan := newLAN(t)
	s := lan.open(lan.sockets(), func(c *Config) { c.Listen = "192.168.7.5:0" })
	<-lan.pauses
	expectReports(t, lan.reported(),
		"warn: no console: listen tcp 192.168.7.5:0: bind: cannot assign requested address")
	at, err := netlink.ParseAddr("192.168.7.5/32")
	fatal.If(t, err)
	fatal.If(t, netlink.AddrAdd(lo, at))
	lan.retries <- time.Time{}
	expectReports(t, []string{<-lan.reports}, "info: the console is at https://192.168.7.5")
	conn, err := tls.Dial("tcp", s.bound.Load().addr.String(), &tls.Config{InsecureSkipVerify: true})
	fatal.If(t, err)
	cert := conn.ConnectionState().PeerCertificates[0]
	err = cert.VerifyHostname("192.168.7.5")
	if err != nil || authority.Fingerprint(cert.Raw) != s.Pairing().Fingerprint {
		t.Error(err)
	}
	_ = conn.Close()
	fatal.If(t, netlink.AddrDel(lo, at))
	lan.look()
	expectReports(t, lan.reported(), "warn: the console is no longer at https://192.168.7.5")
}
