package frames

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	silence      = 5 * time.Second // without a frame
	idle         = 2 * time.Second // without a watcher, until the source is closed
	firstPause   = time.Second     // before the source is opened again; it doubles
	longestPause = 30 * time.Second
	mostBad      = 5 // pictures in a row, until the source is opened again
)

var (
	errSilent    = fmt.Errorf("no frame within %v", silence)
	errUnwatched = errors.New("unwatched")
)

// Run receives frames until ctx ends. It opens the source while there are watchers.
func (s *Store) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		_, wanted := s.watched()
		select {
		case <-wanted:
		case <-ctx.Done():
			return
		}
		before := s.now()
		err := s.receive(ctx)
		if errors.Is(err, errUnwatched) || ctx.Err() != nil {
			s.setProblem(nil)
			continue
		}
		s.setProblem(err)
		if len(s.After(before)) > 0 {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestPause)
	}
}

// receive opens the source and stores its frames until an error, or until the last watcher has
// left.
func (s *Store) receive(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer silent.Stop()
	go s.endUnwatched(ctx, cancel)
	bad := badPictures{store: s}
	take := Limit(s.config.RateHz)
	put := func(at int64, encode encoder) error {
		silent.Reset(silence)
		if !take(at) {
			return nil
		}
		return bad.skip(s.put(at, encode))
	}
	var err error
	if s.config.Camera != "" {
		err = s.readCamera(ctx, put)
	} else {
		err = s.readURL(ctx, put)
	}
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		err = cause
	}
	if errors.Is(err, errSilent) && bad.row > 0 {
		err = fmt.Errorf("%w; the last one was bad: %w", err, bad.last)
	}
	return fmt.Errorf("%s%s: %w", s.config.Camera, s.config.URL, err)
}

// badPictures skips bad pictures: cameras send some, also as their first.
type badPictures struct {
	store *Store
	row   int // bad pictures since the last good one
	good  bool
	last  error
}

// skip returns the error of a picture only if too many in a row were bad. A reason without a
// picture, or of more than one, is a problem before that.
func (b *badPictures) skip(err error) error {
	if err == nil {
		b.row, b.good = 0, true
		return nil
	}
	b.row++
	b.last = err
	if b.row >= mostBad {
		return fmt.Errorf("%d bad pictures in a row: %w", b.row, err)
	}
	if b.row > 1 || !b.good {
		b.store.setProblem(err)
	}
	return nil
}

// put stores a picture.
func (s *Store) put(at int64, encode encoder) error {
	picture, err := encode()
	if err != nil {
		return err
	}
	return s.add(Frame{At: at, JPEG: picture})
}

// endUnwatched cancels after a while without watchers.
func (s *Store) endUnwatched(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(idle / 5)
	defer ticker.Stop()
	since := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if yes, _ := s.watched(); yes {
			since = time.Now()
		} else if time.Since(since) >= idle {
			cancel(errUnwatched)
			return
		}
	}
}

// encoder returns a JPEG picture.
type encoder func() ([]byte, error)

// Limit returns a function that selects frames by the time of their capture, at most rateHz of
// them.
func Limit(rateHz float64) func(at int64) bool {
	period := int64(min(float64(time.Second)/rateHz, 1e15))
	var next int64
	return func(at int64) bool {
		if at < next {
			return false
		}
		next = max(next+period, at+period/2)
		return true
	}
}

// arrived returns the time of capture of a frame that has just arrived.
func (s *Store) arrived() int64 { return s.now() - int64(s.config.DelayMS*float64(time.Millisecond)) }
