package web

import (
	"context"
	"encoding/binary"
	"math"
	"net/http"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"optibfm/internal/fatal"
	"optibfm/rewardsrc/frames"
)

// album is pictures that a test adds.
type album struct {
	mu       sync.Mutex
	all      []frames.Frame
	added    chan struct{}
	watchers int
}

func newAlbum() *album { return &album{added: make(chan struct{})} }

func (a *album) add(f frames.Frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, f)
	close(a.added)
	a.added = make(chan struct{})
}

func (a *album) watch(by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchers += by
}

func (a *album) Watch() func() { a.watch(1); return func() { a.watch(-1) } }

func (a *album) After(at int64) (found []frames.Frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.all {
		if f.At > at {
			found = append(found, f)
		}
	}
	return found
}

func (a *album) Next(ctx context.Context, at int64) (frames.Frame, error) {
	for {
		a.mu.Lock()
		added := a.added
		a.mu.Unlock()
		if found := a.After(at); len(found) > 0 {
			return found[len(found)-1], nil
		}
		select {
		case <-added:
		case <-ctx.Done():
			return frames.Frame{}, ctx.Err()
		}
	}
}

func (a *album) Problem() string { return "the camera is dark" }

func TestServer_SendsFramesWithTheirAge(t *testing.T) {
	const second = int64(1e9)
	pictures := newAlbum()
	for _, age := range []int64{6, 4, 1} { // the first is too old for a new page
		pictures.add(frames.Frame{At: (100 - age) * second, JPEG: []byte{byte(age)}})
	}
	s := open(t, func(_ *Config, o *Options) {
		o.Pictures, o.Now = pictures, func() int64 { return 100 * second }
	})
	b, cookie := pairedBrowser(t, s)
	if !b.hello.Pictures {
		t.Error("hello announces no pictures")
	}
	if got := b.until("the problem", func(st state) bool { return st.Picture != "" }); got.Picture != pictures.Problem() {
		t.Error(got.Picture)
	}
	conn, _, err := connect(t, s, "/frames", cookie)
	fatal.If(t, err)
	defer conn.CloseNow()
	for _, age := range []byte{4, 1, 0} {
		if age == 0 {
			pictures.add(frames.Frame{At: 100 * second, JPEG: []byte{0}})
		}
		kind, data, err := conn.Read(t.Context())
		if err != nil || kind != websocket.MessageBinary || len(data) != 9 {
			t.Fatalf("%v, %d bytes, %v", kind, len(data), err)
		}
		if ms := math.Float64frombits(binary.LittleEndian.Uint64(data)); ms != 1000*float64(age) || data[8] != age {
			t.Errorf("frame %d, age %g ms, want %d s", data[8], ms, age)
		}
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	for pictures.watchersNow() != 0 {
		if t.Context().Err() != nil {
			t.Fatal("it is still watched")
		}
	}
}

func (a *album) watchersNow() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watchers
}

func TestServer_SendsFramesToPairedDevicesOnly(t *testing.T) {
	s := open(t, func(_ *Config, o *Options) { o.Pictures = newAlbum() })
	_, answer, err := connect(t, s, "/frames", "optibfm=guess")
	if err == nil || answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("%v, %v", answer, err)
	}
	s = open(t, nil)
	_, cookie := pairedBrowser(t, s)
	if _, answer, err := connect(t, s, "/frames", cookie); err == nil || answer.StatusCode != http.StatusNotFound {
		t.Errorf("without pictures: %v, %v", answer, err)
	}
}
