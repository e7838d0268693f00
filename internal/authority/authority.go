package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	day = 24 * time.Hour

	// Life is the validity of a root certificate.
	Life = 20 * 365 * day
	// LeafLife is the validity of a certificate of the console. Phones refuse more than 398 days,
	// some 825.
	LeafLife = 397 * day
	// RenewBefore is the time before the end of a console's certificate from which it is replaced.
	RenewBefore = 30 * day
)

// firstMoment is earlier than each use of this package: a clock that is earlier is wrong. Computers
// without a battery-backed clock start in 1970.
var firstMoment = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// private are the addresses that an authority may certify without naming them.
var private = []string{
	"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8",
	"fc00::/7", "fe80::/10", "::1/128",
}

// Authority is a certificate authority.
type Authority struct {
	root, issuer *x509.Certificate
	key          *ecdsa.PrivateKey // of the issuer
}

// New makes an authority. hosts are the names, and the public addresses, of the robot; the first
// one is in its name.
func New(hosts []string, now time.Time) (*Authority, error) {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now = laterOf(now, firstMoment)
	template := authorityTemplate(hosts, now)
	name := "optibfm robot"
	if len(hosts) > 0 {
		name += " " + hosts[0]
	}
	// Phones list roots by name: the date and the serial number tell an old from a new one.
	template.Subject = pkix.Name{
		CommonName: fmt.Sprintf("%s %s %x", name, now.Format(time.DateOnly), template.SerialNumber.Bytes()[:2]),
	}
	template.MaxPathLen = 1
	root, err := sign(template, template, &rootKey.PublicKey, rootKey)
	if err != nil {
		return nil, err
	}
	template = authorityTemplate(hosts, now)
	template.Subject = pkix.Name{CommonName: root.Subject.CommonName + ", issuer"}
	template.MaxPathLenZero = true
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	issuer, err := sign(template, root, &key.PublicKey, rootKey)
	if err != nil {
		return nil, err
	}
	return &Authority{root: root, issuer: issuer, key: key}, nil
}

// authorityTemplate returns the common fields of root and issuer.
func authorityTemplate(hosts []string, now time.Time) *x509.Certificate {
	t := &x509.Certificate{
		SerialNumber: serial(), NotBefore: now.Add(-day), NotAfter: now.Add(Life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true,
	}
	for _, host := range hosts {
		if addr, err := netip.ParseAddr(host); err == nil {
			t.PermittedIPRanges = append(t.PermittedIPRanges, ipNet(netip.PrefixFrom(addr, addr.BitLen())))
		} else if isName(host) {
			t.PermittedDNSDomains = append(t.PermittedDNSDomains, strings.ToLower(host))
		}
	}
	for _, text := range private {
		t.PermittedIPRanges = append(t.PermittedIPRanges, ipNet(netip.MustParsePrefix(text)))
	}
	return t
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// serial returns a random serial number whose first byte is not zero.
func serial() *big.Int {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails: it ends the program
	raw[0] = raw[0]&0x7f | 0x40
	return new(big.Int).SetBytes(raw[:])
}

func sign(
	template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey,
) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// isName reports whether a name can be in a certificate. Browsers use the form xn--... of names
// that are not ASCII.
func isName(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		valid := func(r rune) bool {
			return r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		}
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool { return !valid(r) }) {
			return false
		}
	}
	return len(name) <= 253
}

// Clock returns the time by a clock that may be too early: not before the authority was made.
func (a *Authority) Clock(now time.Time) time.Time { return laterOf(now, a.root.NotBefore.Add(day)) }

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Permits reports whether the authority may certify a name or an address.
func (a *Authority) Permits(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return slices.ContainsFunc(a.root.PermittedIPRanges, func(n *net.IPNet) bool { return n.Contains(addr.AsSlice()) })
	}
	host = strings.ToLower(host)
	return isName(host) && slices.ContainsFunc(a.root.PermittedDNSDomains, func(domain string) bool {
		return host == domain || strings.HasSuffix(host, "."+domain)
	})
}

// Certify returns a certificate with its chain for those of the hosts (names and addresses) that
// the authority permits.
func (a *Authority) Certify(key *ecdsa.PrivateKey, hosts []string, now time.Time) (*tls.Certificate, error) {
	now = a.Clock(now)
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "optibfm console"},
		NotBefore: now.Add(-day), NotAfter: now.Add(LeafLife - day), // phones may be a little behind
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if !a.Permits(host) {
			continue
		}
		if addr, err := netip.ParseAddr(host); err == nil {
			template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	leaf, err := sign(template, a.issuer, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw, a.issuer.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// Root returns the root certificate.
func (a *Authority) Root() *x509.Certificate { return a.root }

// Fingerprint returns the SHA-256 of a certificate in the notation of browsers.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	parts := make([]string, len(sum))
	for i := range sum {
		parts[i] = strings.ToUpper(hex.EncodeToString(sum[i : i+1]))
	}
	return strings.Join(parts, ":")
}
