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
	// Problem returns why the source delivers no frames, or "".
	Problem() string
}

// serveFrames sends frames to a paired browser over a separate WebSocket, so that they delay no press. A
// binary message is the age of the frame in ms, a little-endian float64, and a JPEG picture. A browser that is
// slower than the source misses frames.
func (s *Server) serveFrames(w http.ResponseWriter, r *http.Request) {
	if s.paired(r) == nil {
		http.Error(w, "this device is not paired", http.StatusUnauthorized)
		return
	}
	if s.watching.Add(1) > maxClients {
		s.watching.Add(-1)
		http.Error(w, "too many browsers are connected", http.StatusServiceUnavailable)
		return
	}
	defer s.watching.Add(-1)
	conn, err := websocket.Accept(w, r, acceptAll)
	if err != nil {
		return // Accept has replied
	}
	defer conn.CloseNow()
	defer s.opts.Pictures.Watch()()
	ctx := conn.CloseRead(s.over)
	at := s.now() - recall.Nanoseconds()
	for _, f := range s.opts.Pictures.After(at) {
		if s.sendFrame(ctx, conn, f) != nil {
			return
		}
		at = f.At
	}
	for {
		f, err := s.opts.Pictures.Next(ctx, at)
		if err != nil || s.sendFrame(ctx, conn, f) != nil {
			return
		}
		at = f.At
	}
}

func (s *Server) sendFrame(ctx context.Context, conn *websocket.Conn, f frames.Frame) error {
	ctx, cancel := context.WithTimeout(ctx, writeWait)
	defer cancel()
	w, err := conn.Writer(ctx, websocket.MessageBinary)
	if err != nil {
		return err
	}
	var age [8]byte
	binary.LittleEndian.PutUint64(age[:], math.Float64bits(float64(millis(s.now()-f.At))))
	if _, err := w.Write(age[:]); err != nil {
		return err
	}
	if _, err := w.Write(f.JPEG); err != nil {
		return err
	}
	return w.Close()
}
