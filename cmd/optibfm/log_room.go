package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/rtloop"
)

// newLogRelease makes `optibfm log release`.
func newLogRelease() *cobra.Command {
	return &cobra.Command{
		Use:   "release FILE...",
		Short: "Mark logs that were copied elsewhere, so that runs may remove them",
		Long: `Mark logs as replayed. A run removes such logs first where log.keep_gb or
log.min_free_gb asks for room; it never removes the labels of others. A log that
"optibfm replay" verified is marked already, on the computer where that ran. A
damaged log is not marked: copy what can be read, then delete it yourself.`,
		Example: "  scp robot:/var/log/optibfm/*.mcap . && ssh robot 'optibfm log release /var/log/optibfm/*.mcap'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var errs []error
			for _, path := range args {
				errs = append(errs, releaseLog(path))
			}
			return errors.Join(errs...)
		},
	}
}

// releaseLog marks a file if it is a log that is not damaged.
func releaseLog(path string) error {
	return withLog(path, func(r *flightlog.Reader) error {
		if err := damageError("log release", path, r.Damage()); err != nil {
			return err
		}
		if err := flightlog.MarkReplayed(path); err != nil {
			return fmt.Errorf("log release: %w", err)
		}
		return nil
	})
}

// makeRoom makes room for the log of a run and says in words what that cost.
// With an error there is none, and the run must not start.
func makeRoom(l configs.Log) (said []string, err error) {
	done, amiss, err := tidyLogs(l, 0)
	return append(done, amiss...), err
}

// tidyLogs makes room, but begins no log after patience; 0 is flightlog's own.
// It says in words what it did, and what it could not do.
func tidyLogs(l configs.Log, patience time.Duration) (done, amiss []string, err error) {
	room, err := flightlog.MakeRoom(l.Dir, flightlog.Limits{Keep: int64(l.KeepGB * 1e9), MinFree: int64(l.MinFreeGB * 1e9), Patience: patience})
	if len(room.Removed) > 0 {
		done = append(done, "log.keep_gb, log.min_free_gb: removed, as replayed or without a label: "+strings.Join(room.Removed, ", "))
	}
	if len(room.Thinned) > 0 {
		done = append(done, "log.keep_gb, log.min_free_gb: thinned to the labels and what they are about: "+strings.Join(room.Thinned, ", "))
	}
	for _, log := range room.Spared {
		amiss = append(amiss, sparedText(l.Dir, log))
	}
	if held := float64(room.Held) / 1e9; l.KeepGB > 0 && held > l.KeepGB {
		amiss = append(amiss, fmt.Sprintf("log.keep_gb: the labels of logs that nobody has replayed, and the log of the run, take %.2f GB: copy the logs, then `optibfm log release`", held))
	}
	if err != nil {
		err = fmt.Errorf("log.min_free_gb: %w", err)
	}
	return done, amiss, err
}

// sparedText says why a log was left alone, and what to do about it.
func sparedText(dir string, log flightlog.Spared) string {
	if errors.Is(log.Err, flightlog.ErrDamaged) {
		return damageError("log.dir", filepath.Join(dir, log.Name), []error{log.Err}).Error() + ", then delete it"
	}
	return fmt.Sprintf("log.dir: %s was left alone: %v", log.Name, log.Err)
}

// tidyEvery is how often the logs of a folder are looked at while a run goes on;
// tests are less patient. After a look that left something amiss the next one is
// twice as far, as it has read logs in vain; but not while log.min_free_gb is
// violated, when each log that is released is wanted at once.
var tidyEvery = time.Minute

const (
	tidySeldom  = time.Hour
	tidyAtMost  = 5 * time.Second // then no other log is begun
	tidyLastLog = 2 * time.Second // at the end of a run, for the one that is being thinned
)

// tidier makes room while the log of a run grows, which it leaves alone. Where
// there is no room the run goes on: a full disk is told by the log itself.
type tidier struct {
	log    configs.Log
	events chan flightlog.Event
	said   map[string]bool // what was amiss at the last look, less its numbers
	free   func(dir string) (int64, error)
}

// startTidying starts a tidier. What it returns ends it. A log that is being
// thinned then is left as it was, where it takes long.
func startTidying(l configs.Log, events chan flightlog.Event, every time.Duration) (end func()) {
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
		case <-time.After(tidyLastLog):
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
	return min(2*pause, tidySeldom)
}

// tidy looks once, and offers what a person should know. What is amiss it says
// once, until a look finds it well.
func (t *tidier) tidy() (well bool) {
	done, amiss, err := tidyLogs(t.log, tidyAtMost)
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
	offer(t.events, flightlog.Event{At: rtloop.Now(), Level: level, Text: text})
}
