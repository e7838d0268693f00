package host

import (
	"regexp"
	"time"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/recorder"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// TidyEvery is the interval at which a run checks the limits of its log folder. Tests shorten it.
var TidyEvery = time.Minute

// tidier removes pictures and marked logs while a run continues. A full disk does not end a run:
// the log reports it.
type tidier struct {
	log      configs.Log
	events   chan flightlog.Event
	reported map[string]bool // messages of the last check, without their numbers
}

// startTidying starts a tidier. The returned function ends it.
func startTidying(l configs.Log, events chan flightlog.Event, every time.Duration) (end func()) {
	if !l.Enabled || l.KeepGB == 0 && l.MinFreeGB == 0 && l.FramesDays == 0 {
		return func() {}
	}
	t := &tidier{log: l, events: events}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				t.tidy()
			}
		}
	}()
	return func() { close(stop); <-done }
}

// tidy checks the limits once. It reports an exceeded limit once, until a check finds it met.
func (t *tidier) tidy() {
	removed, exceeded, err := setup.MakeRoom(t.log)
	for _, text := range removed {
		t.report(flightlog.Info, text)
	}
	if err != nil {
		exceeded = append(exceeded, err.Error())
	}
	now := make(map[string]bool, len(exceeded))
	for _, text := range exceeded {
		kind := numbers.ReplaceAllString(text, "")
		if !t.reported[kind] {
			t.report(flightlog.Warn, text)
		}
		now[kind] = true
	}
	t.reported = now
}

var numbers = regexp.MustCompile(`\d+(\.\d+)?`)

func (t *tidier) report(level flightlog.Level, text string) {
	recorder.Offer(t.events, flightlog.Event{At: rtloop.Now(), Level: level, Text: text})
}
