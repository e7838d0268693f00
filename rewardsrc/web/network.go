package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/announce"
	"optibfm/internal/authority"
)

const (
	firstPause   = time.Second // between attempts to listen; it doubles
	longestPause = 10 * time.Second
	lookEvery    = 5 * time.Second // at the addresses of this machine
	maxOffered   = 64              // places that the server remembers
	maxLabel     = 63              // bytes of a name in DNS
)

// network is the network of this machine. Tests replace it.
type network struct {
	listen    func(address string) (net.Listener, error)
	addresses func() []netip.Addr // of all interfaces
	after     func(time.Duration) <-chan time.Time
	now       func() time.Time // of certificates
	publish   publisher        // may be nil
}

// publisher is an [announce.Publisher].
type publisher interface {
	Update(context.Context, announce.Service) (host string, err error)
	Close()
}

func localNetwork() network {
	return network{
		listen:    func(address string) (net.Listener, error) { return net.Listen("tcp", address) },
		addresses: addresses, after: time.After, now: time.Now, publish: new(announce.Publisher),
	}
}

// bound describes the listener.
type bound struct {
	addr  *net.TCPAddr
	named map[string]bool // names and name:port that the configuration allows
}

// listen opens the listener and publishes its addresses.
func (s *Server) listen() (net.Listener, error) {
	var config *tls.Config
	var err error
	switch {
	case s.certs != nil:
		config = s.certs.config()
	case s.encrypted:
		config, err = fileTLS(s.cfg)
	}
	if err != nil {
		return nil, err
	}
	l, err := s.network.listen(s.cfg.address())
	if err != nil {
		return nil, err
	}
	addr := l.Addr().(*net.TCPAddr)
	s.bound.Store(&bound{addr, allowed(s.cfg.Hosts, fmt.Sprint(addr.Port))})
	s.look()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l, nil
}

// serve accepts connections until Halt. It opens the listener again after a failure, such as the
// one in err.
func (s *Server) serve(l net.Listener, err error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if err == nil {
			pause = firstPause
			if err = s.http.Serve(l); errors.Is(err, http.ErrServerClosed) {
				return
			}
			s.bound.Store(nil)
			s.look()
		}
		s.reportFailure(err)
		select {
		case <-s.network.after(pause):
		case <-s.quit:
			return
		}
		l, err = s.listen()
	}
}

// reportFailure reports the reason why the server does not listen, each cause once.
func (s *Server) reportFailure(err error) {
	text := fmt.Sprintf("no console: %v; %s. The run continues and tries again", err, listenFix(err))
	s.inviting.Lock()
	defer s.inviting.Unlock()
	if text != s.failure {
		s.failure = text
		s.opts.Report(Warn, text)
	}
}

// listenFix returns the fix of a failure to listen.
func listenFix(err error) string {
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return "it opens when this computer has the address (`ip address` lists the current ones)"
	case errors.Is(err, unix.EADDRINUSE):
		return "end the program that uses it (`ss -ltnp`), or choose another operator.web.listen"
	case errors.Is(err, unix.EACCES):
		return "choose a port above 1023 in operator.web.listen"
	}
	return "`optibfm doctor` checks operator.web"
}

// watchAddresses reports addresses that appear and vanish, until Halt.
func (s *Server) watchAddresses() {
	for {
		select {
		case <-s.network.after(lookEvery):
			s.publish()
			s.look()
		case <-s.quit:
			if s.network.publish != nil {
				s.network.publish.Close()
			}
			return
		}
	}
}

// publish announces the console in the network while it listens, and notes the name of this machine
// there.
func (s *Server) publish() {
	b := s.bound.Load()
	if !s.cfg.Announce || s.network.publish == nil {
		return
	}
	if b == nil {
		s.network.publish.Close()
		return
	}
	machine, _ := os.Hostname()
	name := s.opts.About.Robot + " on " + machine
	host, err := s.network.publish.Update(s.over, announce.Service{
		Name: strings.ToValidUTF8(name[:min(len(name), maxLabel)], ""), Type: "_optibfm._tcp",
		Port: uint16(b.addr.Port), Text: []string{"scheme=" + s.scheme()},
	})
	text := ""
	if err != nil {
		text = fmt.Sprintf("the console is not announced by multicast DNS: %v; install avahi-daemon, "+
			"or set operator.web.announce to false", err)
	}
	s.inviting.Lock()
	defer s.inviting.Unlock()
	s.announced.Store(&host)
	if text != "" && text != s.unannounced {
		s.opts.Report(Info, text)
	}
	s.unannounced = text
}

// announcedName returns the name of this machine in the local network with the port of the console,
// "" for none.
func (s *Server) announcedName(b *bound) string {
	host := s.announced.Load()
	if host == nil || *host == "" {
		return ""
	}
	return net.JoinHostPort(*host, fmt.Sprint(b.addr.Port))
}

// Place is an address of the console.
type Place struct {
	// URL opens the console.
	URL string
	// Fingerprint is the SHA-256 of the certificate of the robot's authority
	// there, as browsers show it; otherwise empty.
	Fingerprint string
	// Unnamed means that the authority may not certify this address.
	Unnamed bool
}

// invitation is the announced address of the server.
type invitation struct {
	token   string  // the lasting code
	places  []Place // of the console, without the code
	offered []Place // with the present code
	failure string  // to listen, since the server listened

	unannounced string // why multicast DNS does not have the console
}

// look reports changes of the console's addresses and announces new ones.
func (s *Server) look() {
	s.inviting.Lock()
	defer s.inviting.Unlock()
	was, is := s.places, s.findPlaces()
	if slices.Equal(was, is) {
		return
	}
	s.places = is
	before := s.Pairing()
	changed := s.failure != "" || before.Number > 0 // the first announcement needs no report
	s.announce()
	if len(is) > 0 {
		s.failure = ""
	}
	if changed {
		if before.NoNetwork {
			was = nil // loopback, which still works
		}
		s.reportPlaces(was, is)
	}
}

func (s *Server) reportPlaces(was, is []Place) {
	for _, p := range is {
		if slices.Contains(was, p) {
			continue
		}
		text := "the console is at " + p.URL
		if p.Fingerprint != "" {
			text += ", with the certificate " + p.Fingerprint
		}
		s.opts.Report(Info, text)
	}
	for _, p := range was {
		if !slices.ContainsFunc(is, func(q Place) bool { return q.URL == p.URL }) {
			s.opts.Report(Warn, "the console is no longer at "+p.URL)
		}
	}
}

// findPlaces returns the addresses at which browsers find the console, the preferred place first.
func (s *Server) findPlaces() (list []Place) {
	b := s.bound.Load()
	if b == nil {
		return nil
	}
	all := names(s.cfg, b.addr, s.network.addresses())
	if name := s.announcedName(b); name != "" && !slices.Contains(all, name) {
		all = append(all, name)
	}
	for _, name := range all {
		list = append(list, Place{s.cfg.urlOf(name), s.certs.fingerprint(name), !s.certs.covers(name)})
	}
	return list
}

// announce publishes the pairing. Its number changes with the code and with places that were not
// offered with it.
func (s *Server) announce() {
	isNew := func(p Place) bool { return !slices.Contains(s.offered, p) }
	p := Pairing{Number: s.Pairing().Number}
	if slices.ContainsFunc(s.places, isNew) {
		p.Number++
		s.offered = slices.DeleteFunc(s.offered, func(p Place) bool { return slices.Contains(s.places, p) })
		s.offered = append(s.offered, s.places...)
		if excess := len(s.offered) - maxOffered; excess > 0 {
			s.offered = slices.Delete(s.offered, 0, excess)
		}
	}
	if b := s.bound.Load(); b != nil {
		p.NoNetwork = b.addr.IP.IsUnspecified() && reached(b.addr, s.network.addresses())[0].IsLoopback()
	}
	if s.certs != nil {
		p.Root = authority.Fingerprint(s.certs.authority.Root().Raw)
	}
	p.Exposed = !s.encrypted && !s.cfg.local()
	p.Local = p.NoNetwork || s.cfg.local() && len(s.cfg.Hosts) == 0 // else a proxy has those names
	for i, place := range s.places {
		place.URL += "/#" + s.token
		if i == 0 {
			p.Place = place
		} else {
			p.Others = append(p.Others, place)
		}
	}
	s.pairing.Store(&p)
}
