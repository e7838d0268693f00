package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

var (
	now    = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	robots = []string{"walker", "walker.local", "localhost", "203.0.113.7"}

	anything4, anything6 = netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")
)

func newAuthority(t testing.TB, at time.Time) *Authority {
	t.Helper()
	a, err := New(robots, at)
	fatal.If(t, err)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal.If(t, err)
	return key
}

// certify returns a certificate that the authority issues for hosts.
func (a *Authority) certify(t testing.TB, at time.Time, hosts ...string) *tls.Certificate {
	t.Helper()
	cert, err := a.Certify(newKey(t), hosts, at)
	fatal.If(t, err)
	return cert
}

// verify returns the reason why a device that trusts the root refuses a certificate.
func (a *Authority) verify(cert *tls.Certificate, host string, at time.Time) error {
	roots, issuers := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(a.root)
	issuers.AddCert(a.issuer)
	_, err := cert.Leaf.Verify(x509.VerifyOptions{
		DNSName: host, Roots: roots, Intermediates: issuers, CurrentTime: at,
	})
	return err
}

var (
	certified = []string{
		"walker", "walker.local", "localhost", "203.0.113.7", "192.168.1.9", "10.1.2.3", "169.254.9.9", "::1", "fd12::1",
	}
	uncertified = []string{"evil.example", "other.local", "xwalker.local", "8.8.8.8", "203.0.113.8", "2001:db8::1"}
)

func TestAuthority_CertifiesOnlyTheRobot(t *testing.T) {
	a := newAuthority(t, now)
	cert := a.certify(t, now, append(uncertified, certified...)...)
	for _, host := range certified {
		if err := a.verify(cert, host, now); err != nil || !a.Permits(host) {
			t.Errorf("%s: %v, permitted %v", host, err, a.Permits(host))
		}
	}
	for _, host := range uncertified {
		if err := a.verify(cert, host, now); err == nil || a.Permits(host) {
			t.Errorf("%s: trusted or permitted", host)
		}
	}
	if life := cert.Leaf.NotAfter.Sub(cert.Leaf.NotBefore); life > 398*day {
		t.Errorf("a certificate for %v, phones accept 398 days", life)
	}
}

// stolen uses the key of the issuer for hosts that the authority must not certify.
func (a *Authority) stolen(t testing.TB, at time.Time, host string) *tls.Certificate {
	t.Helper()
	thief := *a
	root := *a.root
	root.PermittedDNSDomains = append(root.PermittedDNSDomains, host)
	root.PermittedIPRanges = append(root.PermittedIPRanges, ipNet(anything4), ipNet(anything6))
	thief.root = &root
	return thief.certify(t, at, host)
}

func TestAuthority_StolenKeyImitatesOnlyTheRobot(t *testing.T) {
	a := newAuthority(t, now)
	for _, host := range uncertified {
		var refused x509.CertificateInvalidError
		if err := a.verify(a.stolen(t, now, host), host, now); !errors.As(err, &refused) ||
			refused.Reason != x509.CANotAuthorizedForThisName {
			t.Errorf("%s: %v, want a violation of the name constraints", host, err)
		}
	}
	// It does not make authorities.
	template := authorityTemplate([]string{"evil.example"}, now)
	key := newKey(t)
	sub, err := sign(template, a.issuer, &key.PublicKey, a.key)
	fatal.If(t, err)
	issuers := x509.NewCertPool()
	issuers.AddCert(a.issuer)
	issuers.AddCert(sub)
	roots := x509.NewCertPool()
	roots.AddCert(a.root)
	below := (&Authority{root: a.root, issuer: sub, key: key}).certify(t, now, "walker.local")
	_, err = below.Leaf.Verify(x509.VerifyOptions{
		DNSName: "walker.local", Roots: roots, Intermediates: issuers, CurrentTime: now,
	})
	errtest.NotNil(t, err, "an authority below the issuer is trusted")
}

// OpenSSL is an independent verifier.
func TestAuthority_OpenSSLAgrees(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("no openssl")
	}
	a, dir := newAuthority(t, time.Now()), t.TempDir()
	write := func(name string, der []byte) string {
		path := filepath.Join(dir, name)
		text := pem.EncodeToMemory(&pem.Block{Type: certificateType, Bytes: der})
		fatal.If(t, os.WriteFile(path, text, 0o600))
		return path
	}
	root, issuer := write("root", a.root.Raw), write("issuer", a.issuer.Raw)
	verify := func(cert *tls.Certificate, host string) (string, error) {
		by := "-verify_hostname"
		if strings.ContainsAny(host[:1], "0123456789") || strings.Contains(host, ":") {
			by = "-verify_ip"
		}
		out, err := exec.Command("openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", root,
			"-untrusted", issuer, by, host, write("leaf", cert.Certificate[0])).CombinedOutput()
		return string(out), err
	}
	cert := a.certify(t, time.Now(), certified...)
	for _, host := range certified {
		if out, err := verify(cert, host); err != nil {
			t.Errorf("%s: %s", host, out)
		}
	}
	for _, host := range uncertified {
		out, err := verify(a.stolen(t, time.Now(), host), host)
		if err == nil || !strings.Contains(out, "permitted subtree violation") {
			t.Errorf("%s: %s", host, out)
		}
	}
}

// A computer without a battery-backed clock starts in 1970.
func TestAuthority_CertificatesAreValidForPhonesDespiteAnEarlyClock(t *testing.T) {
	early := time.Unix(60, 0)
	a := newAuthority(t, early)
	cert := a.certify(t, early, "walker.local")
	for _, phone := range []time.Time{firstMoment, firstMoment.Add(300 * day)} {
		errtest.Nil(t, a.verify(cert, "walker.local", phone), "phone at ", phone)
	}
	known := newAuthority(t, now) // made with the right clock, then the robot starts without a network
	errtest.Nil(t, known.verify(known.certify(t, early, "walker.local"), "walker.local", now.Add(200*day)))
	if got := known.Clock(early); !got.Equal(now) {
		t.Errorf("clock %v, want %v", got, now)
	}
}

func TestOpen_MakesOneAuthority(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "authority.pem")
	var made [8]*Authority
	var wait sync.WaitGroup
	for i := range made {
		wait.Go(func() {
			var err error
			if made[i], err = Open(path, robots, now); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	for _, a := range made {
		if a == nil || !a.root.Equal(made[0].root) || !a.key.Equal(made[0].key) {
			t.Fatal("two authorities")
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("files %v, %v", left, err)
	}
	renewed, err := Renew(path, robots, now)
	if err != nil || renewed.root.Equal(made[0].root) {
		t.Fatal(err)
	}
	if again, err := Load(path); err != nil || !again.root.Equal(renewed.root) || !again.key.Equal(renewed.key) {
		t.Error(err)
	}
	fatal.If(t, Remove(path))
	errtest.Is(t, errtest.Of(Load(path)), fs.ErrNotExist)
}

func TestLoad_RefusesDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "authority.pem"), filepath.Join(dir, "other.pem")
	for _, file := range []string{path, other} {
		fatal.If(t, errtest.Of(Open(file, robots, now)))
	}
	whole, err := os.ReadFile(path)
	fatal.If(t, err)
	strange, err := os.ReadFile(other)
	fatal.If(t, err)
	key := strings.Index(string(whole), "-----BEGIN PRIVATE")
	strangeKey := strings.Index(string(strange), "-----BEGIN PRIVATE")
	flipped := append([]byte{}, whole...)
	flipped[len(flipped)/2] ^= 1
	for name, data := range map[string][]byte{
		"empty": {}, "cut": whole[:len(whole)-40], "without a key": whole[:key], "one bit": flipped,
		"the key of another":    append(append([]byte{}, whole[:key]...), strange[strangeKey:]...),
		"the issuer of another": append(append([]byte{}, whole[:len(whole)/2]...), strange[len(strange)/2:]...),
		"two":                   append(append([]byte{}, whole...), whole...),
		"too large":             append(append([]byte{}, whole...), make([]byte, maxFile)...),
		"text":                  []byte("not PEM"),
	} {
		fatal.If(t, os.WriteFile(path, data, 0o600))
		errtest.Is(t, errtest.Of(Load(path)), ErrDamaged, name)
		errtest.Is(t, errtest.Of(Open(path, robots, now)), ErrDamaged, name, ": opened")
		if after, err := os.ReadFile(path); err != nil || string(after) != string(data) {
			t.Errorf("%s: the file was replaced", name)
		}
	}
}

func TestLoad_RefusesFilesOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "authority.pem")
	fatal.If(t, errtest.Of(Open(path, robots, now)))
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620} {
		fatal.If(t, os.Chmod(path, mode))
		errtest.NotNil(t, errtest.Of(Load(path)), "mode ", mode, " is accepted")
	}
	fatal.If(t, os.Chmod(path, 0o600))
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	fatal.If(t, os.Chown(path, 65534, -1))
	errtest.Contains(t, errtest.Of(Load(path)), "65534", "the file of another user")
}

func TestNew_LeavesOutWhatIsNoName(t *testing.T) {
	a, err := New([]string{"röbot", "a..b", "", "walker.local", strings.Repeat("x", 64)}, now)
	fatal.If(t, err)
	if got := a.root.PermittedDNSDomains; len(got) != 1 || got[0] != "walker.local" {
		t.Errorf("names %q", got)
	}
}
