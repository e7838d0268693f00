package rigtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"optibfm/internal/fatal"
)

// SyncBuffer is a buffer for one writer and concurrent readers.
type SyncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (s *SyncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// String returns the text so far.
func (s *SyncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Phone is a device that paired with a console.
type Phone struct {
	t            *testing.T
	base, cookie string
	presses      uint64 // their number is the ID of the newest
}

var pairingURL = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/#([\w-]+)`)

// PairPhone pairs with the web console whose code a program prints to output.
func PairPhone(t *testing.T, output fmt.Stringer) *Phone {
	t.Helper()
	for deadline := time.Now().Add(HangGuard); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if found := pairingURL.FindStringSubmatch(output.String()); found != nil {
			p := &Phone{t: t, base: found[1]}
			answer := p.Post("/pair", `{"token":"`+found[2]+`"}`)
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

// Post sends a request with the cookie of the phone.
func (p *Phone) Post(path, body string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodPost, p.base+path, strings.NewReader(body))
	fatal.If(p.t, err)
	r.Header.Set("Origin", p.base)
	r.Header.Set("Cookie", p.cookie)
	answer, err := http.DefaultClient.Do(r)
	fatal.If(p.t, err)
	answer.Body.Close()
	return answer
}

// dial opens the page's socket.
func (p *Phone) dial(ctx context.Context) *websocket.Conn {
	p.t.Helper()
	header := http.Header{"Origin": {p.base}, "Cookie": {p.cookie}}
	conn, _, err := websocket.Dial(ctx, p.base+"/socket", &websocket.DialOptions{HTTPHeader: header})
	fatal.If(p.t, err)
	conn.SetReadLimit(1 << 20)
	p.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// message is a message of the console. The fields depend on its type.
type message struct {
	Type, Error string
	Outcomes    []struct {
		Press  uint64
		Status string
	}
	View struct{ Tick, Labels uint64 }
	Ending
}

// watch opens the page, sends a message unless it is empty, and calls until with each message of
// the console, and with a function that sends one, until it returns true.
func (p *Phone) watch(first string, until func(m message, send func(text string)) (end bool)) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), HangGuard)
	defer cancel()
	conn := p.dial(ctx)
	send := func(text string) { fatal.If(p.t, conn.Write(ctx, websocket.MessageText, []byte(text))) }
	if first != "" {
		send(first)
	}
	for end := false; !end; {
		_, data, err := conn.Read(ctx)
		fatal.If(p.t, err)
		var m message
		fatal.If(p.t, json.Unmarshal(data, &m))
		end = until(m, send)
	}
}

// Press sends a press after 50 ticks and returns its final status, such as "counted".
func (p *Phone) Press(kind string) (status string) {
	p.t.Helper()
	p.presses++
	sent := false
	p.watch("", func(m message, send func(string)) bool {
		if m.Type == "state" && !sent && m.View.Tick > 50 { // there are states to credit
			sent = true
			send(fmt.Sprintf(`{"type":"press","id":%d,"kind":%q,"at":1}`, p.presses, kind))
		}
		for _, o := range m.Outcomes {
			if o.Press == p.presses && o.Status != "saved" {
				status = o.Status
			}
		}
		return status != ""
	})
	return status
}

// ChangeTask sends a message about tasks and returns the reason why it had no effect, "" if it had.
func (p *Phone) ChangeTask(kind, name string) (refused string) {
	p.t.Helper()
	p.watch(fmt.Sprintf(`{"type":"task","kind":%q,"name":%q}`, kind, name), func(m message, _ func(string)) bool {
		refused = m.Error
		return m.Type == "tasks"
	})
	return refused
}

// AwaitLabels waits until the page shows that so many labels count.
func (p *Phone) AwaitLabels(n uint64) {
	p.t.Helper()
	p.watch("", func(m message, _ func(string)) bool { return m.Type == "state" && m.View.Labels == n })
}

// Ending is the text of the page at the end of a run.
type Ending struct {
	Ended, Keep string
	Failed      bool
}

// Ending calls act while the page is open, and returns the end of the run.
func (p *Phone) Ending(act func()) (end Ending) {
	p.t.Helper()
	acted := false
	p.watch("", func(m message, _ func(string)) bool {
		if m.Ended == "" && m.Type == "state" && !acted {
			acted = true
			act()
		}
		end = m.Ending
		return m.Ended != ""
	})
	return end
}
