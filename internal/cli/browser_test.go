package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// pressInterval is the time between the presses.
const pressInterval = 500 * time.Millisecond

var pairingLink = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/#([\w-]+)`)

// pairingReader stores the output of a program and finds the pairing link of the first
// device.
type pairingReader struct {
	mu    sync.Mutex
	text  bytes.Buffer
	sent  bool
	found chan pairing // once
}

func newPairingReader() *pairingReader { return &pairingReader{found: make(chan pairing, 1)} }

func (r *pairingReader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.Write(p)
	if r.sent {
		return len(p), nil
	}
	if link := pairingLink.FindStringSubmatch(r.text.String()); link != nil {
		r.sent = true
		r.found <- pairing{base: link[1], token: link[2]}
	}
	return len(p), nil
}

func (r *pairingReader) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// labelInBrowser opens the console and labels until ctx is done.
func labelInBrowser(ctx context.Context, output *pairingReader) error {
	var link pairing
	select {
	case link = <-output.found:
	case <-ctx.Done():
		return errors.New("the program printed no pairing link")
	}
	cookie, err := link.pair(ctx)
	if err != nil {
		return err
	}
	b, err := openBrowser(ctx, link.base, cookie)
	if err != nil {
		return err
	}
	var open sync.WaitGroup
	defer open.Wait()
	open.Go(func() { b.watch(ctx) })
	open.Go(func() { b.press(ctx) })
	open.Go(func() { watchPictures(ctx, link.base, cookie) })
	return nil
}

// watchPictures takes the robot's pictures, if it has any, until ctx is done.
func watchPictures(ctx context.Context, base, cookie string) {
	header := http.Header{"Origin": {base}, "Cookie": {cookie}}
	conn, _, err := websocket.Dial(ctx, base+"/frames", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	for err == nil {
		_, _, err = conn.Read(ctx)
	}
}

// pairing is the link that pairs a device.
type pairing struct{ base, token string }

// pair returns the session's cookie.
func (p pairing) pair(ctx context.Context) (cookie string, err error) {
	body := strings.NewReader(`{"token":"` + p.token + `"}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+"/pair", body)
	if err != nil {
		return "", err
	}
	r.Header.Set("Origin", p.base)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		return "", fmt.Errorf("pairing: %s", answer.Status)
	}
	cookie, _, _ = strings.Cut(answer.Header.Get("Set-Cookie"), ";")
	return cookie, nil
}

// browser is an open console.
type browser struct {
	conn  *websocket.Conn
	begun time.Time
}

// now is the clock of the browser, a JSON number of milliseconds.
func (b *browser) now() string {
	return strconv.FormatFloat(float64(time.Since(b.begun))/float64(time.Millisecond), 'f', 3, 64)
}

func openBrowser(ctx context.Context, base, cookie string) (*browser, error) {
	header := http.Header{"Origin": {base}, "Cookie": {cookie}}
	conn, _, err := websocket.Dial(ctx, base+"/socket", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(1 << 20)
	return &browser{conn: conn, begun: time.Now()}, nil
}

// watch reads the server's messages and answers its clock requests until ctx is done or
// the program ends.
func (b *browser) watch(ctx context.Context) {
	defer b.conn.CloseNow()
	for {
		_, data, err := b.conn.Read(ctx)
		if err != nil {
			return
		}
		var m struct {
			Type string
			ID   uint64
		}
		if json.Unmarshal(data, &m) != nil || m.Type != "clock" {
			continue
		}
		if b.send(ctx, fmt.Sprintf(`{"type":"clock","id":%d,"at":%s}`, m.ID, b.now())) != nil {
			return
		}
	}
}

// press presses until ctx is done.
func (b *browser) press(ctx context.Context) {
	every := time.NewTicker(pressInterval)
	defer every.Stop()
	for id := 1; ; id++ {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		if b.send(ctx, fmt.Sprintf(`{"type":"press","id":%d,"kind":"good","at":%s}`, id, b.now())) != nil {
			return
		}
	}
}

func (b *browser) send(ctx context.Context, message string) error {
	return b.conn.Write(ctx, websocket.MessageText, []byte(message))
}
