package web

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"
)

// guard limits requests, refuses unknown Host headers, and sets the headers that
// isolate the page.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.visitors.mayAsk(r) {
			http.Error(w, "too many requests: wait a few seconds", http.StatusTooManyRequests)
			return
		}
		if !s.hostAllowed(r) {
			http.Error(w, "unknown host name: use the address of the robot, or add the name to operator.web.hosts",
				http.StatusMisdirectedRequest)
			return
		}
		setHeaders(w.Header(), r.Host)
		next.ServeHTTP(w, r)
	})
}

// setHeaders forbids the page to load foreign content, and other pages to embed
// or read it.
func setHeaders(h http.Header, host string) {
	h.Set("Content-Security-Policy", "default-src 'none'; "+
		"script-src 'self'; style-src 'self'; img-src 'self'; manifest-src 'self'; "+
		"connect-src 'self' ws://"+host+" wss://"+host+"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cache-Control", "no-store")
}

// hostAllowed reports whether the Host header names this machine. Otherwise a
// foreign page could reach the console by DNS rebinding. Many proxies send the name
// without its port.
func (s *Server) hostAllowed(r *http.Request) bool {
	b := s.bound.Load()
	if b == nil {
		return false // a connection of a listener that failed
	}
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = strings.Trim(r.Host, "[]"), "80"
		if s.encrypted {
			port = "443"
		}
		if b.named[lower(host)] {
			return true
		}
	}
	if full := lower(net.JoinHostPort(host, port)); b.named[full] || full == lower(s.announcedName(b)) {
		return true
	}
	local, ok := listenerOf(r)
	if !ok {
		return false
	}
	called, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
	if err == nil {
		return called.Port() == local.Port() && called.Addr().Unmap() == local.Addr().Unmap().WithZone("")
	}
	return lower(host) == "localhost" && port == strconv.Itoa(int(local.Port())) && local.Addr().Unmap().IsLoopback()
}

// listenerOf returns the address of this machine at which a request arrived.
func listenerOf(r *http.Request) (netip.AddrPort, bool) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	return local.AddrPort(), true
}

// allowed returns the configured names, with their own port, or else with that of the listener and
// those of a proxy.
func allowed(hosts []string, port string) map[string]bool {
	named := map[string]bool{}
	for _, host := range hosts {
		name, _, err := net.SplitHostPort(host)
		if err != nil {
			name = strings.Trim(host, "[]")
			named[lower(net.JoinHostPort(name, "80"))] = true
			named[lower(net.JoinHostPort(name, "443"))] = true
		}
		named[lower(name)] = true
		named[lower(withPort(host, port))] = true
	}
	return named
}

func lower(host string) string { return strings.ToLower(host) }

// acceptAll is for handlers within sameOrigin, which has checked the origin.
var acceptAll = &websocket.AcceptOptions{InsecureSkipVerify: true}

// sameOrigin refuses requests of other pages, and requests without an origin.
func (s *Server) sameOrigin(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != s.scheme()+"://"+r.Host && !s.byProxy(r, origin) {
			http.Error(w, "only the console's own page may do that; add the name of a proxy to operator.web.hosts",
				http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// byProxy reports whether a request comes from the console's page through a proxy that encrypts.
// The origin is then a configured name, and the request has the same name or was sent by this
// machine: another page on a port of the same name cannot pass for the console.
func (s *Server) byProxy(r *http.Request, origin string) bool {
	host, encrypted := strings.CutPrefix(lower(origin), "https://")
	b := s.bound.Load()
	if s.encrypted || !encrypted || b == nil || !b.named[withPort(host, "443")] {
		return false
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	called := lower(r.Host)
	local, ok := listenerOf(r)
	return strings.Trim(called, "[]") == name || withPort(called, "443") == withPort(host, "443") ||
		ok && local.Addr().Unmap().IsLoopback()
}

// The limits on one address. 100 browsers behind one are within them.
const (
	asksPerSecond, askBurst   = 50, 400
	pairsPerSecond, pairBurst = 1, 10
	maxVisitors               = 512
)

// visitors limits what one address may do. The zero value is ready to use.
type visitors struct {
	mu     sync.Mutex
	limits map[netip.Addr]*visitor
}

type visitor struct{ asks, pairs *rate.Limiter }

func (v *visitors) of(r *http.Request) *visitor {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() { // a household has many
		prefix, _ := addr.Prefix(64)
		addr = prefix.Addr()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.limits[addr]
	if known == nil {
		if v.limits == nil || len(v.limits) >= maxVisitors {
			v.limits = map[netip.Addr]*visitor{}
		}
		known = &visitor{rate.NewLimiter(asksPerSecond, askBurst), rate.NewLimiter(pairsPerSecond, pairBurst)}
		v.limits[addr] = known
	}
	return known
}

func (v *visitors) mayAsk(r *http.Request) bool  { return v.of(r).asks.Allow() }
func (v *visitors) mayPair(r *http.Request) bool { return v.of(r).pairs.Allow() }
