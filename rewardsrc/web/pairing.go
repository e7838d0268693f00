package web

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"rsc.io/qr"
)

// Pairing is the invitation for the first device.
type Pairing struct {
	// URL opens the console and pairs one device. The part after the # is the
	// secret; the browser does not send it, only the page does.
	URL string
	// Others are the same with other addresses of this machine.
	Others []string
	// Fingerprint is the SHA-256 of a self-signed certificate, as browsers
	// show it; otherwise empty.
	Fingerprint string
	// Exposed means that the connection is readable on the network.
	Exposed bool
	// Local means that only a browser of this computer can open the URL.
	Local bool
	// Number counts the codes: a used code is replaced.
	Number uint64
}

// QR returns the URL as a QR code of half-block characters, for light text on a
// dark background.
func (p Pairing) QR() string {
	code, err := qr.Encode(p.URL, qr.L)
	if err != nil {
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
	if p.Local {
		fmt.Fprintf(&b, "Open this on this computer only (it works once; --lan admits other devices):\n  %s\n", p.URL)
	} else {
		fmt.Fprintf(&b, "Open this on the device that labels (it works once):\n  %s\n", p.URL)
	}
	for _, other := range p.Others {
		fmt.Fprintf(&b, "  %s\n", other)
	}
	if p.Fingerprint != "" {
		b.WriteString("The browser warns of this certificate. Continue only if it shows the SHA-256 fingerprint\n")
		fmt.Fprintf(&b, "  %s\n", p.Fingerprint)
	}
	if p.Exposed {
		b.WriteString("warning: operator.web.tls is off: anyone who reads this network can take over the console\n")
	}
	b.WriteString("The console is NOT the emergency stop.\n")
	return b.String()
}

// Addresses returns the addresses at which browsers find a console that listens at bound, the preferred one first.
func Addresses(cfg Config, bound net.Addr) (list []string) {
	scheme := "http://"
	if cfg.encrypted() {
		scheme = "https://"
	}
	for _, name := range names(cfg, bound) {
		if outer, ok := strings.CutSuffix(name, ":443"); ok {
			list = append(list, "https://"+outer)
			continue
		}
		list = append(list, scheme+name)
	}
	return list
}

// names returns the host:port names of this machine, the preferred one first.
func names(cfg Config, bound net.Addr) (list []string) {
	tcp, ok := bound.(*net.TCPAddr)
	if !ok {
		return nil
	}
	port := fmt.Sprint(tcp.Port)
	for _, host := range cfg.Hosts {
		list = append(list, withPort(host, port))
	}
	if !tcp.IP.IsUnspecified() {
		return append(list, net.JoinHostPort(tcp.IP.String(), port))
	}
	for _, ip := range addresses() {
		if ip.Is6() && tcp.IP.To4() != nil {
			continue // 0.0.0.0 is IPv4 alone
		}
		if name := net.JoinHostPort(ip.String(), port); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// withPort adds a port to a host that has none.
func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// addresses returns the global addresses of this machine, that of its default route first, or loopback.
func addresses() []netip.Addr {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	var four, six []netip.Addr
	for _, a := range found {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if ip := prefix.Addr().Unmap(); ip.Is4() {
			four = append(four, ip)
		} else {
			six = append(six, ip)
		}
	}
	all := append(four, six...)
	if i := slices.Index(all, routed()); i > 0 {
		first := all[i]
		all = slices.Insert(slices.Delete(all, i, i+1), 0, first)
	}
	if len(all) > 0 {
		return all
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
}

// routed returns the address of this machine on its default route, the zero Addr without one. It sends nothing.
func routed() netip.Addr {
	c, err := net.Dial("udp4", "192.0.2.1:9") // TEST-NET-1
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}
