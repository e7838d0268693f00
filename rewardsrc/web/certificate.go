package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"optibfm/internal/regular"
)

// certificateLife is the validity of a self-signed certificate. Some phones
// refuse more than 398 days.
const certificateLife = 90 * 24 * time.Hour

// maxCertificates is the number of self-signed certificates that a run keeps.
const maxCertificates = 16

// certificates are the self-signed certificates of a run. They have one key. An address that appears while the
// console runs gets a new one, because a browser trusts the fingerprint of a certificate: with the old one for the
// old addresses, no browser that trusts it loses its page.
type certificates struct {
	key   *ecdsa.PrivateKey
	hosts []string // configured
	local func() []netip.Addr
	now   func() time.Time

	mu     sync.Mutex
	issued []*tls.Certificate // the oldest first
}

func newCertificates(hosts []string, local func() []netip.Addr, now func() time.Time) (*certificates, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return &certificates{key: key, hosts: hosts, local: local, now: now}, err
}

// config returns the TLS configuration. A connection gets the certificate of the name that the browser requests, or
// of the address at which it arrives.
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

// of returns the oldest valid certificate of a host: a name, or an address of this machine. It issues one for a new
// address of this machine, and when the others have expired: a computer without a battery-backed clock gets the time
// with the network. Other hosts get the oldest.
func (c *certificates) of(host string) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.issued = slices.DeleteFunc(c.issued, func(cert *tls.Certificate) bool {
		return now.Before(cert.Leaf.NotBefore) || now.After(cert.Leaf.NotAfter)
	})
	for _, cert := range c.issued {
		if cert.Leaf.VerifyHostname(host) == nil {
			return cert, nil
		}
	}
	addr, err := netip.ParseAddr(host)
	if len(c.issued) > 0 && (err != nil || !slices.Contains(c.local(), addr)) {
		return c.issued[0], nil
	}
	cert, err := selfSigned(c.key, c.hosts, c.local(), now)
	if err != nil {
		return nil, err
	}
	if len(c.issued) == maxCertificates {
		c.issued = slices.Delete(c.issued, 1, 2) // names have the first
	}
	c.issued = append(c.issued, cert)
	return cert, nil
}

// fingerprint returns the fingerprint of the certificate of a host with its port; "" without self-signed ones.
func (c *certificates) fingerprint(hostPort string) string {
	if c == nil {
		return ""
	}
	host, _, _ := net.SplitHostPort(hostPort)
	cert, err := c.of(host)
	if err != nil {
		return "" // unreachable: there is randomness
	}
	return fingerprintOf(cert.Certificate[0])
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
	cert, err := regular.Read(certFile, MaxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := regular.Read(keyFile, MaxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// selfSigned makes a certificate for hosts, this machine's name and its addresses.
func selfSigned(key *ecdsa.PrivateKey, hosts []string, local []netip.Addr, now time.Time) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "optibfm console"},
		NotBefore: now.Add(-24 * time.Hour), // a robot without a battery-backed clock
		NotAfter:  now.Add(certificateLife),
		KeyUsage:  x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		template.DNSNames = append(template.DNSNames, name)
	}
	for _, host := range hosts {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	for _, ip := range local {
		template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
	}
	template.DNSNames = slices.DeleteFunc(template.DNSNames, func(name string) bool { return !isASCII(name) })
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// isASCII reports whether a name can be in a certificate. Browsers use the form xn--... of other names.
func isASCII(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf })
}

// fingerprintOf returns the SHA-256 of a certificate in the notation of browsers.
func fingerprintOf(der []byte) string {
	sum := sha256.Sum256(der)
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}
