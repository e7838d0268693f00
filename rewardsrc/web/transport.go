package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// maxStreams is the number of event streams and streams of frames of a device. Browsers open six
// connections to a server: the others are for POST, also of STOP.
const maxStreams = 4

// transport carries the messages of a browser.
type transport interface {
	// send sends a message. One goroutine calls it.
	send(ctx context.Context, text []byte) error
	// read gives messages to receive until one is refused, the connection ends or ctx does.
	read(ctx context.Context, receive func(data []byte) (refused string))
	// goodbye ends the connection at the end of the run.
	goodbye()
}

type socket struct{ conn *websocket.Conn }

func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request, device *session) {
	s.serveClient(w, r, device, func() (transport, error) {
		conn, err := websocket.Accept(w, r, acceptAll)
		if err != nil {
			return nil, err // Accept has replied
		}
		conn.SetReadLimit(maxMessage)
		return socket{conn}, nil
	})
}

func (k socket) send(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeWait)
	defer cancel()
	return k.conn.Write(ctx, websocket.MessageText, text)
}

func (k socket) read(ctx context.Context, receive func([]byte) string) {
	defer k.conn.CloseNow()
	for {
		kind, data, err := k.conn.Read(ctx)
		if err != nil {
			return
		}
		refused := "not a text message"
		if kind == websocket.MessageText {
			refused = receive(data)
		}
		if refused != "" {
			k.hangUp(websocket.StatusPolicyViolation, refused)
			return
		}
	}
}

func (k socket) goodbye() { k.hangUp(websocket.StatusGoingAway, "the run is over") }

// hangUp closes the connection with a reason, and waits at most a second for the
// browser.
func (k socket) hangUp(code websocket.StatusCode, reason string) {
	timer := time.AfterFunc(time.Second, func() { _ = k.conn.CloseNow() })
	defer timer.Stop()
	_ = k.conn.Close(code, reason) // it may be closed already
}

// stream is an event stream (text/event-stream), the response to a POST of the page. The browser
// sends each message with a POST. It is for browsers that refuse the WebSocket, such as Safari with
// a certificate that it does not trust.
type stream struct {
	w     http.ResponseWriter
	out   *http.ResponseController
	ended chan struct{} // after a refused message
	end   sync.Once
}

func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, device *session) {
	s.whileStreaming(w, device, "text/event-stream", func(t *stream) {
		s.serveClient(w, r, device, func() (transport, error) { return t, nil })
	})
}

// whileStreaming calls serve with a stream for a device, unless the device has too many.
func (s *Server) whileStreaming(w http.ResponseWriter, device *session, kind string, serve func(*stream)) {
	if !s.countStream(device, 1) {
		http.Error(w, "this device has too many windows open", http.StatusServiceUnavailable)
		return
	}
	defer s.countStream(device, -1)
	t := &stream{w: w, out: http.NewResponseController(w), ended: make(chan struct{})}
	if t.out.SetReadDeadline(time.Time{}) != nil { // that of the server would end the stream
		http.Error(w, "this connection has no streams", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Accel-Buffering", "no") // a proxy passes each message on
	serve(t)
}

// countStream changes the number of streams of a device, unless it would be too large.
func (s *Server) countStream(d *session, by int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.streams+by > maxStreams {
		return false
	}
	d.streams += by
	return true
}

func (t *stream) send(_ context.Context, text []byte) error {
	return t.write([]byte("data: "), text, []byte("\n\n")) // JSON has no line breaks
}

// write sends the parts of a message. It fails if the browser does not accept them in time.
func (t *stream) write(parts ...[]byte) error {
	if err := t.out.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return err
	}
	for _, part := range parts {
		if _, err := t.w.Write(part); err != nil {
			return err
		}
	}
	return t.out.Flush()
}

// read waits: serveMessage gives the messages to the client.
func (t *stream) read(ctx context.Context, _ func([]byte) string) {
	select {
	case <-ctx.Done():
	case <-t.ended:
	}
}

func (t *stream) goodbye() {} // the end of the response

// serveMessage takes a message of a browser whose state comes by an event stream. Like a socket,
// the stream ends after a refused message.
func (s *Server) serveMessage(w http.ResponseWriter, r *http.Request, device *session) {
	number, _ := strconv.ParseUint(r.URL.Query().Get("conn"), 10, 64)
	c, t := s.streamOf(device, number)
	if t == nil {
		http.Error(w, "this event stream has ended", http.StatusGone)
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	refused := ""
	switch tooLong := new(http.MaxBytesError); {
	case errors.As(err, &tooLong):
		refused = fmt.Sprintf("a message has at most %d bytes", maxMessage)
	case err != nil:
		return // the connection broke
	default:
		refused = c.receive(data)
	}
	if refused != "" {
		t.end.Do(func() { close(t.ended) })
		http.Error(w, refused, http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// streamOf returns the client of a device with a number and its event stream, nil for none.
func (s *Server) streamOf(d *session, number uint64) (*client, *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		if t, ok := c.transport.(*stream); ok && c.session == d && c.number == number {
			return c, t
		}
	}
	return nil, nil
}
