package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

func TestTidier_ReportsAnExceededLimitOnce(t *testing.T) {
	events := make(chan flightlog.Event, 64)
	tidy := &tidier{events: events, log: configs.Log{Dir: t.TempDir(), KeepGB: 1e-9}}
	kept := filepath.Join(tidy.log.Dir, "kept.mcap")
	resize := func(size int) { fatal.If(t, os.WriteFile(kept, make([]byte, size), 0o600)) }
	for i, step := range []struct {
		change func()
		want   string // part of the only message; empty: no message
	}{
		{func() {}, ""},
		{func() { resize(1 << 10) }, "log.keep_gb"},
		{func() { resize(20 << 20) }, ""}, // only the size in the message changes
		{func() { tidy.log.MinFreeGB = 1e6 }, "log.min_free_gb"},
		{func() {}, ""},
		{func() { tidy.log.MinFreeGB = 0 }, ""},
		{func() { tidy.log.MinFreeGB = 1e6 }, "log.min_free_gb"},
	} {
		step.change()
		tidy.tidy()
		if n := len(events); n > 1 || (n == 1) != (step.want != "") {
			t.Fatalf("step %d: %d messages", i, n)
		}
		if step.want == "" {
			continue
		}
		if e := <-events; e.Level != flightlog.Warn || !strings.Contains(e.Text, step.want) {
			t.Errorf("step %d: %q", i, e.Text)
		}
	}
}

// The tidier removes pictures and a verified log that appear during a run. It keeps a log without a
// mark and the log of a run.
func TestTidier_RemovesPicturesAndVerifiedLogsDuringARun(t *testing.T) {
	dir, events := t.TempDir(), make(chan flightlog.Event, 64)
	end := startTidying(configs.Log{Enabled: true, Dir: dir, KeepGB: 5.5e-9}, events, time.Millisecond) // kept and 2 bytes
	kept := filepath.Join(dir, "kept.mcap")
	live, err := os.Create(filepath.Join(dir, "live.mcap"))
	fatal.If(t, err)
	defer live.Close()
	verified, pictures := filepath.Join(dir, "verified.mcap"), filepath.Join(dir, "kept.view-001.mcap")
	err = errors.Join(
		unix.Flock(int(live.Fd()), unix.LOCK_EX), // as a writer does
		flightlog.MarkReplayed(live.Name()),
		os.WriteFile(kept, []byte("log"), 0o600),
		os.WriteFile(pictures, []byte("pictures"), 0o600),
		os.WriteFile(verified, []byte("log"), 0o600),
		flightlog.MarkReplayed(verified),
	)
	fatal.If(t, err)
	for _, path := range []string{pictures, verified} {
		removed := func() bool { _, err := os.Stat(path); return errors.Is(err, fs.ErrNotExist) }
		if !rigtest.WaitUntil(rigtest.HangGuard, removed) {
			t.Errorf("%s was not removed", path)
		}
	}
	end()
	for _, path := range []string{kept, live.Name()} {
		errtest.Nil(t, errtest.Of(os.Stat(path)))
	}
}
