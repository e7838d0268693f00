package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/frames"
)

// behind serves the console with another handler in front of it, at another port.
func (s *Server) behind(t testing.TB, front func(http.ResponseWriter, *http.Request) (handled bool)) *httptest.Server {
	outer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !front(w, r) {
			s.http.Handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		outer.CloseClientConnections()
		outer.Close()
	})
	return outer
}

// requestStream opens an endless answer.
func requestStream(t testing.TB, base, path, cookie string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return request(ctx, t, base, path, nil, cookie)
}

func request(ctx context.Context, t testing.TB, base, path string, body []byte, cookie string) *http.Response {
	t.Helper()
	answer, err := tryRequest(ctx, base, path, body, cookie)
	fatal.If(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

func tryRequest(ctx context.Context, base, path string, body []byte, cookie string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Origin": {base}, "Cookie": {cookie}}
	return http.DefaultClient.Do(r)
}

// dialStream connects as a browser does that refuses the WebSocket.
func dialStream(t testing.TB, base, cookie string) *browser {
	t.Helper()
	answer := requestStream(t, base, "/stream", cookie)
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("event stream: %s, %s", answer.Status, kind)
	}
	lines := bufio.NewReader(answer.Body)
	b := &browser{t: t, leave: func() { _ = answer.Body.Close() }}
	b.read = func(context.Context) ([]byte, error) {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if empty, err := lines.ReadBytes('\n'); !ok || err != nil || len(empty) != 1 {
			return nil, fmt.Errorf("not an event: %.80q, then %.80q", line, empty)
		}
		return data, nil
	}
	b.post = func(ctx context.Context, data []byte) error {
		answer, err := tryRequest(ctx, base, fmt.Sprintf("/message?conn=%d", b.hello.Conn), data, cookie)
		if err != nil {
			return err // listen runs beside the test and must not fail it
		}
		return answer.Body.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	b.begin(ctx)
	return b
}

func TestStream_TakesPressesAndStop(t *testing.T) {
	stopped := make(chan string, 1)
	s := open(t, func(_ *Config, o *Options) { o.Stop = func(by string, _ bool) { stopped <- by } })
	b := dialStream(t, base(s), pairWith(t, s, token(s.Pairing().URL)))
	b.until("the seat", func(st state) bool { return st.Operator.Conn == b.hello.Conn })
	now := s.now()
	s.Ask(rewardsrc.Request{ID: 7, Tick: 1, At: now, Until: 1 << 20, State: rewardsrc.Open})
	b.until("the request", func(st state) bool { return st.Request != nil && st.Request.ID == 7 })
	shown := b.now()
	time.Sleep(200 * time.Millisecond) // longer than reaction_ms
	b.write(message{Type: typePress, ID: 1, Kind: kindBad, At: b.now(), Request: 7, Shown: shown})
	if l := poll(t, s); l.Request != 7 || l.Value != -1 {
		t.Errorf("label %+v, want -1 on request 7", l)
	}
	b.write(message{Type: typePress, ID: 2, Kind: kindValue, Value: -1.5, At: b.now()})
	if r := b.reply(); r.Type != "refused" || r.Press != 2 {
		t.Errorf("reply %+v, want a refusal of a value below bad", r)
	}
	b.write(message{Type: typeStop})
	if by := <-stopped; by != "device 1" {
		t.Errorf("stopped by %q", by)
	}
	b.until("the stop", func(st state) bool { return st.Stopped == "device 1" })
}

func TestStream_KnowsTheTime(t *testing.T) {
	s := open(t, nil)
	dialStream(t, base(s), pairWith(t, s, token(s.Pairing().URL)))
	c := s.connections()[0]
	for deadline := time.Now().Add(soon); !c.knowsTheTime(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no clock exchange")
		}
	}
}

func TestStream_EndsAfterARefusedMessage(t *testing.T) {
	s := open(t, nil)
	cookie := pairWith(t, s, token(s.Pairing().URL))
	for name, send := range map[string]func(*browser){
		"malformed": func(b *browser) { b.raw([]byte(`{"type":`)) },
		"unknown":   func(b *browser) { b.raw([]byte(`{"type":"arm"}`)) },
		"oversized": func(b *browser) { b.raw([]byte(`{"type":"` + strings.Repeat("x", 4*maxMessage) + `"}`)) },
		"a flood": func(b *browser) {
			for i := range uint64(4 * messageBurst) {
				b.write(message{Type: typePress, ID: i, Kind: kindGood, At: b.now()})
			}
		},
	} {
		b := dialStream(t, base(s), cookie)
		send(b)
		select {
		case err := <-b.ended:
			errtest.Is(t, err, io.EOF, name)
		case <-time.After(soon):
			t.Fatalf("%s: the stream stays open", name)
		}
	}
	b := dialStream(t, base(s), cookie)
	b.until("a state", func(state) bool { return true })
}

// A message belongs to the stream of its own device, and a WebSocket takes none by POST.
func TestStream_RefusesMessagesOfOthers(t *testing.T) {
	stopped := false
	s := open(t, func(_ *Config, o *Options) { o.Stop = func(string, bool) { stopped = true } })
	first := pairWith(t, s, token(s.Pairing().URL))
	second := pairWith(t, s, token(s.Pairing().URL))
	of := fmt.Sprintf("/message?conn=%d", dialStream(t, base(s), first).hello.Conn)
	onSocket := fmt.Sprintf("/message?conn=%d", dial(t, s, first).hello.Conn)
	evil := func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }
	for name, c := range map[string]struct {
		path, cookie string
		change       func(*http.Request)
		want         int
	}{
		"another device": {of, second, nil, http.StatusGone},
		"no device":      {of, "", nil, http.StatusUnauthorized},
		"another page":   {of, first, evil, http.StatusForbidden},
		"a socket":       {onSocket, first, nil, http.StatusGone},
		"no number":      {"/message", first, nil, http.StatusGone},
	} {
		if got := post(t, s, c.path, `{"type":"stop"}`, c.cookie, c.change).StatusCode; got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		cookie string
		change func(*http.Request)
		want   int
	}{
		"no device":    {"", nil, http.StatusUnauthorized},
		"another page": {first, evil, http.StatusForbidden},
	} {
		if got := post(t, s, "/stream", "", c.cookie, c.change).StatusCode; got != c.want {
			t.Errorf("stream for %s: status %d, want %d", name, got, c.want)
		}
	}
	if stopped {
		t.Error("the robot was stopped")
	}
}

// Browsers open six connections to a server. Streams leave two of them for STOP.
func TestStream_LeavesConnectionsForStop(t *testing.T) {
	s := open(t, nil)
	cookie := pairWith(t, s, token(s.Pairing().URL))
	open := []*browser{dialStream(t, base(s), cookie)}
	for range maxStreams - 1 {
		open = append(open, dialStream(t, base(s), cookie))
	}
	if got := requestStream(t, base(s), "/stream", cookie).StatusCode; got != http.StatusServiceUnavailable {
		t.Errorf("one more stream: status %d, want 503", got)
	}
	dialStream(t, base(s), pairWith(t, s, token(s.Pairing().URL))) // another device
	open[0].leave()
	for deadline := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if requestStream(t, base(s), "/stream", cookie).StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a stream that was closed still counts")
		}
	}
}

func TestStream_OutlivesTheTimeoutsOfOtherRequests(t *testing.T) {
	s := open(t, nil)
	short := s.behind(t, func(http.ResponseWriter, *http.Request) bool { return false })
	short.Config.ReadTimeout, short.Config.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond
	short.Start()
	b := dialStream(t, short.URL, pairWith(t, s, token(s.Pairing().URL)))
	time.Sleep(time.Second)
	s.Show(View{Tick: 9})
	b.until("a view after the timeouts", func(st state) bool { return st.View != nil && st.View.Tick == 9 })
}

func TestStream_ShowsTheEndOfTheRun(t *testing.T) {
	s := open(t, nil)
	b := dialStream(t, base(s), pairWith(t, s, token(s.Pairing().URL)))
	s.End(Ending{Why: "a fault", Failed: true})
	fatal.If(t, s.Halt())
	b.until("the end", func(st state) bool { return st.Ended == "a fault" && st.Failed })
	errtest.Is(t, <-b.ended, io.EOF)
}

func TestStream_SendsFramesWithTheirAge(t *testing.T) {
	const second = int64(1e9)
	pictures := newAlbum()
	pictures.add(frames.Frame{At: 96 * second, JPEG: []byte{4, 4}})
	s := open(t, func(_ *Config, o *Options) {
		o.Pictures, o.Now = pictures, func() int64 { return 100 * second }
	})
	answer := requestStream(t, base(s), "/frames", pairWith(t, s, token(s.Pairing().URL)))
	for _, want := range [][]byte{{4, 4}, {0}} {
		if len(want) == 1 {
			pictures.add(frames.Frame{At: 100 * second, JPEG: want})
		}
		var head [12]byte
		fatal.If(t, errtest.Of(io.ReadFull(answer.Body, head[:])))
		picture := make([]byte, binary.LittleEndian.Uint32(head[:])-8)
		fatal.If(t, errtest.Of(io.ReadFull(answer.Body, picture)))
		ms := math.Float64frombits(binary.LittleEndian.Uint64(head[4:]))
		if !bytes.Equal(picture, want) || ms != 1000*float64(want[0]) {
			t.Errorf("frame %v, age %g ms; want %v", picture, ms, want)
		}
	}
	answer.Body.Close()
	for pictures.watchersNow() != 0 {
		if t.Context().Err() != nil {
			t.Fatal("it is still watched")
		}
	}
}
