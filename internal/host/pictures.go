package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"optibfm/flightlog"
	"optibfm/internal/recorder"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/frames"
	"optibfm/rtloop"
)

// lastPicture is the time for which the end of a run waits for a disk that takes no pictures.
const lastPicture = 2 * time.Second

// openPictures receives the pictures of operator.view, or else those of the robot's own server.
func (h *Process) openPictures() {
	file, from := h.Session.File, h.Session.File.Operator.View
	if !from.Enabled() {
		from.URL = h.Config.View
	}
	if from.Enabled() {
		h.pictures = frames.NewStore(from, rewardsrc.Monotonic)
		go h.pictures.Run(context.Background()) // ends with the process
	}
	switch {
	case h.recordsPictures():
		h.notes = append(h.notes, fmt.Sprintf("pictures are RECORDED beside the log, at most %g a second (log.frames_hz); %s",
			file.Log.FramesHz, keptText(file.Log.FramesDays)))
	case file.Log.FramesHz > 0:
		h.notes = append(h.notes, "log.frames_hz: the robot has no pictures to record; set operator.view")
	}
}

func keptText(days float64) string {
	if days == 0 {
		return "they are kept until space is short"
	}
	return fmt.Sprintf("a run removes them after %g days (log.frames_days)", days)
}

func (h *Process) recordsPictures() bool {
	return h.pictures != nil && h.Session.File.Log.Enabled && h.Session.File.Log.FramesHz > 0
}

// startRecordingPictures records pictures, in a goroutine that no other one waits for: a slow or
// full disk costs pictures, which the store drops after a while. The returned function ends the
// recording.
func (h *Process) startRecordingPictures() (end func()) {
	if !h.recordsPictures() || h.Recorder.Log == nil {
		return func() {}
	}
	log := h.Session.File.Log
	r := &pictureRecorder{
		from: h.pictures, take: frames.Limit(log.FramesHz), to: h.Recorder.Log.Pictures(int64(log.MinFreeGB * 1e9)),
		events: h.Planner.Events,
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(ctx)
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(lastPicture):
		}
	}
}

// pictureRecorder writes pictures beside the log.
type pictureRecorder struct {
	from    *frames.Store
	take    func(at int64) bool
	to      pictureWriter
	events  chan flightlog.Event
	failing bool
}

// pictureWriter is flightlog.PictureWriter.
type pictureWriter interface {
	Write(flightlog.Picture) error
	Flush() error
	Close() error
}

// run records until ctx ends. It keeps the source of the pictures open.
func (r *pictureRecorder) run(ctx context.Context) {
	defer r.from.Watch()()
	last := rtloop.Now()
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, time.Second)
		_, err := r.from.Next(wait, last)
		cancel()
		if err != nil {
			r.fail(cmp.Or(r.to.Flush(), r.problem()))
			continue
		}
		for _, f := range r.from.After(last) {
			last = f.At
			if r.take(f.At) && ctx.Err() == nil {
				r.report(r.to.Write(flightlog.Picture{At: f.At, JPEG: f.JPEG}))
			}
		}
	}
	r.fail(r.to.Close())
}

// fail reports an error, if there is one: only a written picture ends a failure.
func (r *pictureRecorder) fail(err error) {
	if err != nil {
		r.report(err)
	}
}

// problem returns the reason why the source delivers no pictures.
func (r *pictureRecorder) problem() error {
	if text := r.from.Problem(); text != "" {
		return errors.New(text)
	}
	return nil
}

// report reports the result of a write, an error only once until a picture is written again.
func (r *pictureRecorder) report(err error) {
	if failing := err != nil; failing != r.failing {
		r.failing = failing
		e := flightlog.Event{At: rtloop.Now(), Level: flightlog.Info, Text: "pictures are recorded again"}
		if failing {
			e.Level, e.Text = flightlog.Warn, "pictures are not recorded; ticks and labels are: "+err.Error()
		}
		recorder.Offer(r.events, e)
	}
}
