package web

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func parseAll(texts ...string) (list []netip.Addr) {
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// lan is the network of a machine whose interfaces come and go. Its listeners are on loopback and appear to be at
// the configured address; connections appear to arrive at called.
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
	machine.after = l.after
	return machine
}

func (l *lan) open(machine network, change func(*Config)) *Server {
	l.t.Helper()
	cfg := DefaultConfig()
	change(&cfg)
	s, err := openOn(machine, cfg, Options{
		Period: time.Millisecond, Report: func(level Level, text string) { l.reports <- string(level) + ": " + text },
	})
	if err != nil {
		l.t.Fatal(err)
	}
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
func (l *lan) dial(address string) *x509.Certificate {
	l.t.Helper()
	l.mu.Lock()
	l.called = net.ParseIP(address)
	to := l.last.Addr().String()
	l.mu.Unlock()
	name := address
	if l.called != nil {
		name = ""
	}
	conn, err := tls.Dial("tcp", to, &tls.Config{InsecureSkipVerify: true, ServerName: name})
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
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
	const address = "203.0.113.5"
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
		"warn: no console: listen tcp 203.0.113.5:8642: bind: cannot assign requested address")
	if p := s.Pairing(); p.URL != "" || p.Number != 0 || s.Reachable() {
		t.Errorf("without its address: %+v", p)
	}
	lan.set("127.0.0.1", address)
	lan.retries <- time.Time{}
	report := <-lan.reports
	p := s.Pairing()
	expectReports(t, []string{report},
		"info: the console is at https://203.0.113.5:8642, with the certificate "+p.Fingerprint)
	if !strings.HasPrefix(p.URL, "https://203.0.113.5:8642/#") || p.Number != 1 || p.Fingerprint == "" {
		t.Errorf("with its address: %+v", p)
	}
	cert := lan.dial(address)
	if err := cert.VerifyHostname(address); err != nil || fingerprintOf(cert.Raw) != p.Fingerprint {
		t.Error(fingerprintOf(cert.Raw), err)
	}
	lan.set("127.0.0.1")
	lan.look()
	expectReports(t, lan.reported(), "warn: the console is no longer at https://203.0.113.5:8642")
	lan.set(address)
	lan.look()
	expectReports(t, lan.reported(), "info: the console is at https://203.0.113.5:8642")
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
	lan.set("127.0.0.1", "::1", "203.0.113.5")
	lan.look()
	second := s.Pairing()
	added := at("203.0.113.5", second)
	expectReports(t, lan.reported(),
		"info: the console is at https://robot.local:8642, with the certificate "+old,
		"info: the console is at https://203.0.113.5:8642, with the certificate "+added.Fingerprint)
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
		"203.0.113.5": added.Fingerprint, "127.0.0.1": old, "robot.local": old,
		"198.51.100.9": old, // not an address of this machine
	} {
		cert := lan.dial(address)
		if got := fingerprintOf(cert.Raw); got != want {
			t.Errorf("%s: certificate %s, want %s", address, got, want)
		}
		if err := cert.VerifyHostname(address); (err == nil) != (address != "198.51.100.9") {
			t.Errorf("%s: %v", address, err)
		}
	}
	lan.set("127.0.0.1", "::1", "198.51.100.9", "203.0.113.5")
	if cert := lan.dial("198.51.100.9"); cert.VerifyHostname("198.51.100.9") != nil {
		t.Error("a browser that is faster than the look at the addresses got a certificate without its address")
	}
	before := s.Pairing().Number
	for range 3 { // it flaps
		lan.set("203.0.113.5")
		lan.look()
		lan.set("198.51.100.9", "203.0.113.5")
		lan.look()
	}
	if after := s.Pairing().Number; after != before+1 {
		t.Errorf("%d invitations for one new address, want 1", after-before)
	}
}

func TestServer_ReportsAPortInUseAndTakesItWhenItIsFree(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	lan := newLAN(t)
	s := lan.open(lan.sockets(), func(c *Config) { c.Listen = other.Addr().String() })
	<-lan.pauses
	expectReports(t, lan.reported(), "operator.web.listen")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	lan.retries <- time.Time{}
	expectReports(t, []string{<-lan.reports}, "info: the console is at http://"+other.Addr().String())
	pairWith(t, s, token(s.Pairing().URL))
}

func TestServer_WaitsForItsCertificate(t *testing.T) {
	made, err := newCertificates(nil, addresses, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := made.of("localhost")
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(made.key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	if got := conn.ConnectionState().PeerCertificates[0]; !got.Equal(cert.Leaf) {
		t.Errorf("certificate of %v", got.Subject)
	}
	_ = conn.Close()
}

func TestServer_ListensAgainAfterAFailure(t *testing.T) {
	lan := newLAN(t, "203.0.113.5")
	s := lan.open(lan.network(), func(c *Config) { c.Listen = "203.0.113.5:8642" })
	before := s.Pairing()
	if err := lan.last.Close(); err != nil {
		t.Fatal(err)
	}
	<-lan.pauses
	expectReports(t, lan.reported(), "warn: the console is no longer at https://203.0.113.5:8642", "warn: no console")
	lan.retries <- time.Time{}
	expectReports(t, []string{<-lan.reports}, "info: the console is at https://203.0.113.5:8642")
	if after := s.Pairing(); after.URL != before.URL || after.Number != before.Number {
		t.Errorf("pairing %+v, before %+v", after, before)
	}
	lan.dial("203.0.113.5")
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
	s := lan.open(lan.network(), func(c *Config) { c.Listen = "203.0.113.5:8642" })
	if err := s.Halt(); err != nil { // Halt waits for the goroutines
		t.Fatal(err)
	}
}

func TestCertificates_ReplaceExpiredOnes(t *testing.T) {
	lan := newLAN(t, "203.0.113.5")
	lan.clock = time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC) // a computer without a battery-backed clock
	certs, err := newCertificates(nil, lan.addresses, lan.now)
	if err != nil {
		t.Fatal(err)
	}
	first, same := certs.fingerprint("203.0.113.5:1"), certs.fingerprint("localhost:1")
	lan.clock = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	second, err := certs.of("203.0.113.5")
	if err != nil || first != same || fingerprintOf(second.Certificate[0]) == first ||
		second.Leaf.NotAfter.Before(lan.clock) || second.Leaf.NotBefore.After(lan.clock) {
		t.Errorf("certificates %s, %s, then %v, %v", first, same, second, err)
	}
}

func TestCertificates_AreBounded(t *testing.T) {
	lan := newLAN(t)
	certs, err := newCertificates([]string{"robot.local"}, lan.addresses, lan.now)
	if err != nil {
		t.Fatal(err)
	}
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

// The network of a namespace of its own, without an address at first.
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
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	lan := newLAN(t)
	s := lan.open(lan.sockets(), func(c *Config) { c.Listen = "203.0.113.5:0" })
	<-lan.pauses
	expectReports(t, lan.reported(),
		"warn: no console: listen tcp 203.0.113.5:0: bind: cannot assign requested address")
	at, err := netlink.ParseAddr("203.0.113.5/32")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(lo, at); err != nil {
		t.Fatal(err)
	}
	lan.retries <- time.Time{}
	expectReports(t, []string{<-lan.reports}, "info: the console is at https://203.0.113.5")
	conn, err := tls.Dial("tcp", s.bound.Load().addr.String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	cert := conn.ConnectionState().PeerCertificates[0]
	if err := cert.VerifyHostname("203.0.113.5"); err != nil || fingerprintOf(cert.Raw) != s.Pairing().Fingerprint {
		t.Error(err)
	}
	_ = conn.Close()
	if err := netlink.AddrDel(lo, at); err != nil {
		t.Fatal(err)
	}
	lan.look()
	expectReports(t, lan.reported(), "warn: the console is no longer at https://203.0.113.5")
}
