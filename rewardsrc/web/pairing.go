package web

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"rsc.io/qr"
)

// Pairing is the invitation for the first device.
type Pairing struct {
	// Place is the preferred one, empty while the console does not listen. Its
	// URL pairs one device. The part after the # is the secret; the browser does
	// not send it, only the page does.
	Place
	// Others are the same with other addresses of this machine.
	Others []Place
	// Root is the SHA-256 of the root certificate of the robot's authority,
	// empty without one.
	Root string
	// Exposed means that the connection is readable on the network.
	Exposed bool
	// Local means that only a browser of this computer can open the URL.
	Local bool
	// NoNetwork means that this computer has no address on a network yet.
	NoNetwork bool
	// Number counts the invitations: a used code is replaced, and a new address
	// is added.
	Number uint64
}

// QR returns the URL as a QR code of half-block characters, for light text on a
// dark background.
func (p Pairing) QR() string {
	code, err := qr.Encode(p.URL, qr.L)
	if err != nil || p.URL == "" {
		return "" // too long for a QR code: Text still shows the URL
	}
	const quiet = 2 // modules around it
	black := func(x, y int) bool {
		return x >= 0 && y >= 0 && x < code.Size && y < code.Size && code.Black(x, y)
	}
	var b strings.Builder
	for y := -quiet; y < code.Size+quiet; y += 2 {
		for x := -quiet; x < code.Size+quiet; x++ {
			b.WriteString(halfBlock(black(x, y), black(x, y+1)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func halfBlock(upperBlack, lowerBlack bool) string {
	switch {
	case upperBlack && lowerBlack:
		return " "
	case upperBlack:
		return "▄"
	case lowerBlack:
		return "▀"
	}
	return "█"
}

// qrPath draws a QR code as the path of an SVG, one unit a module, and returns
// the number of modules on a side.
func qrPath(text string) (path string, size int) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", 0
	}
	var b strings.Builder
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x, y)
			}
		}
	}
	return b.String(), code.Size
}

const (
	whiteOnBlack = "\x1b[97;40m"
	asBefore     = "\x1b[0m"
)

// ColouredQR returns the QR code with its colours set, so that it is also readable on a
// light background.
func (p Pairing) ColouredQR() string {
	var b strings.Builder
	for row := range strings.Lines(p.QR()) {
		b.WriteString(whiteOnBlack + strings.TrimSuffix(row, "\n") + asBefore + "\n")
	}
	return b.String()
}

// Text returns the URL and the warnings.
func (p Pairing) Text() string {
	var b strings.Builder
	switch {
	case p.URL == "":
		return "The console does not listen.\n"
	case p.NoNetwork:
		b.WriteString("This computer has no network yet. The console shows new addresses when they appear;\n" +
			"until then open this on this computer (it works once):\n")
	case p.Local:
		b.WriteString("Open this on this computer only (it works once; --lan admits other devices):\n")
	default:
		b.WriteString("Open this on the device that labels (it works once):\n")
	}
	fmt.Fprintf(&b, "  %s\n", p.URL)
	for _, other := range p.Others {
		fmt.Fprintf(&b, "  %s\n", other.URL)
	}
	b.WriteString(p.trustText())
	if p.Exposed {
		b.WriteString("warning: operator.web.tls is off: anyone who reads this network can take over the console\n")
	}
	b.WriteString("The console is NOT the emergency stop.\n")
	return b.String()
}

// trustText returns the text that a person compares before a browser or a phone trusts the console.
func (p Pairing) trustText() string {
	var b strings.Builder
	if p.Fingerprint != "" {
		b.WriteString("A browser that does not trust this robot warns. Continue only if its certificate has the SHA-256\n")
		fmt.Fprintf(&b, "  %s\n", p.Fingerprint)
	}
	for _, other := range p.Others {
		if other.Fingerprint != p.Fingerprint {
			url, _, _ := strings.Cut(other.URL, "/#")
			fmt.Fprintf(&b, "or, at %s,\n  %s\n", url, other.Fingerprint)
		}
	}
	if p.Root != "" {
		b.WriteString("The page offers the root certificate, which ends the warning. Trust it only if it has the SHA-256\n")
		fmt.Fprintf(&b, "  %s\n", p.Root)
	}
	for _, place := range append([]Place{p.Place}, p.Others...) {
		if place.Unnamed {
			url, _, _ := strings.Cut(place.URL, "/#")
			fmt.Fprintf(&b, "The certificate cannot name %s: add it to operator.web.hosts, then run, with the\n"+
				"--config and --set of this run,\n  optibfm console certificate --renew\n", url)
		}
	}
	return b.String()
}

// Addresses returns the addresses at which browsers find a console that listens at bound, the
// preferred one first.
func Addresses(cfg Config, bound net.Addr) (list []string) {
	tcp, ok := bound.(*net.TCPAddr)
	if !ok {
		return nil
	}
	for _, name := range names(cfg, tcp, addresses()) {
		list = append(list, cfg.urlOf(name))
	}
	return list
}

// urlOf returns the URL of the console at host:port. A proxy encrypts at port 443.
func (c Config) urlOf(name string) string {
	if outer, ok := strings.CutSuffix(name, ":443"); ok {
		return "https://" + outer
	}
	if c.encrypted() {
		return "https://" + name
	}
	return "http://" + name
}

// names returns the host:port names of this machine, which has the addresses local, the preferred
// one first. They are the configured hosts, then the addresses: phones may lack multicast DNS, so
// this machine's own name there is last.
func names(cfg Config, bound *net.TCPAddr, local []netip.Addr) (list []string) {
	port := fmt.Sprint(bound.Port)
	own := ownName()
	for _, host := range cfg.Hosts {
		if host != own {
			list = append(list, withPort(host, port))
		}
	}
	for _, ip := range reached(bound, local) {
		if name := net.JoinHostPort(ip.String(), port); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	if slices.Contains(cfg.Hosts, own) {
		list = append(list, withPort(own, port))
	}
	return list
}

// reached returns the addresses of this machine at which a listener is reached.
func reached(bound *net.TCPAddr, local []netip.Addr) []netip.Addr {
	at := bound.AddrPort().Addr().Unmap()
	if !at.IsUnspecified() {
		if !at.IsLoopback() && !slices.Contains(local, at.WithZone("")) {
			return nil
		}
		return []netip.Addr{at}
	}
	list := global(local)
	if at.Is4() { // 0.0.0.0 is IPv4 alone
		list = slices.DeleteFunc(list, netip.Addr.Is6)
	}
	if len(list) == 0 {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return list
}

// ownName returns the multicast DNS name of this machine, "" if its name has another domain.
func ownName() string {
	name, err := os.Hostname()
	if err != nil || strings.Contains(name, ".") || !isASCII(name) {
		return ""
	}
	return name + ".local"
}

// withPort adds a port to a host that has none.
func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// addresses returns the addresses of the interfaces of this machine.
func addresses() (list []netip.Addr) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range found {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, prefix.Addr().Unmap())
		}
	}
	return list
}

// global returns the addresses that other computers reach: that of the default route first, then
// IPv4, IPv6, and the link-local ones of IPv4, of a direct cable. Link-local ones of IPv6 do not
// work in browsers.
func global(local []netip.Addr) []netip.Addr {
	var four, six, cable []netip.Addr
	for _, ip := range local {
		switch {
		case ip.IsGlobalUnicast() && ip.Is4():
			four = append(four, ip)
		case ip.IsGlobalUnicast():
			six = append(six, ip)
		case ip.IsLinkLocalUnicast() && ip.Is4():
			cable = append(cable, ip)
		}
	}
	all := slices.Concat(four, six, cable)
	if i := slices.Index(all, routed()); i > 0 {
		first := all[i]
		all = slices.Insert(slices.Delete(all, i, i+1), 0, first)
	}
	return all
}

// routed returns the address of this machine on its default route, the zero Addr without one. It
// sends nothing.
func routed() netip.Addr {
	c, err := net.Dial("udp4", "192.0.2.1:9") // TEST-NET-1
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}
