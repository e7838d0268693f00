package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"optibfm/internal/authority"
	"optibfm/internal/safefile"
)

// rootPath is where the page has the root certificate. Phones take its last part as the name of a
// file.
const rootPath = "/optibfm-robot.crt"

// maxCertificates is the number of certificates that a run keeps.
const maxCertificates = 16

// certificates are the certificates of a run, of the robot's authority. They have one key. An
// address that appears while the console runs gets a new one, because a browser that does not trust
// the authority trusts the fingerprint of a certificate: with the old one for the old addresses, no
// such browser loses its page.
type certificates struct {
	authority *authority.Authority
	key       *ecdsa.PrivateKey
	hosts     []string // names, and addresses that the machine may lack
	local     func() []netip.Addr
	now       func() time.Time

	mu     sync.Mutex
	issued []*tls.Certificate // the oldest first
}

func newCertificates(
	a *authority.Authority, hosts []string, local func() []netip.Addr, now func() time.Time,
) (*certificates, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return &certificates{authority: a, key: key, hosts: hosts, local: local, now: now}, err
}

// openAuthority returns the authority of a file, or one for this run alone.
func (s *Server) openAuthority(hosts []string) (*authority.Authority, error) {
	now := s.network.now()
	if s.opts.Authority == "" {
		return authority.New(hosts, now)
	}
	a, err := authority.Open(s.opts.Authority, hosts, now)
	if err == nil {
		return a, nil
	}
	s.opts.Report(Warn, fmt.Sprintf("web: the robot's certificate authority: %v; devices must trust another one in each "+
		"run until `optibfm console certificate --renew`, with the same --config and --set, makes a new one", err))
	return authority.New(hosts, now)
}

// config returns the TLS configuration. A connection gets the certificate of the name that the
// browser requests, or of the address at which it arrives.
func (c *certificates) config() *tls.Config {
	config := baseTLS()
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		host := hello.ServerName
		if at, ok := hello.Conn.LocalAddr().(*net.TCPAddr); ok && host == "" {
			host = at.AddrPort().Addr().Unmap().WithZone("").String()
		}
		return c.of(host)
	}
	return config
}

func baseTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

// of returns the oldest valid certificate of a host: a name, or an address of this machine. It
// issues one for a new address of this machine, and before the others expire. Other hosts get the
// oldest.
func (c *certificates) of(host string) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.authority.Clock(c.now())
	c.issued = slices.DeleteFunc(c.issued, func(cert *tls.Certificate) bool {
		return now.Before(cert.Leaf.NotBefore) || now.After(cert.Leaf.NotAfter.Add(-authority.RenewBefore))
	})
	for _, cert := range c.issued {
		if cert.Leaf.VerifyHostname(host) == nil {
			return cert, nil
		}
	}
	addr, err := netip.ParseAddr(host)
	if len(c.issued) > 0 && (err != nil || !c.authority.Permits(host) || !slices.Contains(c.local(), addr)) {
		return c.issued[0], nil
	}
	hosts := slices.Clone(c.hosts)
	for _, addr := range c.local() {
		hosts = append(hosts, addr.String())
	}
	cert, err := c.authority.Certify(c.key, hosts, now)
	if err != nil {
		return nil, err
	}
	if len(c.issued) == maxCertificates {
		c.issued = slices.Delete(c.issued, 1, 2) // names have the first
	}
	c.issued = append(c.issued, cert)
	return cert, nil
}

// fingerprint returns the fingerprint of the certificate of a host with its port; "" without an
// authority.
func (c *certificates) fingerprint(hostPort string) string {
	if c == nil {
		return ""
	}
	host, _, _ := net.SplitHostPort(hostPort)
	cert, err := c.of(host)
	if err != nil {
		return "" // unreachable: there is randomness
	}
	return authority.Fingerprint(cert.Certificate[0])
}

// covers reports whether the certificate of a host with its port can name it; true without an
// authority.
func (c *certificates) covers(hostPort string) bool {
	host, _, _ := net.SplitHostPort(hostPort)
	return c == nil || c.authority.Permits(host)
}

// serveRoot serves the root certificate, with the type for which phones offer to install it. It is
// public.
func (s *Server) serveRoot(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-x509-ca-cert")
	_, _ = w.Write(s.certs.authority.Root().Raw)
}

// serveTrust describes the root certificate for the page.
func (s *Server) serveTrust(w http.ResponseWriter, _ *http.Request) {
	root := s.certs.authority.Root()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(marshal(struct {
		Name        string `json:"name"`
		Fingerprint string `json:"fingerprint"`
	}{root.Subject.CommonName, authority.Fingerprint(root.Raw)}))
}

// fileTLS returns the TLS configuration of cert_file and key_file.
func fileTLS(cfg Config) (*tls.Config, error) {
	cert, err := readPair(cfg.CertFile, cfg.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: %w; use PEM files that this user may read, or choose self_signed", err)
	}
	config := baseTLS()
	config.Certificates = []tls.Certificate{cert}
	return config, nil
}

// MaxPEM is the largest file of a certificate or a key, bytes.
const MaxPEM = 1 << 20

// readPair is tls.LoadX509KeyPair for regular files.
func readPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := safefile.Read(certFile, MaxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := safefile.Read(keyFile, MaxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}
