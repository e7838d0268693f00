package web

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/internal/authority"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// insecure is a browser whose user accepted the warning.
func insecure(t testing.TB) *http.Client {
	t.Helper()
	carrier := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(carrier.CloseIdleConnections)
	return &http.Client{Transport: carrier}
}

func get(t testing.TB, client *http.Client, host, url string) (body []byte, kind string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	fatal.If(t, err)
	r.Host = host
	answer, err := client.Do(r)
	fatal.If(t, err)
	defer answer.Body.Close()
	if body, err = io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, answer.Status, err)
	}
	return body, answer.Header.Get("Content-Type")
}

// A device that installed the root from the page reaches the console at each name and address
// without a warning.
func TestServer_RootFromThePageIsTrustedAtEachAddress(t *testing.T) {
	lan := newLAN(t, "127.0.0.1", "192.168.7.5", "fd00::5")
	s := lan.open(lan.network(), func(c *Config) { c.Listen, c.Hosts = "[::]:8642", []string{"robot.local"} })
	p := s.Pairing()
	browser, at := insecure(t), "https://"+lan.arriveAt("127.0.0.1")
	der, kind := get(t, browser, "robot.local", at+rootPath)
	if kind != "application/x-x509-ca-cert" || authority.Fingerprint(der) != p.Root ||
		!strings.Contains(p.Text(), p.Root) {
		t.Errorf("root of type %s with %s, shown %s", kind, authority.Fingerprint(der), p.Root)
	}
	root, err := x509.ParseCertificate(der)
	fatal.If(t, err)
	body, _ := get(t, browser, "robot.local", at+"/trust")
	var shown struct{ Name, Fingerprint string }
	err = json.Unmarshal(body, &shown)
	if err != nil || shown.Fingerprint != p.Root || shown.Name != root.Subject.CommonName {
		t.Errorf("page: %s, %v; want %s", body, err, p.Root)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(root)
	for _, host := range []string{"robot.local", "localhost", "127.0.0.1", "192.168.7.5", "fd00::5"} {
		errtest.Nil(t, lan.verify(host, trusted), host)
	}
	for _, host := range []string{"evil.example", "10.9.9.9", "8.8.8.8"} {
		errtest.NotNil(t, lan.verify(host, trusted), host, ": trusted")
	}
	lan.set("127.0.0.1", "192.168.7.5", "10.9.9.9")
	errtest.Nil(t, lan.verify("10.9.9.9", trusted), "a new address")
}

func TestServer_NamesPublicAddressesThatItsAuthorityCannot(t *testing.T) {
	lan := newLAN(t, "127.0.0.1", "203.0.113.5", "192.168.7.5")
	s := lan.open(lan.network(), func(c *Config) { c.Listen = "0.0.0.0:8642" })
	text := s.Pairing().Text()
	if !strings.Contains(text, "cannot name https://203.0.113.5:8642:") || strings.Contains(text, "name https://192.168") {
		t.Error(text)
	}
	for range 2 * maxCertificates { // each connection gets the certificate of the others
		if cert := lan.dial("203.0.113.5"); cert.VerifyHostname("203.0.113.5") == nil {
			t.Error("a public address in a certificate")
		}
	}
	if n := len(s.certs.issued); n != 1 {
		t.Errorf("%d certificates, want 1", n)
	}
}

func TestServer_KeepsItsAuthorityBetweenRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "authority.pem")
	var reports []string
	root := func() string {
		s := open(t, func(c *Config, o *Options) {
			c.TLS, o.Authority = TLSSelfSigned, file
			o.Report = func(_ Level, text string) { reports = append(reports, text) }
		})
		defer s.Halt()
		return s.Pairing().Root
	}
	first := root()
	if first == "" || root() != first || len(reports) > 0 {
		t.Errorf("root %s, then another one; reports %q", first, reports)
	}
	if err := os.Chmod(file, 0o644); err != nil { // others may have read the key
		t.Fatal(err)
	}
	if other := root(); other == first || other == "" {
		t.Errorf("an authority that others could read: %s", other)
	}
	wanted := func(text string) bool {
		return strings.Contains(text, "0644") && strings.Contains(text, "optibfm console certificate --renew")
	}
	if !slices.ContainsFunc(reports, wanted) {
		t.Errorf("reports %q", reports)
	}
}

func TestServer_HasNoRootWithoutAnAuthority(t *testing.T) {
	s := open(t, nil)
	for _, path := range []string{rootPath, "/trust"} {
		answer, err := http.Get(base(s) + path)
		fatal.If(t, err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	if p := s.Pairing(); p.Root != "" || strings.Contains(p.Text(), "SHA-256") {
		t.Error(p.Text())
	}
}
