package web

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"optibfm/rewardsrc"
)

const (
	writeWait   = 2 * time.Second  // for a browser to take a message
	silenceWait = 10 * time.Second // for a browser to answer the clock

	clockBurst      = 8 // exchanges at the start, in quick succession
	clockBurstEvery = 40 * time.Millisecond
	clockEvery      = 2 * time.Second

	// What one browser may send.
	messagesPerSecond, messageBurst = 40, 80
	pressesPerSecond, pressBurst    = 15, 20
)

// client is a connected browser. Its reader is the goroutine of the HTTP
// request; a second goroutine, the writer, sends.
type client struct {
	server    *Server
	transport transport // from enter on; the server's mutex guards it
	session   *session
	number    uint64
	origin    string

	newest  atomic.Pointer[[]byte] // the unsent state
	fresh   chan struct{}          // newest is set; capacity 1
	replies chan []byte            // for this browser alone
	finish  chan struct{}          // closed when the run is over

	clockMu  sync.Mutex
	clock    clock
	answered int64 // when the browser last answered

	reading   sync.Mutex // guards the rest
	messages  *rate.Limiter
	presses   *rate.Limiter
	pressedAt map[string]float64 // by kind, the browser's ms
}

// hello is the first message to a browser.
type hello struct {
	Type         string  `json:"type"` // "hello"
	Protocol     int     `json:"protocol"`
	Conn         uint64  `json:"conn"`
	Device       string  `json:"device"`
	Role         string  `json:"role"`
	WatchOnly    bool    `json:"watch_only"`
	Mode         Mode    `json:"mode"`
	Good         Number  `json:"good"`
	Bad          Number  `json:"bad"`
	RefractoryMS Number  `json:"refractory_ms"`
	SampleMS     Number  `json:"sample_ms"`
	CanStop      bool    `json:"can_stop"`
	Pictures     bool    `json:"pictures"` // at /frames
	Tasks        bool    `json:"tasks"`    // can be changed
	About        About   `json:"about"`
	History      []point `json:"history"`
}

// reply is a message to one browser: a refused press, an invitation, a notice.
type reply struct {
	Type     string `json:"type"` // "refused", "invite", "tasks" or "notice"
	Press    uint64 `json:"press,omitempty"`
	Text     string `json:"text,omitempty"`
	URL      string `json:"url,omitempty"`
	QR       string `json:"qr,omitempty"` // the path of an SVG
	QRSize   int    `json:"qr_size,omitempty"`
	Role     string `json:"role,omitempty"`
	ExpiresS Number `json:"expires_s,omitempty"`

	Kind  string      `json:"kind,omitempty"`  // of the task message
	Error string      `json:"error,omitempty"` // why it had no effect
	Tasks []SavedTask `json:"tasks,omitempty"` // that are saved
}

// clockMessage asks for the browser's time, and reports the present estimate.
type clockMessage struct {
	Type    string `json:"type"` // "clock"
	ID      uint64 `json:"id"`
	RTTMS   Number `json:"rtt_ms"`
	BoundMS Number `json:"bound_ms"` // on the error of the offset
	Known   bool   `json:"known"`
}

// serveClient exchanges messages with a browser until either leaves.
func (s *Server) serveClient(
	w http.ResponseWriter, r *http.Request, device *session, connect func() (transport, error),
) {
	c := &client{
		server: s, session: device, origin: s.scheme() + "://" + r.Host,
		fresh: make(chan struct{}, 1), replies: make(chan []byte, 16), finish: make(chan struct{}),
		answered:  s.now(),
		messages:  rate.NewLimiter(messagesPerSecond, messageBurst),
		presses:   rate.NewLimiter(pressesPerSecond, pressBurst),
		pressedAt: map[string]float64{},
	}
	if !s.admit(c) {
		http.Error(w, "too many browsers are connected", http.StatusServiceUnavailable)
		return
	}
	defer s.dismiss(c)
	carrier, err := connect()
	if err != nil {
		return
	}
	first := s.enter(c, carrier)
	ctx, cancel := context.WithCancel(s.over)
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		c.write(ctx, first)
	}()
	carrier.read(ctx, c.receive)
	cancel()
	<-done
}

// admit registers a browser, unless there are too many.
func (s *Server) admit(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.clients) >= maxClients {
		return false
	}
	s.numbered++
	c.number = s.numbered
	s.clients[c] = struct{}{}
	s.serving.Add(1)
	return true
}

// enter gives an admitted browser its transport and its role, and returns its first message.
func (s *Server) enter(c *client, carrier transport) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.transport = carrier
	if !s.cfg.WatchOnly {
		s.seat.enter(c)
		s.noteSeat()
	}
	wake(s.changed)
	return marshal(hello{
		Type: "hello", Protocol: 1, Conn: c.number, Device: c.session.name, Role: c.session.role,
		WatchOnly: s.cfg.WatchOnly, Mode: s.opts.Mode, Good: Number(s.cfg.GoodValue), Bad: Number(s.cfg.BadValue),
		RefractoryMS: Number(s.cfg.RefractoryMS), SampleMS: Number(s.cfg.SampleMS),
		CanStop: s.opts.Stop != nil, Pictures: s.opts.Pictures != nil,
		Tasks: s.opts.Tasks != nil && !s.cfg.WatchOnly, About: s.opts.About, History: s.history.points,
	})
}

func (s *Server) dismiss(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
	s.seat.leave(c, s.connection(c.session) != nil, s.now())
	s.noteSeat()
	wake(s.changed)
	s.serving.Done()
}

// connection returns the newest connection of a device, or nil. The caller holds
// the mutex.
func (s *Server) connection(d *session) (newest *client) {
	for c := range s.clients {
		if c.session == d && (newest == nil || c.number > newest.number) {
			newest = c
		}
	}
	return newest
}

// marshal encodes data that always has a JSON form.
func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data; Number encodes every float
	}
	return text
}

// write sends until the connection ends. It drops a browser that does not accept
// a message in time; the browser may reconnect.
func (c *client) write(ctx context.Context, first []byte) {
	if c.transport.send(ctx, first) != nil {
		return
	}
	exchange := time.NewTimer(0)
	defer exchange.Stop()
	for exchanges := uint64(0); ; {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-c.finish:
			c.sayGoodbye(ctx)
			return
		case text := <-c.replies:
			err = c.transport.send(ctx, text)
		case <-c.fresh:
			if text := c.newest.Swap(nil); text != nil {
				err = c.transport.send(ctx, *text)
			}
		case <-exchange.C:
			exchanges++
			if err = c.askClock(ctx, exchanges); exchanges < clockBurst {
				exchange.Reset(clockBurstEvery)
			} else {
				exchange.Reset(clockEvery)
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *client) sayGoodbye(ctx context.Context) {
	if text := c.newest.Swap(nil); text != nil && c.transport.send(ctx, *text) != nil {
		return
	}
	c.transport.goodbye()
}

// askClock begins a clock exchange, which also tests whether the browser is
// still there.
func (c *client) askClock(ctx context.Context, id uint64) error {
	now := c.server.now()
	c.clockMu.Lock()
	best, known := c.clock.best(now)
	silent := now - c.answered
	c.clock.begin(id, now)
	c.clockMu.Unlock()
	if silent > int64(silenceWait) {
		return context.DeadlineExceeded
	}
	return c.transport.send(ctx, marshal(clockMessage{
		Type: "clock", ID: id, Known: known, RTTMS: millis(2 * best.bound), BoundMS: millis(best.boundAt(now)),
	}))
}

// receive handles a message, or returns the reason why the connection must end.
func (c *client) receive(data []byte) (refused string) {
	c.reading.Lock()
	defer c.reading.Unlock()
	now := c.server.now()
	if !c.messages.Allow() {
		return "too many messages"
	}
	m, err := parseMessage(data)
	if err != nil {
		return "malformed message"
	}
	if now >= c.session.expires {
		return "the session has expired"
	}
	c.handle(m, now)
	return ""
}

func (c *client) handle(m message, now int64) {
	switch m.Type {
	case typeClock:
		c.clockMu.Lock()
		c.clock.finish(m.ID, browserNS(m.At), now)
		c.answered = now
		c.clockMu.Unlock()
	case typeStop:
		c.server.stop(c.session.name)
	case typePress:
		if reason := c.press(m, now); reason != "" {
			c.reply(reply{Type: "refused", Press: m.ID, Text: reason})
		}
	case typeInvite:
		c.reply(c.server.invite(c, m.Role))
	case typeTask:
		if reason := c.task(m); reason != "" {
			c.reply(reply{Type: "tasks", Kind: m.Kind, Error: reason})
		}
	default:
		if reason := c.server.reseat(c, m.Type); reason != "" {
			c.reply(reply{Type: "notice", Text: reason})
		}
	}
}

// reply sends a message to this browser alone. It drops the message when the
// browser does not read.
func (c *client) reply(r reply) {
	select {
	case c.replies <- marshal(r):
	default:
	}
}

// press queues a press, or returns the reason why it does not count.
func (c *client) press(m message, now int64) (refused string) {
	s := c.server
	p := press{Input: s.inputOf(m), id: m.ID}
	if p.Kind.Answers() {
		p.request = m.Request
	}
	switch {
	case s.cfg.WatchOnly:
		return "this console only watches"
	case !s.seated(c):
		return "another device labels"
	case s.published.Load().ended.Why != "":
		return "the run is over"
	case p.Kind == rewardsrc.Value && !(p.Value >= s.cfg.BadValue && p.Value <= s.cfg.GoodValue):
		return "the value is out of range"
	case !c.presses.Allow():
		return "too many presses at once"
	}
	at, uncertainty := c.moment(m, now)
	if err := rewardsrc.CheckTime(at-uncertainty, 0, now); err != nil {
		return err.Error()
	}
	if p.Mode != rewardsrc.Held && c.bounced(m) {
		return "pressed twice: it counts once"
	}
	p.At, p.uncertainty = min(at, now), uncertainty
	p.late = now-p.At > int64(s.cfg.MaxLateS*1e9)
	p.tooQuick = p.request != 0 && m.At-m.Shown < s.cfg.ReactionMS
	if !s.offer(p) {
		return "too many presses wait: press again in a moment"
	}
	return ""
}

// inputOf returns the meaning of a press message; the caller sets the time.
func (s *Server) inputOf(m message) rewardsrc.Input {
	switch m.Kind {
	case kindGood:
		return rewardsrc.Input{Kind: rewardsrc.Value, Value: s.cfg.GoodValue}
	case kindBad:
		return rewardsrc.Input{Kind: rewardsrc.Value, Value: s.cfg.BadValue}
	case kindValue:
		in := rewardsrc.Input{Kind: rewardsrc.Value, Value: m.Value}
		if s.opts.Mode == Continuous {
			in.Mode = rewardsrc.Held
		}
		return in
	case kindBetter:
		return rewardsrc.Better(s.cfg.GoodValue, s.cfg.BadValue)
	case kindWorse:
		return rewardsrc.Worse(s.cfg.GoodValue, s.cfg.BadValue)
	case kindGoal:
		return rewardsrc.AtGoal(s.cfg.GoodValue, s.cfg.BadValue)
	case kindCantTell:
		return rewardsrc.Input{Kind: rewardsrc.CantTell}
	case kindKeep:
		return rewardsrc.Input{Kind: rewardsrc.Keep}
	}
	return rewardsrc.Input{Kind: rewardsrc.Undo}
}

// bounced records a press of a button, and reports whether it came within the
// refractory time of the last one, by the browser's clock.
func (c *client) bounced(m message) bool {
	before, ok := c.pressedAt[m.Kind]
	c.pressedAt[m.Kind] = m.At
	return ok && math.Abs(m.At-before) < c.server.cfg.RefractoryMS
}

// moment returns the time of a press in the robot's time and the bound on its
// error. Without a clock it is the time of arrival.
func (c *client) moment(m message, now int64) (at, uncertainty int64) {
	c.clockMu.Lock()
	defer c.clockMu.Unlock()
	at, bound, known := c.clock.robotTime(browserNS(m.At), now)
	if !known {
		return now, 0
	}
	return at, bound + int64(timerStep)
}

// seated reports whether this browser is the one that labels.
func (s *Server) seated(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seat.client == c
}

// Reachable implements [rewardsrc.Reachable]: the device that labels is
// connected.
func (s *Server) Reachable() bool { return s.taken.Load() }

// noteSeat publishes a change of the seat. The caller holds the mutex.
func (s *Server) noteSeat() { s.taken.Store(s.seat.client != nil) }

// reseat hands over the seat, which is the right to label.
func (s *Server) reseat(c *client, wish string) (refused string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer wake(s.changed)
	defer s.noteSeat()
	switch {
	case s.cfg.WatchOnly:
		return "this console only watches"
	case wish == typeTake:
		return s.seat.take(c, s.now())
	case s.seat.client != c:
		return "this device does not label"
	case s.seat.asking == nil:
		return ""
	case wish == typeGive:
		s.seat.give(s.connection(s.seat.asking), s.now())
	default:
		s.seat.asking = nil
	}
	return ""
}

// invite creates a pairing code for another device.
func (s *Server) invite(c *client, role string) reply {
	if c.session.role != roleLabel {
		return reply{Type: "notice", Text: "this device was invited to watch: it cannot invite"}
	}
	s.mu.Lock()
	token, err := s.register.issue(role, s.now(), inviteLife)
	s.mu.Unlock()
	if err != nil {
		return reply{Type: "notice", Text: err.Error()}
	}
	url := c.origin + "/#" + token
	path, size := "", 0
	if !s.Pairing().Local {
		path, size = qrPath(url)
	}
	return reply{Type: "invite", URL: url, QR: path, QRSize: size, Role: role, ExpiresS: Number(inviteLife.Seconds())}
}
