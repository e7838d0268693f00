package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/control"
	"optibfm/internal/setup"
)

func TestEachThingThatIsAmissIsToldOnceUntilItIsWell(t *testing.T) {
	events := make(chan flightlog.Event, 64)
	tidy := &tidier{events: events, log: configs.Log{Dir: t.TempDir(), KeepGB: 1e-9}}
	told := func() (texts string) {
		for len(events) > 0 {
			texts += (<-events).Text + "\n"
		}
		return texts
	}
	if o := tidy.tidy(); !o || told() != "" {
		t.Fatalf("an empty folder: %v", o)
	}
	damaged := filepath.Join(tidy.log.Dir, "damaged.mcap")
	if err := os.WriteFile(damaged, make([]byte, 1<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if o, text := tidy.tidy(), told(); o || !strings.Contains(text, "damaged.mcap") || !strings.Contains(text, "log.keep_gb") {
		t.Errorf("%v, told %q", o, text)
	}
	if err := os.WriteFile(damaged, make([]byte, 20<<20), 0o600); err != nil { // the gigabytes change
		t.Fatal(err)
	}
	if o, text := tidy.tidy(), told(); o || text != "" {
		t.Errorf("%v, told twice: %q", o, text)
	}
	tidy.log.MinFreeGB = 1e6
	if o, text := tidy.tidy(), told(); o || !strings.Contains(text, "log.min_free_gb") || strings.Contains(text, "log.keep_gb:") {
		t.Errorf("%v: a full disk is told as %q", o, text)
	}
	if o, text := tidy.tidy(), told(); o || text != "" {
		t.Errorf("%v, told twice: %q", o, text)
	}
	tidy.log.MinFreeGB = 0
	if o := tidy.tidy(); o || told() != "" {
		t.Errorf("%v", o)
	}
	tidy.log.MinFreeGB = 1e6
	if o := tidy.tidy(); o || told() == "" {
		t.Error("a disk that is full again is not told")
	}
}

func TestLooksInVainAreSeldomerButNotWhileTheDiskIsTooFull(t *testing.T) {
	const every = time.Millisecond
	dir := t.TempDir()
	damaged := filepath.Join(dir, "damaged.mcap")
	if err := os.WriteFile(damaged, make([]byte, 1<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if nextPause(setup.TidySeldom, time.Minute, true) != time.Minute || nextPause(time.Minute, time.Minute, false) != 2*time.Minute || nextPause(setup.TidySeldom, time.Minute, false) != setup.TidySeldom {
		t.Error("the pause is not doubled up to an hour, and then shortened")
	}
	var full atomic.Bool
	var looked atomic.Int64
	tidy := &tidier{events: make(chan flightlog.Event), log: configs.Log{Dir: dir, KeepGB: 1e-9, MinFreeGB: 1}}
	tidy.free = func(string) (int64, error) {
		looked.Add(1)
		if full.Load() {
			return 0, nil
		}
		return 2e9, nil
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tidy.run(stop, every)
	}()
	defer func() { close(stop); <-done }()
	// Each look doubles the pause: of 500 ms at most some ten are looks.
	if !control.Until(20*time.Second, func() bool { return looked.Load() > 500 }) {
		t.Fatal("nobody looks whether the disk is full")
	}
	full.Store(true)
	gone := filepath.Join(dir, "gone.mcap")
	if err := errors.Join(os.WriteFile(gone, nil, 0o600), flightlog.MarkReplayed(gone)); err != nil {
		t.Fatal(err)
	}
	// The next look would come some 500 pauses later, had the disk room.
	begun := looked.Load()
	if !control.Until(20*time.Second, func() bool { _, err := os.Stat(gone); return errors.Is(err, fs.ErrNotExist) }) || looked.Load() > begun+100 {
		t.Errorf("%d pauses after the disk was full a released log is there or just gone", looked.Load()-begun)
	}
}
