package web

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"optibfm/rewardsrc"
)

const (
	maxClients = 128                    // browsers that are connected at a time
	maxConns   = 256                    // connections without a WebSocket
	patience   = 300 * time.Millisecond // for browsers, at the end
)

// Options configures a server, besides its configuration file.
type Options struct {
	About  About
	Period time.Duration // of the robot: requests expire at a tick
	Mode   Mode

	// Stop halts the robot; by names the device whose STOP was pressed. A
	// goroutine of the server calls it for every press. It must not block.
	// first reports the first press since the start or since a reset of the
	// robot. nil: the page has no STOP.
	Stop func(by string, first bool)

	// Authority is the file of the robot's certificate authority. The server
	// makes it where there is none. Empty: each run makes another.
	Authority string

	// Pictures of the robot; nil: none.
	Pictures Pictures

	// Tasks of the robot; nil: the page cannot change the task.
	Tasks Tasks

	// Report receives changes of the addresses at which browsers find the
	// console, and why there are none. A goroutine of the server calls it, and
	// Open does. It must not block. nil: no reports.
	Report func(level Level, text string)

	// Now is the clock of labels; nil means CLOCK_MONOTONIC.
	Now func() int64
}

// Server is a [rewardsrc.Source], [rewardsrc.Acknowledger] and
// [rewardsrc.Reachable] for browsers. One goroutine calls the methods of those
// interfaces, Show, Note and Settle. None of them waits for a browser, and their
// work does not depend on the number of browsers.
type Server struct {
	*desk
	cfg  Config
	opts Options

	network   network
	certs     *certificates // of the robot's authority; may be nil
	http      *http.Server
	bound     atomic.Pointer[bound]  // nil: not listening
	announced atomic.Pointer[string] // this machine's name by multicast DNS
	encrypted bool
	visitors  visitors
	opening   atomic.Int64 // connections without a WebSocket
	watching  atomic.Int64 // connections that receive frames
	pairing   atomic.Pointer[Pairing]
	stopped   atomic.Pointer[string] // who pressed STOP
	halted    bool                   // by the newest view; the run's goroutine
	taken     atomic.Bool            // the seat, by a browser that is connected
	changing  sync.Mutex             // held during a call of opts.Tasks
	inviting  sync.Mutex             // guards invitation
	invitation

	mu       sync.Mutex
	register register
	seat     seat
	clients  map[*client]struct{}
	numbered uint64 // clients so far
	history  history
	closing  bool

	quit    chan struct{} // ends the broadcaster
	drained chan struct{} // the final state is published
	over    context.Context
	cancel  context.CancelFunc
	serving sync.WaitGroup
	halt    sync.Once
}

var (
	_ rewardsrc.Source       = (*Server)(nil)
	_ rewardsrc.Acknowledger = (*Server)(nil)
	_ rewardsrc.Reachable    = (*Server)(nil)
)

//go:embed static
var static embed.FS

// Open serves until Halt. Without the address in cfg.Listen, or where its port is
// in use, the server reports the cause and tries again until it listens. An invalid
// configuration is an error.
func Open(cfg Config, opts Options) (*Server, error) {
	return openOn(localNetwork(), cfg, opts)
}

func openOn(network network, cfg Config, opts Options) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = rewardsrc.Monotonic
	}
	opts.Mode = cmp.Or(opts.Mode, Sparse)
	if opts.Report == nil {
		opts.Report = func(Level, string) {}
	}
	s := &Server{
		desk: newDesk(opts.Mode, opts.Period, opts.Now), cfg: cfg, opts: opts,
		network: network, encrypted: cfg.encrypted(), clients: map[*client]struct{}{},
		quit: make(chan struct{}), drained: make(chan struct{}),
	}
	s.pairing.Store(&Pairing{})
	if s.encrypted && cfg.TLS != TLSFiles {
		hosts := cfg.Certified()
		robot, err := s.openAuthority(hosts)
		if err == nil {
			s.certs, err = newCertificates(robot, hosts, network.addresses, network.now)
		}
		if err != nil {
			return nil, fmt.Errorf("web: tls: %w", err)
		}
	}
	s.over, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{
		Protocols:         new(http.Protocols), // a WebSocket needs HTTP/1
		Handler:           s.routes(),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10,
		ErrorLog:    log.New(io.Discard, "", 0), // keep foreign input out of the robot's output
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { shrink(c); return ctx },
		ConnState:   s.countConn,
	}
	s.http.Protocols.SetHTTP1(true)
	s.renewPairing()
	first, err := s.listen()
	if !cfg.local() {
		s.publish()
		s.look()
		s.serving.Go(s.watchAddresses)
	}
	s.serving.Go(func() { s.serve(first, err) })
	go s.broadcast()
	return s, nil
}

// shrink limits the kernel's send buffer, whose content would be old when a slow
// browser reads it.
func shrink(c net.Conn) {
	if outer, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = outer.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(32 << 10) // best effort
	}
}

// countConn closes excess connections. WebSockets have their own limit.
func (s *Server) countConn(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.opening.Add(1) > maxConns {
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.opening.Add(-1)
	}
}

// Pairing returns the invitation for the next device, without a URL before the
// server listens. Its Number changes when a device has used it, and with its
// addresses.
func (s *Server) Pairing() Pairing { return *s.pairing.Load() }

// renewPairing issues a new lasting code.
func (s *Server) renewPairing() {
	s.mu.Lock()
	token, err := s.register.issue(roleLabel, s.now(), 0)
	s.mu.Unlock()
	if err != nil { // unreachable: the register has room for the lasting code
		return
	}
	s.inviting.Lock()
	defer s.inviting.Unlock()
	s.token, s.offered = token, nil
	s.announce()
}

func (s *Server) scheme() string {
	if s.encrypted {
		return "https"
	}
	return "http"
}

// End shows the browsers that the run is over. Halt must follow.
func (s *Server) End(e Ending) { s.end(e) }

// Halt shows the browsers that the run is over and closes everything. It is
// idempotent and takes a bounded time.
func (s *Server) Halt() error {
	s.halt.Do(func() {
		if s.snapshot.ended.Why == "" {
			s.end(Ending{Why: "the run is over"})
		}
		close(s.quit)
		<-s.drained
		s.mu.Lock()
		s.closing = true
		for c := range s.clients {
			close(c.finish)
		}
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(s.over, patience)
		defer cancel()
		context.AfterFunc(ctx, s.cancel)
		_ = s.http.Shutdown(ctx) // event streams end with the final state
		_ = s.http.Close()       // closes all but the WebSockets
		s.serving.Wait()
		s.cancel()
	})
	return nil
}

// routes returns the handler of all paths.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for path, file := range map[string]struct{ name, kind string }{
		"GET /{$}":           {"index.html", "text/html; charset=utf-8"},
		"GET /console.css":   {"console.css", "text/css; charset=utf-8"},
		"GET /console.js":    {"console.js", "text/javascript; charset=utf-8"},
		"GET /charts.js":     {"charts.js", "text/javascript; charset=utf-8"},
		"GET /link.js":       {"link.js", "text/javascript; charset=utf-8"},
		"GET /film.js":       {"film.js", "text/javascript; charset=utf-8"},
		"GET /tasks.js":      {"tasks.js", "text/javascript; charset=utf-8"},
		"GET /icon.svg":      {"icon.svg", "image/svg+xml"},
		"GET /manifest.json": {"manifest.json", "application/manifest+json"},
	} {
		body, err := static.ReadFile("static/" + file.name)
		if err != nil {
			panic(err) // embedded
		}
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.kind)
			_, _ = w.Write(body)
		})
	}
	if s.certs != nil {
		mux.HandleFunc("GET "+rootPath, s.serveRoot)
		mux.HandleFunc("GET /trust", s.serveTrust)
	}
	mux.HandleFunc("GET /socket", s.forPaired(s.serveSocket))
	mux.HandleFunc("POST /stream", s.forPaired(s.serveStream))
	mux.HandleFunc("POST /message", s.forPaired(s.serveMessage))
	if s.opts.Pictures != nil {
		mux.HandleFunc("GET /frames", s.forPaired(s.serveFrameSocket))
		mux.HandleFunc("POST /frames", s.forPaired(s.serveFrameStream))
	}
	mux.HandleFunc("POST /pair", s.sameOrigin(s.servePair))
	mux.HandleFunc("POST /session", s.forPaired(s.serveSession))
	mux.HandleFunc("POST /stop", s.forPaired(s.serveStop))
	return s.guard(mux)
}

// servePair exchanges a code for a session.
func (s *Server) servePair(w http.ResponseWriter, r *http.Request) {
	if !s.visitors.mayPair(r) {
		http.Error(w, "too many codes were tried: wait a few seconds", http.StatusTooManyRequests)
		return
	}
	var body struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 256)).Decode(&body); err != nil {
		http.Error(w, "no code was sent", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	cookie, lasting, err := s.register.pair(body.Token, s.now())
	s.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if lasting {
		s.renewPairing()
	}
	secure := s.encrypted || strings.HasPrefix(r.Header.Get("Origin"), "https:") // a proxy encrypts
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(), Value: cookie, Path: "/", MaxAge: int(sessionLife / time.Second),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	})
	w.WriteHeader(http.StatusNoContent)
}

// cookieName has the __Host- prefix if the browser allows it: other hosts cannot
// set such a cookie.
func (s *Server) cookieName() string {
	if s.encrypted {
		return "__Host-optibfm"
	}
	return "optibfm"
}

// forPaired admits the requests of paired devices from the console's own page.
func (s *Server) forPaired(next func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return s.sameOrigin(func(w http.ResponseWriter, r *http.Request) {
		device := s.paired(r)
		if device == nil {
			http.Error(w, "this device is not paired", http.StatusUnauthorized)
			return
		}
		next(w, r, device)
	})
}

// paired returns the session of a request, nil for an unpaired device.
func (s *Server) paired(r *http.Request) *session {
	cookie, err := r.Cookie(s.cookieName())
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.register.find(cookie.Value, s.now())
}

// serveSession reports whether the device is paired: a page does not see the
// status of a refused WebSocket.
func (s *Server) serveSession(w http.ResponseWriter, _ *http.Request, _ *session) {
	w.WriteHeader(http.StatusNoContent)
}

// serveStop is the second path of the STOP button, for a connection that hangs.
func (s *Server) serveStop(w http.ResponseWriter, _ *http.Request, device *session) {
	s.stop(device.name)
	w.WriteHeader(http.StatusNoContent)
}

// Show gives the browsers a new view. One goroutine calls it. When the robot is no
// longer halted, Show clears the stop of the console.
func (s *Server) Show(v View) {
	halted := v.Fault != ""
	if s.halted && !halted {
		s.stopped.Store(nil)
	}
	s.halted = halted
	s.desk.Show(v)
}

// stop halts the robot. The page shows the device that pressed first.
func (s *Server) stop(by string) {
	if s.opts.Stop == nil {
		return
	}
	s.opts.Stop(by, s.stopped.CompareAndSwap(nil, &by))
	wake(s.changed)
}
