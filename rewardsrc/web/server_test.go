package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

const soon = 3 * time.Minute // a hang guard: the waits take milliseconds

func open(t testing.TB, change func(*Config, *Options)) *Server {
	t.Helper()
	cfg, opts := DefaultConfig(), Options{
		About: About{Robot: "rover", Strategy: "ucb", PeriodMS: 20, Record: true}, Period: 20 * time.Millisecond,
	}
	cfg.Listen, cfg.BadValue, cfg.RefractoryMS = "127.0.0.1:0", -1, 0
	if change != nil {
		change(&cfg, &opts)
	}
	fatal.If(t, cfg.Validate())
	s, err := Open(cfg, opts)
	fatal.If(t, err)
	t.Cleanup(func() { _ = s.Halt() })
	return s
}

// token takes the code out of an address.
func token(url string) string {
	_, code, _ := strings.Cut(url, "#")
	return code
}

func base(s *Server) string {
	url, _, _ := strings.Cut(s.Pairing().URL, "/#")
	return url
}

// post makes a request as the page does.
func post(t testing.TB, s *Server, path, body, cookie string, change func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, base(s)+path, strings.NewReader(body))
	fatal.If(t, err)
	r.Header.Set("Origin", base(s))
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultClient.Do(r)
	fatal.If(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// pairWith exchanges a code for a cookie.
func pairWith(t testing.TB, s *Server, code string) (cookie string) {
	t.Helper()
	answer := post(t, s, "/pair", `{"token":"`+code+`"}`, "", nil)
	if answer.StatusCode != http.StatusNoContent {
		t.Fatalf("pairing: %s", answer.Status)
	}
	name, _, _ := strings.Cut(answer.Header.Get("Set-Cookie"), ";")
	return name
}

// browser is the other end of a socket or an event stream.
type browser struct {
	t       testing.TB
	conn    *websocket.Conn                           // nil: an event stream
	read    func(context.Context) ([]byte, error)     // the next message
	post    func(context.Context, []byte) (err error) // a message
	leave   func()
	hello   hello
	replies chan reply
	news    chan state // the newest
	ended   chan error
	delay   atomic.Int64 // before it answers the clock, ns
	begun   time.Time    // of its clock
}

// connect opens a socket of a device.
func connect(t testing.TB, s *Server, path, cookie string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	return websocket.Dial(ctx, base(s)+path, &websocket.DialOptions{
		HTTPHeader: http.Header{"Origin": {base(s)}, "Cookie": {cookie}},
	})
}

func dial(t testing.TB, s *Server, cookie string) *browser {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	conn, answer, err := connect(t, s, "/socket", cookie)
	if err != nil {
		t.Fatalf("%v (%v)", err, answer)
	}
	conn.SetReadLimit(1 << 20)
	b := &browser{
		t: t, conn: conn, leave: func() { _ = conn.CloseNow() },
		read: func(ctx context.Context) ([]byte, error) {
			_, data, err := conn.Read(ctx)
			return data, err
		},
		post: func(ctx context.Context, data []byte) error { return conn.Write(ctx, websocket.MessageText, data) },
	}
	b.begin(ctx)
	return b
}

// begin expects hello and listens.
func (b *browser) begin(ctx context.Context) {
	b.t.Helper()
	b.t.Cleanup(b.leave)
	b.replies, b.news, b.ended = make(chan reply, 64), make(chan state, 1), make(chan error, 1)
	b.begun = time.Now().Add(-time.Hour)
	data, err := b.read(ctx)
	if err == nil {
		err = json.Unmarshal(data, &b.hello)
	}
	if err != nil || b.hello.Type != "hello" {
		b.t.Fatalf("first message %.80s, %v; want hello", data, err)
	}
	go b.listen()
}

// pairedBrowser pairs with the code that is out and connects.
func pairedBrowser(t testing.TB, s *Server) (*browser, string) {
	t.Helper()
	cookie := pairWith(t, s, token(s.Pairing().URL))
	b := dial(t, s, cookie)
	b.until("the seat", func(st state) bool { return st.Operator.Conn != 0 })
	return b, cookie
}

func (b *browser) now() float64 { return float64(time.Since(b.begun)) / 1e6 }

func (b *browser) listen() {
	for {
		data, err := b.read(context.Background())
		if err != nil {
			b.ended <- err
			return
		}
		var kind struct {
			Type string `json:"type"`
			ID   uint64 `json:"id"`
		}
		if err := json.Unmarshal(data, &kind); err != nil {
			b.ended <- err
			return
		}
		switch kind.Type {
		case "clock":
			time.Sleep(time.Duration(b.delay.Load()))
			b.write(message{Type: typeClock, ID: kind.ID, At: b.now()})
		case "state":
			var st state
			if err := json.Unmarshal(data, &st); err != nil {
				b.ended <- err
				return
			}
			select {
			case <-b.news:
			default:
			}
			b.news <- st
		default:
			var r reply
			_ = json.Unmarshal(data, &r)
			select {
			case b.replies <- r:
			default: // a flood's
			}
		}
	}
}

func (b *browser) write(m message) { b.raw(marshal(m)) }

func (b *browser) raw(data []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	_ = b.post(ctx, data) // a closed connection is seen by listen
}

func (b *browser) until(what string, ok func(state) bool) state {
	b.t.Helper()
	for deadline := time.After(soon); ; {
		select {
		case st := <-b.news:
			if ok(st) {
				return st
			}
		case err := <-b.ended:
			b.ended <- err
			select {
			case st := <-b.news:
				if ok(st) {
					return st
				}
			default:
			}
			b.t.Fatalf("waiting for %s: %v", what, err)
		case <-deadline:
			b.t.Fatalf("no state with %s came", what)
		}
	}
}

func (b *browser) reply() reply {
	b.t.Helper()
	select {
	case r := <-b.replies:
		return r
	case <-time.After(soon):
		b.t.Fatal("no reply came")
		return reply{}
	}
}

// poll waits for a label.
func poll(t testing.TB, s *Server) rewardsrc.Label {
	t.Helper()
	var one [1]rewardsrc.Label
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if s.Poll(one[:]) == 1 {
			return one[0]
		}
	}
	t.Fatal("no label came")
	return rewardsrc.Label{}
}

func TestServer_PressAnswersRequest(t *testing.T) {
	s := open(t, nil)
	b, _ := pairedBrowser(t, s)
	now := rewardsrc.Monotonic()
	s.Ask(rewardsrc.Request{ID: 7, Tick: 40, At: now - 1e8, Until: 140, DGap: 0.3, State: rewardsrc.Open})
	st := b.until("the request", func(st state) bool { return st.Request != nil })
	if r := st.Request; r.ID != 7 || r.AgeMS < 100 || r.LeftMS < 1000 || r.LeftMS > 2000 || r.DGap != 0.3 {
		t.Errorf("request %+v, want ID 7 of 100 ms ago, 1.9 s left", r)
	}
	b.write(message{Type: typePress, ID: 11, Kind: kindGood, At: b.now(), Request: 7, Shown: b.now() - 200})
	got := poll(t, s)
	if got.Request != 7 || got.Tick != 40 || got.Value != 1 || got.Kind != rewardsrc.Value {
		t.Fatalf("label %+v, want the answer to request 7", got)
	}
	got.ID = 3
	s.Acknowledge(got)
	st = b.until("the outcome", func(st state) bool { return len(st.Outcomes) > 0 })
	if o := st.Outcomes[0]; o != (outcome{Press: 11, Status: statusSaved, Label: 3}) || st.Request != nil {
		t.Errorf("outcome %+v, request %v; want press 11 saved, no request", o, st.Request)
	}
	s.Settle(3, true, "")
	b.until("counted", func(st state) bool {
		return st.Outcomes[0] == outcome{Press: 11, Status: statusCounted, Label: 3}
	})
	s.Settle(3, false, "too old")
	b.until("not counted", func(st state) bool {
		return st.Outcomes[0] == outcome{Press: 11, Status: statusRefused, Label: 3, Text: "too old"}
	})
}

func TestServer_ShowsRefusedLabelWithReason(t *testing.T) {
	s := open(t, nil)
	b, _ := pairedBrowser(t, s)
	b.write(message{Type: typePress, ID: 5, Kind: kindBad, At: b.now()})
	label := poll(t, s)
	if label.Value != -1 || label.Tick != rewardsrc.NoTick || label.Request != 0 {
		t.Fatalf("label %+v, want an unasked -1", label)
	}
	s.Refuse(label, errors.New("the disk is full"))
	st := b.until("the outcome", func(st state) bool { return len(st.Outcomes) > 0 })
	if o := st.Outcomes[0]; o.Press != 5 || o.Status != statusRefused || o.Text != "the disk is full" {
		t.Errorf("outcome %+v, want press 5 refused for the disk", o)
	}
}

func TestServer_UnaskedPressKeepsItsTime(t *testing.T) {
	s := open(t, nil)
	b, _ := pairedBrowser(t, s)
	time.Sleep(2 * clockBurst * clockBurstEvery)
	before := rewardsrc.Monotonic()
	b.write(message{Type: typePress, ID: 1, Kind: kindGood, At: b.now() - 700})
	if got := time.Duration(before - poll(t, s).At); got < 600*time.Millisecond || got > 800*time.Millisecond {
		t.Errorf("credited to %v before it was sent, want 700 ms", got)
	}
	b.write(message{Type: typePress, ID: 3, Kind: kindGood, At: b.now() - 10_000})
	b.write(message{Type: typePress, ID: 4, Kind: kindBad, At: b.now()})
	if got := poll(t, s); got.Value != -1 {
		t.Errorf("a press of 10 s ago gave the label %+v, want none", got)
	}
}

func TestServer_RefusesImpossibleTimes(t *testing.T) {
	s := open(t, nil)
	b, _ := pairedBrowser(t, s)
	b.until("a clock", func(state) bool { return s.connections()[0].knowsTheTime() })
	s.Ask(rewardsrc.Request{ID: 1, Tick: 9, At: rewardsrc.Monotonic(), Until: 1e6, State: rewardsrc.Open})
	for i, m := range []message{
		{Kind: kindGood, At: b.now() + 60_000},
		{Kind: kindUndo, At: b.now() + 60_000},
		{Kind: kindGood, At: b.now() + 60_000, Request: 1, Shown: b.now()},
		{Kind: kindGood, At: maxBrowserMS},
	} {
		m.Type, m.ID = typePress, uint64(i+1)
		b.write(m)
		if r := b.reply(); r.Type != "refused" || r.Press != m.ID || !strings.Contains(r.Text, "in the future") {
			t.Errorf("press %+v: reply %+v, want it refused as one in the future", m, r)
		}
	}
	// Pressed before the question was asked: refused by Poll.
	b.write(message{Type: typePress, ID: 9, Kind: kindGood, At: b.now() - 10_000, Request: 1, Shown: b.now() - 20_000})
	var none [1]rewardsrc.Label
	st := b.until("the outcome", func(st state) bool {
		if s.Poll(none[:]) != 0 {
			t.Fatalf("a label of 10 s before the question: %+v", none[0])
		}
		return len(st.Outcomes) > 0
	})
	o := st.Outcomes[0]
	if o.Press != 9 || o.Status != statusRefused || !strings.Contains(o.Text, "before the question") {
		t.Errorf("outcome %+v", o)
	}
	// The clocks may differ a little: a press is never credited to the future.
	b.write(message{Type: typePress, ID: 10, Kind: kindGood, At: b.now() + 50})
	if at, now := poll(t, s).At, rewardsrc.Monotonic(); at > now {
		t.Errorf("credited to %v from now", time.Duration(at-now))
	}
}

func (c *client) knowsTheTime() bool {
	c.clockMu.Lock()
	defer c.clockMu.Unlock()
	return c.clock.n > 0
}

func TestClient_UsesArrivalTimeWithoutClock(t *testing.T) {
	var c client
	if at, wrong := c.moment(message{At: 1e6}, 7); at != 7 || wrong != 0 {
		t.Errorf("%d ± %d, want 7 ± 0", at, wrong)
	}
}

func TestSeat_HandsOver(t *testing.T) {
	s := open(t, nil)
	first, _ := pairedBrowser(t, s)
	second := dial(t, s, pairWith(t, s, token(s.Pairing().URL)))
	second.write(message{Type: typePress, ID: 1, Kind: kindGood, At: second.now()})
	if r := second.reply(); r.Type != "refused" || r.Press != 1 || !strings.Contains(r.Text, "another device") {
		t.Errorf("reply %+v, want press 1 refused: another device labels", r)
	}
	second.write(message{Type: typeGive})
	if r := second.reply(); r.Type != "notice" {
		t.Errorf("reply %+v to a hand-over by a watcher, want a notice", r)
	}
	second.write(message{Type: typeTake})
	first.until("the wish", func(st state) bool { return st.Operator.Asking == "device 2" })
	first.write(message{Type: typeKeep})
	first.until("no wish", func(st state) bool { return st.Operator.Asking == "" })
	second.write(message{Type: typeTake})
	first.until("the wish", func(st state) bool { return st.Operator.Asking != "" })
	first.write(message{Type: typeGive})
	second.until("the seat", func(st state) bool { return st.Operator.Conn == second.hello.Conn })
	second.write(message{Type: typePress, ID: 2, Kind: kindGood, At: second.now()})
	poll(t, s)
	first.write(message{Type: typePress, ID: 9, Kind: kindGood, At: first.now()})
	if r := first.reply(); r.Type != "refused" {
		t.Errorf("reply %+v to the device that handed over, want its press refused", r)
	}
}

func TestSeat_ReturnsToReconnectedDevice(t *testing.T) {
	s := open(t, nil)
	b, cookie := pairedBrowser(t, s)
	b.leave()
	again := dial(t, s, cookie)
	again.until("the seat", func(st state) bool { return st.Operator.Conn == again.hello.Conn })
	again.write(message{Type: typePress, ID: 1, Kind: kindGood, At: again.now()})
	poll(t, s)
}

func TestSeat_GoesToNewestWindow(t *testing.T) {
	s := open(t, nil)
	old, cookie := pairedBrowser(t, s)
	fresh := dial(t, s, cookie)
	fresh.until("the seat", func(st state) bool { return st.Operator.Conn == fresh.hello.Conn })
	old.write(message{Type: typePress, ID: 1, Kind: kindGood, At: old.now()})
	if r := old.reply(); r.Type != "refused" {
		t.Errorf("reply %+v to the older window, want its press refused", r)
	}
}

func TestServer_WatcherStopsButNeverLabels(t *testing.T) {
	by := make(chan string, 4)
	s := open(t, func(_ *Config, o *Options) { o.Stop = func(who string, _ bool) { by <- who } })
	first, _ := pairedBrowser(t, s)
	first.write(message{Type: typeInvite, Role: roleWatch})
	invitation := first.reply()
	if invitation.Type != "invite" || invitation.URL == "" {
		t.Fatalf("reply %+v, want an invitation", invitation)
	}
	watcher := dial(t, s, pairWith(t, s, token(invitation.URL)))
	for _, m := range []message{{Type: typeTake}, {Type: typeInvite, Role: roleLabel}} {
		watcher.write(m)
		if r := watcher.reply(); r.Type != "notice" || r.Text == "" {
			t.Errorf("%s by a watcher: reply %+v, want a notice", m.Type, r)
		}
	}
	watcher.write(message{Type: typeStop})
	select {
	case who := <-by:
		if who != "device 2" {
			t.Errorf("stopped by %q, want device 2", who)
		}
	case <-time.After(soon):
		t.Fatal("STOP did nothing")
	}
	first.until("stopped", func(st state) bool { return st.Stopped == "device 2" })
	// Whether a press counts is decided for all devices in one place: not here.
	first.write(message{Type: typePress, ID: 1, Kind: kindUndo, At: first.now()})
	if got := poll(t, s); got.Kind != rewardsrc.Undo {
		t.Errorf("label %+v after STOP, want an undo", got)
	}
}

func TestServer_StopByPlainRequest(t *testing.T) {
	by := make(chan string, 1)
	s := open(t, func(_ *Config, o *Options) { o.Stop = func(who string, _ bool) { by <- who } })
	if got := post(t, s, "/stop", "", "", nil).StatusCode; got != http.StatusUnauthorized {
		t.Errorf("a stranger's STOP: status %d, want 401", got)
	}
	cookie := pairWith(t, s, token(s.Pairing().URL))
	if got := post(t, s, "/stop", "", cookie, nil).StatusCode; got != http.StatusNoContent || <-by != "device 1" {
		t.Errorf("STOP: status %d, want 204 by device 1", got)
	}
}

func TestDesk_PerRequestRefusesAnswersThatAreTooQuick(t *testing.T) {
	s := open(t, func(_ *Config, o *Options) { o.Mode = PerRequest })
	b, _ := pairedBrowser(t, s)
	refusal := func(what string) string {
		t.Helper()
		var none [1]rewardsrc.Label
		for deadline := time.Now().Add(soon); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if s.Poll(none[:]) != 0 {
				t.Fatalf("%s gave a label", what)
			}
			if o := s.snapshot.outcomes; len(o) > 0 {
				s.snapshot.outcomes = nil
				return o[0].Text
			}
		}
		t.Fatalf("%s: no outcome", what)
		return ""
	}
	b.write(message{Type: typePress, ID: 1, Kind: kindGood, At: b.now()})
	if got := poll(t, s); got.Request != 0 || got.Tick != rewardsrc.NoTick { // the label intake refuses it
		t.Errorf("label %+v, want an unasked one", got)
	}
	s.Ask(rewardsrc.Request{ID: 1, Tick: 9, Until: 99, State: rewardsrc.Open})
	b.write(message{Type: typePress, ID: 2, Kind: kindGood, At: b.now(), Request: 1, Shown: b.now() - 100})
	if got := refusal("a press 100 ms after the question"); !strings.Contains(got, "before the question") {
		t.Errorf("refused because %q", got)
	}
	b.write(message{Type: typePress, ID: 3, Kind: kindCantTell, At: b.now(), Request: 1, Shown: b.now() - 500})
	if got := poll(t, s); got.Kind != rewardsrc.CantTell || got.Request != 1 {
		t.Errorf("label %+v, want can't tell on request 1", got)
	}
	b.write(message{Type: typePress, ID: 4, Kind: kindGood, At: b.now(), Request: 1, Shown: b.now() - 600})
	if got := refusal("a second answer"); !strings.Contains(got, "answered already") {
		t.Errorf("refused because %q", got)
	}
	b.write(message{Type: typePress, ID: 5, Kind: kindUndo, At: b.now()})
	if got := poll(t, s); got.Kind != rewardsrc.Undo {
		t.Errorf("label %+v, want an undo", got)
	}
	b.write(message{Type: typePress, ID: 6, Kind: kindKeep, At: b.now()})
	if got := poll(t, s); got.Kind != rewardsrc.Keep {
		t.Errorf("label %+v, want to keep the task", got)
	}
}

func TestServer_ComparisonsAndGoalsLeaveRequestOpen(t *testing.T) {
	s := open(t, func(c *Config, _ *Options) { c.GoodValue, c.BadValue = 3, -1 })
	b, _ := pairedBrowser(t, s)
	s.Ask(rewardsrc.Request{ID: 7, Tick: 40, At: rewardsrc.Monotonic() - 1e8, Until: 1e6, State: rewardsrc.Open})
	for _, c := range []struct {
		kind string
		want rewardsrc.Label
	}{
		{kindBetter, rewardsrc.Label{Kind: rewardsrc.Comparison, Value: 1}},
		{kindWorse, rewardsrc.Label{Kind: rewardsrc.Comparison, Value: -1}},
		{kindGoal, rewardsrc.Label{Kind: rewardsrc.Goal, Value: 2}},
		{kindUndo, rewardsrc.Label{Kind: rewardsrc.Undo}},
	} {
		b.write(message{Type: typePress, ID: 1, Kind: c.kind, At: b.now(), Request: 7, Shown: b.now() - 500})
		got := poll(t, s)
		c.want.Tick, c.want.At = rewardsrc.NoTick, got.At
		if got != c.want {
			t.Errorf("%s: label %+v, want %+v", c.kind, got, c.want)
		}
	}
	b.write(message{Type: typePress, ID: 2, Kind: kindGood, At: b.now(), Request: 7, Shown: b.now() - 500})
	if got := poll(t, s); got.Request != 7 {
		t.Errorf("label %+v, want the answer to request 7", got)
	}
}

func TestDesk_RefusesLateUnaskedPress(t *testing.T) {
	d := newDesk(Sparse, time.Second, rewardsrc.Monotonic)
	value := rewardsrc.Input{Kind: rewardsrc.Value, At: 5}
	for _, in := range []rewardsrc.Input{value, rewardsrc.Better(1, -1), rewardsrc.AtGoal(1, -1)} {
		if _, err := d.label(press{Input: in, late: true}); err == nil {
			t.Errorf("a late unasked press counts: %+v", in)
		}
	}
	d.Ask(rewardsrc.Request{ID: 4, Tick: 6, Until: 8, State: rewardsrc.Open})
	d.Ask(rewardsrc.Request{ID: 4, State: rewardsrc.Expired})
	if l, err := d.label(press{Input: value, late: true, request: 4}); err != nil || l.Tick != 6 || l.Request != 4 {
		t.Errorf("a late answer: %+v, %v; want it about tick 6", l, err)
	}
	if _, err := d.label(press{Input: value, request: 99}); err == nil {
		t.Error("an answer to a request that never was counts")
	}
}

func TestServer_SliderStaysInRange(t *testing.T) {
	s := open(t, func(c *Config, o *Options) { o.Mode = Continuous; c.GoodValue = 2 })
	b, _ := pairedBrowser(t, s)
	b.write(message{Type: typePress, ID: 1, Kind: kindValue, Value: 1.25, At: b.now()})
	if got := poll(t, s); got.Value != 1.25 || got.Mode != rewardsrc.Held {
		t.Errorf("value %g, mode %d, want 1.25 of a stream", got.Value, got.Mode)
	}
	b.write(message{Type: typePress, ID: 2, Kind: kindValue, Value: 2.5, At: b.now()})
	if r := b.reply(); r.Type != "refused" || r.Press != 2 {
		t.Errorf("reply %+v to a value beyond good, want it refused", r)
	}
}

func TestServer_GradedPressAnswersTheRequest(t *testing.T) {
	s := open(t, func(c *Config, _ *Options) { c.BadValue = 0 })
	b, _ := pairedBrowser(t, s)
	s.Ask(rewardsrc.Request{ID: 7, Tick: 1, At: s.now(), Until: 1 << 20, State: rewardsrc.Open})
	b.write(message{Type: typePress, ID: 1, Kind: kindValue, Value: 0.25, At: b.now(), Request: 7, Shown: b.now() - 500})
	if l := poll(t, s); l.Request != 7 || l.Value != 0.25 || l.Mode == rewardsrc.Held {
		t.Errorf("label %+v, want 0.25 of one press on request 7", l)
	}
	b.write(message{Type: typePress, ID: 2, Kind: kindValue, Value: -0.25, At: b.now()})
	if r := b.reply(); r.Type != "refused" || r.Press != 2 {
		t.Errorf("reply %+v to a value below bad, want it refused", r)
	}
}

func TestServer_CountsBouncesOnce(t *testing.T) {
	s := open(t, func(c *Config, _ *Options) { c.RefractoryMS = 250 })
	b, _ := pairedBrowser(t, s)
	for _, kind := range []string{kindGood, kindValue, kindBetter, kindWorse, kindGoal} {
		b.write(message{Type: typePress, ID: 1, Kind: kind, At: b.now()})
		b.write(message{Type: typePress, ID: 2, Kind: kind, At: b.now() + 1})
		if r := b.reply(); r.Press != 2 || !strings.Contains(r.Text, "twice") {
			t.Errorf("%s: reply %+v, want press 2 refused", kind, r)
		}
		poll(t, s)
	}
}

func TestServer_WatchOnlyTakesNoLabels(t *testing.T) {
	s := open(t, func(c *Config, _ *Options) { c.WatchOnly = true })
	b := dial(t, s, pairWith(t, s, token(s.Pairing().URL)))
	b.write(message{Type: typePress, ID: 1, Kind: kindGood, At: b.now()})
	if r := b.reply(); r.Type != "refused" {
		t.Errorf("reply %+v, want the press refused", r)
	}
	b.write(message{Type: typeTake})
	if r := b.reply(); r.Type != "notice" {
		t.Errorf("reply %+v, want a notice", r)
	}
}

func TestServer_EndReachesEveryBrowser(t *testing.T) {
	s := open(t, nil)
	b, _ := pairedBrowser(t, s)
	s.End(Ending{Why: "a fault", Failed: true, Keep: "optibfm task save NAME"})
	fatal.If(t, s.Halt())
	b.until("the end", func(st state) bool {
		return st.Ended == "a fault" && st.Failed && st.Keep == "optibfm task save NAME"
	})
	if got := websocket.CloseStatus(<-b.ended); got != websocket.StatusGoingAway {
		t.Errorf("closed with %v, want going away", got)
	}
	if err := s.Halt(); err != nil {
		t.Fatal("a second Halt:", err)
	}
}

func TestServer_SendsViewAndHistory(t *testing.T) {
	s := open(t, nil)
	first, cookie := pairedBrowser(t, s)
	zero := 0.0
	s.Show(View{Tick: 5, ElapsedS: 0.1, Mode: "armed", DGap: 0.25, Reward: Number(zero / zero)})
	s.Note(Warn, "the disk is slow")
	st := first.until("the view", func(st state) bool {
		return st.View != nil && st.View.Tick == 5 && len(st.Events) == 1
	})
	if v := st.View; v.Mode != "armed" || v.DGap != 0.25 || v.Reward != 0 { // null leaves 0
		t.Errorf("view %+v", v)
	}
	if e := st.Events[0]; e.Level != Warn || e.Text != "the disk is slow" {
		t.Errorf("event %+v", e)
	}
	if got := dial(t, s, cookie).hello.History; len(got) != 1 || got[0][1] != 0.25 {
		t.Errorf("history %v, want one point with the D-gap", got)
	}
}

func TestServer_SecurityHeaders(t *testing.T) {
	s := open(t, nil)
	for path, kind := range map[string]string{
		"/": "text/html", "/console.js": "text/javascript", "/charts.js": "text/javascript",
		"/console.css": "text/css", "/icon.svg": "image/svg+xml", "/manifest.json": "application/manifest+json",
	} {
		answer, err := http.Get(base(s) + path)
		fatal.If(t, err)
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		found := answer.Header.Get("Content-Type")
		if answer.StatusCode != http.StatusOK || !strings.HasPrefix(found, kind) || len(body) == 0 {
			t.Errorf("%s: %s, %s, %d bytes", path, answer.Status, found, len(body))
		}
		if bytes.Contains(body, []byte("https://")) {
			t.Errorf("%s names something elsewhere", path)
		}
		csp := answer.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(csp, want) || strings.Contains(csp, "unsafe") {
				t.Errorf("%s: policy %q, want %s", path, csp, want)
			}
		}
	}
}

func TestServer_ReachableWhileLabellerIsConnected(t *testing.T) {
	s := open(t, nil)
	if s.Reachable() {
		t.Error("reachable without a browser")
	}
	b, _ := pairedBrowser(t, s)
	b.until("the seat", func(st state) bool { return st.Operator.Conn != 0 })
	if !s.Reachable() {
		t.Error("not reachable with a browser")
	}
	b.leave()
	for deadline := time.Now().Add(time.Minute); s.Reachable(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("reachable after the browser has left")
		}
	}
}
