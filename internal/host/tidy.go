package host

import (
	"regexp"
	"time"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/record"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// TidyEvery is how often the logs of a folder are looked at while a run goes on;
// tests are less patient. After a look that left something amiss the next one is
// twice as far, as it has read logs in vain; but not while log.min_free_gb is
// violated, when each log that is released is wanted at once.
var TidyEvery = time.Minute

// tidier makes room while the log of a run grows, which it leaves alone. Where
// there is no room the run goes on: a full disk is told by the log itself.
type tidier struct {
	log    configs.Log
	events chan flightlog.Event
	said   map[string]bool // what was amiss at the last look, less its numbers
	free   func(dir string) (int64, error)
}

// StartTidying starts a tidier. What it returns ends it. A log that is being
// thinned then is left as it was, where it takes long.
func StartTidying(l configs.Log, events chan flightlog.Event, every time.Duration) (end func()) {
	if !l.Enabled || l.KeepGB == 0 && l.MinFreeGB == 0 {
		return func() {}
	}
	t := &tidier{log: l, events: events, free: flightlog.FreeBytes}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t.run(stop, every)
	}()
	return func() {
		close(stop)
		select {
		case <-done:
		case <-time.After(setup.TidyLastLog):
		}
	}
}

func (t *tidier) run(stop <-chan struct{}, every time.Duration) {
	pause, since := every, time.Duration(0)
	for {
		select {
		case <-stop:
			return
		case <-time.After(every):
		}
		if since += every; since < pause && !t.tooFull() {
			continue
		}
		pause, since = nextPause(pause, every, t.tidy()), 0
	}
}

// tooFull reports whether log.min_free_gb is violated.
func (t *tidier) tooFull() bool {
	free, err := t.free(t.log.Dir)
	return err == nil && float64(free) < t.log.MinFreeGB*1e9
}

// nextPause is the time to the next look, unless the disk gets too full before.
func nextPause(pause, every time.Duration, well bool) time.Duration {
	if well {
		return every
	}
	return min(2*pause, setup.TidySeldom)
}

// tidy looks once, and offers what a person should know. What is amiss it says
// once, until a look finds it well.
func (t *tidier) tidy() (well bool) {
	done, amiss, err := setup.TidyLogs(t.log, setup.TidyAtMost)
	for _, text := range done {
		t.tell(flightlog.Info, text)
	}
	if err != nil {
		amiss = append(amiss, err.Error())
	}
	t.warn(amiss)
	return len(amiss) == 0
}

// warn says what is new. The gigabytes in a text change all the time.
func (t *tidier) warn(amiss []string) {
	now := make(map[string]bool, len(amiss))
	for _, text := range amiss {
		kind := gigabytesIn.ReplaceAllString(text, "")
		if !t.said[kind] {
			t.tell(flightlog.Warn, text)
		}
		now[kind] = true
	}
	t.said = now
}

var gigabytesIn = regexp.MustCompile(`\d+\.\d\d`)

func (t *tidier) tell(level flightlog.Level, text string) {
	record.Offer(t.events, flightlog.Event{At: rtloop.Now(), Level: level, Text: text})
}
