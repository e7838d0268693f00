package frames

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/jpeg"
	"sync"
	"time"

	"optibfm/internal/redact"
)

// Kept is the time for which a Store keeps frames.
const Kept = 20 * time.Second

const (
	maxBytes = 1 << 20  // of a frame
	maxKept  = 32 << 20 // of all frames
	maxSide  = 4096     // pixels
)

// Frame is a JPEG picture.
type Frame struct {
	At   int64 // of its capture, CLOCK_MONOTONIC ns; increases from frame to frame
	JPEG []byte
}

// Store has the newest frames of a source. Several goroutines may use it.
type Store struct {
	config Config
	now    func() int64

	mu       sync.Mutex
	frames   []Frame
	size     int
	problem  string
	watchers int
	added    chan struct{} // closed when a frame is added
	wanted   chan struct{} // closed when there is a watcher
}

// NewStore returns a store without frames. Run fills it. now is CLOCK_MONOTONIC in ns.
func NewStore(c Config, now func() int64) *Store {
	return &Store{config: c, now: now, added: make(chan struct{}), wanted: make(chan struct{})}
}

// Watch keeps the source open until the returned function is called.
func (s *Store) Watch() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers++
	if s.watchers == 1 {
		close(s.wanted)
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.watchers--; s.watchers == 0 {
			s.wanted = make(chan struct{})
		}
	})
}

func (s *Store) watched() (yes bool, wanted <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watchers > 0, s.wanted
}

// Problem returns the reason why the source delivers no frames, or "". Secrets in addresses are
// hidden.
func (s *Store) Problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

func (s *Store) setProblem(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = ""
	if err != nil {
		s.problem = redact.Text(err.Error())
	}
}

// After returns the frames that were captured after a time, the oldest first. The caller does not
// change them.
func (s *Store) After(at int64) []Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.frames {
		if f.At > at {
			return append([]Frame(nil), s.frames[i:]...)
		}
	}
	return nil
}

// Next waits for a frame that was captured after a time, and returns the newest.
func (s *Store) Next(ctx context.Context, at int64) (Frame, error) {
	for {
		s.mu.Lock()
		added := s.added
		if n := len(s.frames); n > 0 && s.frames[n-1].At > at {
			defer s.mu.Unlock()
			return s.frames[n-1], nil
		}
		s.mu.Unlock()
		select {
		case <-added:
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		}
	}
}

var errNotJPEG = errors.New("not a JPEG picture")

// add checks and stores a frame. It takes the picture.
func (s *Store) add(f Frame) error {
	if len(f.JPEG) > maxBytes {
		return fmt.Errorf("picture too large (%d bytes, at most %d); lower its size or quality", len(f.JPEG), maxBytes)
	}
	picture, err := jpeg.DecodeConfig(bytes.NewReader(f.JPEG))
	if err != nil {
		return fmt.Errorf("%w (%w)", errNotJPEG, err)
	}
	if picture.Width > maxSide || picture.Height > maxSide {
		return fmt.Errorf("picture too large (%d x %d pixels, at most %d)", picture.Width, picture.Height, maxSide)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.frames); n > 0 && f.At <= s.frames[n-1].At {
		return nil // from before a restart of the source
	}
	s.frames = append(s.frames, f)
	s.size += len(f.JPEG)
	s.problem = ""
	s.drop(f.At - Kept.Nanoseconds())
	close(s.added)
	s.added = make(chan struct{})
	return nil
}

// drop removes frames from before a time, and the oldest while there are too many bytes.
func (s *Store) drop(before int64) {
	n := 0
	for n < len(s.frames)-1 && (s.frames[n].At < before || s.size > maxKept) {
		s.size -= len(s.frames[n].JPEG)
		n++
	}
	s.frames = append(s.frames[:0:0], s.frames[n:]...)
}
