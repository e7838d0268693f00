package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"optibfm/controller"
	"optibfm/posterior"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/web"
)

// shared is what a program writes, for somebody who reads it meanwhile.
type shared struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// phone is a device that paired with a console.
type phone struct {
	t            *testing.T
	base, cookie string
}

var pairingURL = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/#([\w-]+)`)

// pairFrom pairs with the console whose code a program printed.
func pairFrom(t *testing.T, output fmt.Stringer) *phone {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if found := pairingURL.FindStringSubmatch(output.String()); found != nil {
			p := &phone{t: t, base: found[1]}
			answer := p.post("/pair", `{"token":"`+found[2]+`"}`)
			if answer.StatusCode != http.StatusNoContent {
				t.Fatalf("pairing: %s", answer.Status)
			}
			p.cookie, _, _ = strings.Cut(answer.Header.Get("Set-Cookie"), ";")
			return p
		}
	}
	t.Fatalf("no pairing code was printed:\n%s", output)
	return nil
}

func (p *phone) post(path, body string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodPost, p.base+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Origin", p.base)
	r.Header.Set("Cookie", p.cookie)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	answer.Body.Close()
	return answer
}

// dial opens the page's socket.
func (p *phone) dial(ctx context.Context) *websocket.Conn {
	p.t.Helper()
	conn, _, err := websocket.Dial(ctx, p.base+"/socket", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {p.base}, "Cookie": {p.cookie}}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return conn
}

// press sends a press and returns what became of it.
func (p *phone) press(kind string) (status string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	conn := p.dial(ctx)
	for sent := false; ; {
		_, data, err := conn.Read(ctx)
		if err != nil {
			p.t.Fatal(err)
		}
		var m struct {
			Type     string
			Outcomes []struct {
				Press  uint64
				Status string
			}
			View struct{ Tick uint64 }
		}
		if err := json.Unmarshal(data, &m); err != nil {
			p.t.Fatal(err)
		}
		if m.Type == "state" && !sent && m.View.Tick > 50 { // there are states to credit
			sent = true
			if err := conn.Write(ctx, websocket.MessageText, []byte(`{"type":"press","id":7,"kind":"`+kind+`","at":1}`)); err != nil {
				p.t.Fatal(err)
			}
		}
		for _, o := range m.Outcomes {
			if o.Press == 7 && o.Status != "saved" {
				return o.Status
			}
		}
	}
}

func TestALabelFromABrowserCountsAndItsStopHaltsTheRobotAndEndsTheRun(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, append(set, "operator.source=web", "operator.web.listen=127.0.0.1:0", "operator.web.max_late_s=60")...)
	var output shared
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p := pairFrom(t, &output)
	if got := p.press("good"); got != "counted" {
		t.Errorf("the press was %s, want counted", got)
	}
	pressed := time.Now()
	if got := p.post("/stop", "").StatusCode; got != http.StatusNoContent {
		t.Fatalf("STOP: status %d", got)
	}
	t.Logf("halted %v after STOP was sent", w.waitHalted(t, pressed))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v, want success: a service must not start again by itself\n%s", err, &output)
	}
	labels, stops := 0, 0
	for r, err := range onlyLog(t, cmd).Records() {
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Label != nil && r.Label.Value == 1:
			labels++
		case r.Event != nil && strings.Contains(r.Event.Text, "STOP was pressed"):
			stops++
		}
	}
	if labels != 1 || stops != 1 {
		t.Errorf("the log has %d labels and %d words of STOP, want one of each", labels, stops)
	}
	if text := output.String(); !strings.Contains(text, "STOP was pressed in the web console, on device 1") || !strings.Contains(text, "NOT the emergency stop") {
		t.Errorf("the output does not tell:\n%s", text)
	}
}

func TestAConsoleThatOnlyWatchesTakesNoLabelsButStops(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, append(set, "operator.source=none", "operator.web.watch_only=true", "operator.web.listen=127.0.0.1:0")...)
	var output shared
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p := pairFrom(t, &output)
	for deadline := time.Now().Add(30 * time.Second); w.acts.Load() < 3 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	pressed := time.Now()
	if got := p.post("/stop", "").StatusCode; got != http.StatusNoContent {
		t.Fatalf("STOP: status %d", got)
	}
	w.waitHalted(t, pressed)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v\n%s", err, &output)
	}
}

func TestAConsoleWhoseAddressIsTakenMovesNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w, set := serveWatched(t)
	cmd := program(t, append(set, "operator.source=web", "operator.web.listen="+l.Addr().String())...)
	text, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(text), "operator.web.listen") || w.acts.Load() != 0 {
		t.Errorf("error %v after %d actions, want one that names operator.web.listen and no action:\n%s", err, w.acts.Load(), text)
	}
}

func TestTheLiveViewShowsWhatTheBeliefHolds(t *testing.T) {
	const d = 3
	cfg := controller.DefaultConfig()
	cfg.Lambda = 2
	watch, err := newBeliefWatch(cfg, d)
	if err != nil {
		t.Fatal(err)
	}
	if got := watch.expects(make([]float64, d)); got == got {
		t.Errorf("expects %g before there is a belief, want NaN", got)
	}
	belief, err := posterior.New(d, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := belief.Update([]float64{3, 0, 4}, 0.5, 1); err != nil {
		t.Fatal(err)
	}
	state := controller.NewState(controller.Shape{Obs: 1, Action: 1, Latent: d})
	state.At = 1e12
	belief.State(state.Belief)
	watch.take(state)
	// V = 2I + φφᵀ with ‖φ‖ = 5, so ẑ = 0.5 φ / 27.
	if got, want := watch.expects([]float64{3, 0, 4}), 0.5*25/27; got-want > 1e-12 || want-got > 1e-12 {
		t.Errorf("expects %g, want %g", got, want)
	}
	if got, want := watch.newest.Load().norm, 0.5*5/27; got-want > 1e-12 || want-got > 1e-12 {
		t.Errorf("‖ẑ‖ = %g, want %g", got, want)
	}
}

func TestTheLiveViewShowsTheKappaOfTheTick(t *testing.T) {
	shape := controller.Shape{Obs: 1, Action: 1, Latent: 3}
	watch, err := newBeliefWatch(controller.DefaultConfig(), shape.Latent)
	if err != nil {
		t.Fatal(err)
	}
	tick := controller.NewTick(shape)
	tick.Kappa = 0.7 // gate.kappa is not: κ follows the operator
	v := webView{belief: watch, tally: newTally(shape), period: time.Millisecond}
	if got := v.of(tick, 0).Kappa; got != 0.7 {
		t.Errorf("κ %g, want 0.7", got)
	}
	v.never = true
	if got := v.of(tick, 0).Kappa; got == got {
		t.Errorf("κ %g where nothing is asked, want NaN", got)
	}
}

func TestTheLiveViewShowsHowMuchTheLastLabelCountedWhereLabelsAreDoubted(t *testing.T) {
	shape := controller.Shape{Obs: 1, Action: 1, Latent: 3}
	opened := web.DefaultConfig()
	opened.Listen = "127.0.0.1:0"
	server, err := web.Open(opened, web.Options{Period: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Halt() })
	for _, c := range []struct{ robust, want float64 }{{0, 0}, {0.2, 0.34}} {
		cfg := controller.DefaultConfig()
		cfg.Robust = c.robust
		watch, err := newBeliefWatch(cfg, shape.Latent)
		if err != nil {
			t.Fatal(err)
		}
		v := webView{server: server, belief: watch, tally: newTally(shape), period: time.Millisecond, trusts: controller.NewTrusts(cfg)}
		tick := controller.NewTick(shape)
		if got := v.of(tick, 0).LastTrust; got != 0 {
			t.Errorf("robust %g: %g before the first label", c.robust, got)
		}
		tick.NumLabels = 2
		tick.Labels[0] = controller.AppliedLabel{ID: 1, Confidence: 0.5, Weight: 0.17, Kind: rewardsrc.Value, Outcome: controller.Applied}
		tick.Labels[1] = controller.AppliedLabel{ID: 2, Confidence: 1, Weight: 1, Kind: rewardsrc.Value, Outcome: controller.TooOld}
		v.settle(tick)
		if got := v.of(tick, 0).LastTrust; math.Abs(float64(got)-c.want) > 1e-12 {
			t.Errorf("robust %g: %g, want %g", c.robust, got, c.want)
		}
	}
}

func TestLabelsPerMinuteAreThoseOfTheLastSixtySeconds(t *testing.T) {
	var p perMinute
	for second := range uint64(10) {
		p.add(second)
	}
	if got := p.rate(29); got != 20 {
		t.Errorf("10 labels in 30 s are %v per minute, want 20", got)
	}
	if got := p.rate(65); got != 4 {
		t.Errorf("the last minute has %v labels, want the 4 of seconds 6 to 9", got)
	}
	p.add(1000)
	if got := p.rate(1000); got != 1 {
		t.Errorf("after a long silence %v, want 1", got)
	}
}
