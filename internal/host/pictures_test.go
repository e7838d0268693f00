package host

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/jpeg"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/fatal"
	"optibfm/internal/setup"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/frames"
)

// fakePictures fails while failing holds a value.
type fakePictures struct {
	failing chan error
	written chan flightlog.Picture
	closed  bool
}

func (f *fakePictures) Write(p flightlog.Picture) error {
	select {
	case err := <-f.failing:
		return err
	case f.written <- p:
		return nil
	}
}

func (f *fakePictures) Flush() error { return nil }
func (f *fakePictures) Close() error { f.closed = true; return nil }

func TestPictureRecorder_KeepsTheSourceOpenAndReportsAFullDiskOnce(t *testing.T) {
	var picture bytes.Buffer
	fatal.If(t, jpeg.Encode(&picture, image.NewGray(image.Rect(0, 0, 16, 8)), nil))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/jpeg")
		_, _ = w.Write(picture.Bytes())
	}))
	defer server.Close()
	view := frames.DefaultConfig()
	view.URL, view.RateHz = server.URL, 60
	store := frames.NewStore(view, rewardsrc.Monotonic)
	ctx, cancel := context.WithCancel(t.Context())
	go store.Run(ctx)

	disk := &fakePictures{failing: make(chan error), written: make(chan flightlog.Picture)}
	events := make(chan flightlog.Event, 8)
	r := &pictureRecorder{from: store, take: frames.Limit(60), to: disk, events: events}
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	first := <-disk.written
	disk.failing <- errors.New("full")
	disk.failing <- errors.New("full")
	second := <-disk.written
	third := <-disk.written
	if !bytes.Equal(first.JPEG, picture.Bytes()) || first.At >= second.At || second.At >= third.At {
		t.Errorf("pictures at %d, %d, %d", first.At, second.At, third.At)
	}
	cancel()
	go func() { // a last picture may be on its way
		for range disk.written {
		}
	}()
	<-done
	var texts []string
	for range len(events) {
		texts = append(texts, (<-events).Text)
	}
	want := []string{"pictures are not recorded; ticks and labels are: full", "pictures are recorded again"}
	if !slices.Equal(texts, want) || !disk.closed {
		t.Errorf("events %q, closed %v", texts, disk.closed)
	}
}

func TestPictureRecorder_ReportsADeadSource(t *testing.T) {
	view := frames.DefaultConfig()
	view.URL = "unix:" + filepath.Join(t.TempDir(), "none")
	store := frames.NewStore(view, rewardsrc.Monotonic)
	ctx, cancel := context.WithCancel(t.Context())
	go store.Run(ctx)
	events := make(chan flightlog.Event, 8)
	r := &pictureRecorder{from: store, take: frames.Limit(60), to: &fakePictures{}, events: events}
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	if e := <-events; e.Level != flightlog.Warn || !strings.Contains(e.Text, "no such file") {
		t.Errorf("event %+v", e)
	}
	cancel()
	<-done
}

// A source that is silent without a problem, and the end of the run, write no picture.
func TestPictureRecorder_ReportsNoRecoveryWithoutAPicture(t *testing.T) {
	events := make(chan flightlog.Event, 8)
	store := frames.NewStore(frames.DefaultConfig(), rewardsrc.Monotonic)
	r := &pictureRecorder{from: store, take: frames.Limit(60), to: &fakePictures{}, events: events}
	r.report(errors.New("full"))
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond) // one wait for a picture is a second
	defer cancel()
	r.run(ctx)
	for range len(events) {
		if e := <-events; strings.Contains(e.Text, "again") {
			t.Errorf("event %+v", e)
		}
	}
}

func TestProcess_RecordsPicturesOnlyWhenConfigured(t *testing.T) {
	for _, c := range []struct {
		view   string // of the robot's own server
		change []string
		want   bool
		note   string
	}{
		{view: "unix:/v"},
		{view: "unix:/v", change: []string{"log.frames_hz=5"}, want: true, note: "RECORDED"},
		{change: []string{"log.frames_hz=5", "operator.view.url=unix:/w"}, want: true, note: "7 days"},
		{change: []string{"log.frames_hz=5"}, note: "no pictures to record"},
	} {
		file, err := configs.Load("rover-keyboard", c.change...)
		fatal.If(t, err)
		h := &Process{Session: &setup.Session{File: file}}
		h.Config.View = c.view
		h.openPictures()
		notes := strings.Join(h.notes, "\n")
		if h.recordsPictures() != c.want || (notes != "") != (c.note != "") || !strings.Contains(notes, c.note) {
			t.Errorf("%+v: records %v, %q", c, h.recordsPictures(), notes)
		}
	}
}
