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
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"optibfm/internal/regular"
)

// certificateLife is the validity of a self-signed certificate. Some phones
// refuse more than 398 days.
const certificateLife = 90 * 24 * time.Hour

// openTLS returns the TLS configuration, nil for plain HTTP, and the fingerprint
// of a self-signed certificate.
func openTLS(cfg Config) (_ *tls.Config, fingerprint string, err error) {
	if !cfg.encrypted() {
		return nil, "", nil
	}
	var cert tls.Certificate
	if cfg.TLS == TLSFiles {
		if cert, err = readPair(cfg.CertFile, cfg.KeyFile); err != nil {
			return nil, "", fmt.Errorf("web: tls: %w; use PEM files, or choose self_signed", err)
		}
	} else {
		if cert, err = selfSigned(cfg.Hosts, time.Now()); err != nil {
			return nil, "", fmt.Errorf("web: tls: %w", err)
		}
		fingerprint = fingerprintOf(cert.Certificate[0])
	}
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}, fingerprint, nil
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

// selfSigned makes a certificate for this machine. Its key stays in memory.
func selfSigned(hosts []string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
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
	for _, ip := range addresses() {
		template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
	}
	template.DNSNames = slices.DeleteFunc(template.DNSNames, func(name string) bool { return !isASCII(name) })
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
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
