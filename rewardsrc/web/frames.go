package web

import (
	"context"
	"encoding/binary"
	"math"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"optibfm/rewardsrc/frames"
)

const recall = 5 * time.Second // of frames that a new page receives, for a question asked before

// Pictures is where the console's frames come from: a [frames.Store].
type Pictures interface {
	// Watch keeps the source open until end is called.
	Watch() (end func())
	// After returns the frames that were captured after a time.
	After(at int64) []frames.Frame
	// Next waits for a frame that was captured after a time, and returns the newest.
	Next(ctx context.Context, at int64) (frames.Frame, error)
	// Problem returns the reason why the source delivers no frames, or "".
	Problem() string
}

// serveFrameSocket sends frames over a separate WebSocket, so that they delay no press. A binary
// message is the age of the frame in ms, a little-endian float64, and a JPEG picture.
func (s *Server) serveFrameSocket(w http.ResponseWriter, r *http.Request, _ *session) {
	s.whileWatching(w, func() {
		conn, err := websocket.Accept(w, r, acceptAll)
		if err != nil {
			return // Accept has replied
		}
		defer conn.CloseNow()
		ctx := conn.CloseRead(s.over)
		s.sendFrames(ctx, func(age, picture []byte) error { return writeFrame(ctx, conn, age, picture) })
	})
}

// serveFrameStream sends the same messages over the response to a POST, each after its length, a
// little-endian uint32.
func (s *Server) serveFrameStream(w http.ResponseWriter, r *http.Request, device *session) {
	s.whileWatching(w, func() {
		s.whileStreaming(w, device, "application/octet-stream", func(t *stream) {
			ctx, cancel := context.WithCancel(s.over)
			defer cancel()
			defer context.AfterFunc(r.Context(), cancel)()
			_ = t.write() // the page waits for the header
			s.sendFrames(ctx, func(age, picture []byte) error {
				length := binary.LittleEndian.AppendUint32(nil, uint32(len(age)+len(picture)))
				return t.write(length, age, picture)
			})
		})
	})
}

// whileWatching calls serve unless too many browsers receive frames.
func (s *Server) whileWatching(w http.ResponseWriter, serve func()) {
	defer s.watching.Add(-1)
	if s.watching.Add(1) > maxClients {
		http.Error(w, "too many browsers are connected", http.StatusServiceUnavailable)
		return
	}
	serve()
}

// sendFrames sends frames until ctx ends. A browser that is slower than the source misses frames.
func (s *Server) sendFrames(ctx context.Context, send func(age, picture []byte) error) {
	defer s.opts.Pictures.Watch()()
	at := s.now() - recall.Nanoseconds()
	for _, f := range s.opts.Pictures.After(at) {
		if send(s.ageOf(f), f.JPEG) != nil {
			return
		}
		at = f.At
	}
	for {
		f, err := s.opts.Pictures.Next(ctx, at)
		if err != nil || send(s.ageOf(f), f.JPEG) != nil {
			return
		}
		at = f.At
	}
}

// ageOf returns the age of a frame in ms as a float64, little-endian.
func (s *Server) ageOf(f frames.Frame) []byte {
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(millis(s.now()-f.At))))
}

func writeFrame(ctx context.Context, conn *websocket.Conn, age, picture []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeWait)
	defer cancel()
	w, err := conn.Writer(ctx, websocket.MessageBinary)
	if err != nil {
		return err
	}
	if _, err := w.Write(age); err != nil {
		return err
	}
	if _, err := w.Write(picture); err != nil {
		return err
	}
	return w.Close()
}
