package web

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"optibfm/internal/decimal"
	"optibfm/internal/keys"
	"optibfm/rewardsrc"
)

// Mode selects the presses that count. The empty one is Sparse.
type Mode string

// The modes.
const (
	// PerRequest shows buttons only while a request is open. The label intake refuses other
	// presses.
	PerRequest Mode = "per_request"
	// Sparse accepts labels at any time: an unasked one is about the moments
	// before the press.
	Sparse Mode = "sparse"
	// Continuous has a slider that gives a label every sample_ms while it is
	// held.
	Continuous Mode = "continuous"
)

// The values of Config.TLS.
const (
	TLSAuto       = "auto"        // off on a loopback address, self_signed on others
	TLSOff        = "off"         // plain HTTP: anyone who reads the network can take the session over
	TLSSelfSigned = "self_signed" // certificates of the robot's own authority; the terminal shows fingerprints
	TLSFiles      = "files"       // cert_file and key_file
)

// TLSChoices lists the values of Config.TLS.
func TLSChoices() []string { return []string{TLSAuto, TLSOff, TLSSelfSigned, TLSFiles} }

// Choices lists the values of a key that has choices.
func (Config) Choices(key string) []string { return map[string][]string{"tls": TLSChoices()}[key] }

// Config describes the web console. Start from [DefaultConfig].
type Config struct {
	// Listen is the address and port that are listened on. The default is
	// this machine only; 0.0.0.0:8642 is every network that it is in. A run
	// waits for an address that the machine does not have yet.
	Listen string `yaml:"listen"`
	// Hosts are further names by which browsers may call this machine, such
	// as robot.local, with a port if it is not that of listen. A proxy on
	// this machine that encrypts may have these names. The
	// addresses of the machine itself need not be named. The first one other
	// than HOSTNAME.local is in the QR code, or else an address.
	Hosts []string `yaml:"hosts,flow"`
	// TLS is auto, off, self_signed or files. self_signed uses certificates
	// of the robot's own authority, which a device can trust (optibfm console
	// certificate). auto is off if only this machine is listened to, and
	// self_signed otherwise.
	TLS string `yaml:"tls"`
	// CertFile is a PEM file with the certificate and its chain, for tls: files.
	CertFile string `yaml:"cert_file"`
	// KeyFile is a PEM file with the private key, for tls: files.
	KeyFile string `yaml:"key_file"`
	// Announce publishes a console on the network by multicast DNS
	// (_optibfm._tcp), if avahi-daemon runs.
	Announce bool `yaml:"announce"`
	// WatchOnly serves the live view and STOP, without labels, beside
	// another operator.source.
	WatchOnly bool `yaml:"watch_only"`
	// GoodValue is the reward of "good" and of the slider's upper end, in [-1000, 1000].
	GoodValue float64 `yaml:"good_value" rule:"[-1000, 1000]"`
	// BadValue is the reward of "bad" and of the slider's lower end, in
	// [-1000, 1000]. Less than good_value.
	BadValue float64 `yaml:"bad_value" rule:"[-1000, 1000]"`
	// SampleMS is the time between two labels of a slider that is held, in [100, 10000] ms.
	SampleMS float64 `yaml:"sample_ms" rule:"[100, 10000]"`
	// RefractoryMS is the time in which presses of the same button count as
	// one, in [0, 5000] ms.
	RefractoryMS float64 `yaml:"refractory_ms" rule:"[0, 5000]"`
	// ReactionMS is how soon after a request was shown a press can be its
	// answer, in [0, 2000] ms.
	ReactionMS float64 `yaml:"reaction_ms" rule:"[0, 2000]"`
	// MaxLateS is the largest delay of an unasked press, in [0.1, 60] seconds; a
	// later one is refused.
	MaxLateS float64 `yaml:"max_late_s" rule:"[0.1, 60]"`
}

// DefaultConfig listens to this machine only: good 1, bad -1, at any time.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8642", Hosts: []string{}, TLS: TLSAuto, Announce: true,
		GoodValue: 1,
		SampleMS:  500, RefractoryMS: 250, ReactionMS: 150, MaxLateS: 3,
	}
}

// Validate returns an error that names each key with an invalid value.
func (c Config) Validate() error {
	errs := []error{
		keys.Check("web", c), rewardsrc.CheckButtons("web", c.GoodValue, c.BadValue),
		c.checkListen(), c.checkTLS(),
	}
	for _, host := range c.Hosts {
		if host == "" || strings.ContainsAny(host, "/@ *?#") {
			errs = append(errs, fmt.Errorf("web: hosts: invalid name %q; give names such as robot.local:8443", host))
		} else if !isASCII(host) {
			errs = append(errs, fmt.Errorf("web: hosts: %q is not ASCII; give the form that browsers send (xn--...), "+
				"or the address", host))
		}
	}
	return errors.Join(errs...)
}

func (c Config) checkListen() error {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("web: listen is not an address (%q); use one such as 127.0.0.1:8642", c.Listen)
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
		return fmt.Errorf("web: listen is not an IP address (%q); use one such as 127.0.0.1, 0.0.0.0 or [::]", host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > 65535 || decimal.Check(port) != nil {
		return fmt.Errorf("web: listen has no port (%q); use 1 to 65535, or 0 for a free one", port)
	}
	return nil
}

func (c Config) checkTLS() error {
	if c.TLS == TLSFiles && (c.CertFile == "" || c.KeyFile == "") {
		return errors.New("web: tls is files, but cert_file or key_file is empty; set both, or choose self_signed")
	}
	return nil
}

// OnNetwork returns the configuration with which the devices of this network reach the console: at
// all addresses of this machine and at its multicast DNS name, encrypted. It keeps an address of a
// network, a port and tls: files.
func (c Config) OnNetwork() Config {
	if c.local() {
		_, port, _ := net.SplitHostPort(c.Listen)
		c.Listen = net.JoinHostPort(netip.IPv4Unspecified().String(), port)
	}
	if c.TLS == TLSOff {
		c.TLS = TLSAuto
	}
	if own := ownName(); own != "" && !slices.Contains(c.Hosts, own) {
		c.Hosts = append(slices.Clone(c.Hosts), own)
	}
	return c
}

// address returns the address on which the server listens, without a lookup of localhost: DNS may
// be absent.
func (c Config) address() string {
	if port, ok := strings.CutPrefix(c.Listen, "localhost:"); ok {
		return "127.0.0.1:" + port
	}
	return c.Listen
}

// Certified returns the contents of certificates besides the addresses of this machine: its names,
// those in hosts and the address in listen. The first is the most telling one.
func (c Config) Certified() (list []string) {
	add := func(host string) {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if host = strings.Trim(host, "[]"); host != "" && !slices.Contains(list, host) {
			list = append(list, host)
		}
	}
	name, _ := os.Hostname()
	for _, host := range append([]string{name, ownName(), "localhost"}, c.Hosts...) {
		add(host)
	}
	host, _, _ := net.SplitHostPort(c.Listen)
	if addr, err := netip.ParseAddr(host); err == nil && !addr.IsUnspecified() {
		add(host)
	}
	return list
}

// local reports whether only this machine can reach the listener.
func (c Config) local() bool {
	host, _, _ := net.SplitHostPort(c.Listen)
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// encrypted reports whether connections are to be encrypted.
func (c Config) encrypted() bool {
	return c.TLS == TLSSelfSigned || c.TLS == TLSFiles || c.TLS == TLSAuto && !c.local()
}

// isASCII reports whether browsers send a name as it is. They use the form xn--... of others.
func isASCII(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf })
}
