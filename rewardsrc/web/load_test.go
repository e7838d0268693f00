package web

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"

	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

// crowd connects so many browsers, which read what comes.
func crowd(t testing.TB, s *Server, n int) {
	t.Helper()
	cookie := pairWith(t, s, token(s.Pairing().URL))
	for range n {
		dial(t, s, cookie)
	}
}

// stalled connects a browser that reads nothing.
func stalled(t testing.TB, s *Server) {
	t.Helper()
	cookie := pairWith(t, s, token(s.Pairing().URL))
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4 << 10)
		}
		return conn, err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	conn, _, err := websocket.Dial(t.Context(), base(s)+"/socket", &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: http.Header{"Origin": {base(s)}, "Cookie": {cookie}},
	})
	fatal.If(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
}

// recorderTick does the work of the host's recorder with a console in a tick, with
// a view and an event in every one, which is far more often than in a run.
func recorderTick(s *Server, n uint64, labels []rewardsrc.Label) {
	s.Show(View{Tick: n, ElapsedS: Number(n)})
	s.Ask(rewardsrc.Request{ID: n, Tick: n, Until: n + 5, State: rewardsrc.Open})
	for range s.Poll(labels) {
		s.Acknowledge(rewardsrc.Label{ID: n})
	}
	s.Note(Info, "an event")
	s.Ask(rewardsrc.Request{ID: n, State: rewardsrc.Answered})
}

// medianTick is the median time of recorderTick.
func medianTick(s *Server) time.Duration {
	labels := make([]rewardsrc.Label, 8)
	var took []time.Duration
	for n := range uint64(400) {
		begun := time.Now()
		recorderTick(s, n+1, labels)
		took = append(took, time.Since(begun))
		time.Sleep(2 * time.Millisecond)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func TestServer_BrowsersNeverBlockRecorder(t *testing.T) {
	if testing.Short() {
		t.Skip("connects a hundred browsers")
	}
	s := open(t, nil)
	alone := medianTick(s)
	crowd(t, s, 100)
	stalled(t, s)
	if got := len(s.connections()); got != 101 {
		t.Fatalf("%d browsers are connected, want 101", got)
	}
	together := medianTick(s)
	t.Logf("a tick of the recorder: %v alone, %v with 100 browsers and a stalled one", alone, together)
	// Nothing in the recorder's path knows of browsers; what is left is the
	// processor that they share. Waiting for one would be milliseconds.
	if together > 50*alone+time.Millisecond {
		t.Errorf("a tick of the recorder takes %v with browsers, %v without", together, alone)
	}
}

func TestServer_RecorderAllocationsIgnoreBrowsers(t *testing.T) {
	d := newDesk(Sparse, time.Second, rewardsrc.Monotonic) // without the goroutines, which allocate too
	labels := make([]rewardsrc.Label, 8)
	if n := testing.AllocsPerRun(100, func() { d.Poll(labels) }); n != 0 {
		t.Errorf("a Poll without presses allocates %v times, want 0", n)
	}
	request := rewardsrc.Request{ID: 1, State: rewardsrc.Open}
	if n := testing.AllocsPerRun(100, func() { d.Ask(request) }); n > 1 {
		t.Errorf("an Ask allocates %v times, want at most 1: the board", n)
	}
	if n := testing.AllocsPerRun(100, func() { d.Show(View{}) }); n > 1 {
		t.Errorf("a Show allocates %v times, want at most 1: the view", n)
	}
}

func TestServer_DropsStalledBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a browser that does not read")
	}
	s := open(t, nil)
	b, _ := pairedBrowser(t, s)
	stalled(t, s)
	for n := uint64(1); ; n++ {
		s.Show(View{Tick: n, ElapsedS: Number(n)})
		s.Note(Info, "an event that is long enough to fill the buffers of a kernel: "+string(make([]byte, 2000)))
		if len(s.connections()) == 1 {
			break
		}
		if n > 3000 {
			t.Fatal("a browser that reads nothing is still connected")
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.until("a state", func(st state) bool { return st.Devices == 1 })
}

func TestServer_LimitsBrowsers(t *testing.T) {
	if testing.Short() {
		t.Skip("connects many browsers")
	}
	s := open(t, nil)
	cookie := pairWith(t, s, token(s.Pairing().URL))
	for range maxClients {
		dial(t, s, cookie)
	}
	_, answer, err := connect(t, s, "/socket", cookie)
	if err == nil || answer == nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("browser %d: %v, want 503", maxClients+1, err)
	}
}

func TestServer_HaltStopsGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	s := open(t, nil)
	crowd(t, s, 5)
	stalled(t, s)
	begun := time.Now()
	fatal.If(t, s.Halt())
	if took := time.Since(begun); took > soon {
		t.Errorf("Halt took %v", took)
	}
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) {
		left := runtime.NumGoroutine()
		if left <= before+2 {
			return
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before:\n%s", left, before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
