package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

func TestRun_DeletesAReplayedLogForSpace(t *testing.T) {
	t.Parallel()
	cmd := program(t, "run.duration_s=3", "run.episode_s=0", "operator.scripted.mode=every_tick")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := logDir(cmd)
	paths, err := filepath.Glob(filepath.Join(dir, "*.mcap"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%v, %v", paths, err)
	}
	again := func() string { // with 100 bytes less than the logs take
		t.Helper()
		room, err := flightlog.MakeRoom(dir, flightlog.Limits{})
		fatal.If(t, err)
		next := program(t, "run.duration_s=0.3", "run.episode_s=0", "operator.source=none",
			fmt.Sprintf("log.keep_gb=%.9f", float64(room.Held-100)/1e9), "log.dir="+dir)
		out, err := next.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := again(); !strings.Contains(out, "were not released") {
		t.Errorf("with a log that was not verified: %s", out)
	}
	if out, err := execute("replay", paths[0]); err != nil || !flightlog.Replayed(paths[0]) {
		t.Fatalf("replay: %v\n%s", err, out)
	}
	if out := again(); !strings.Contains(out, "removed, as replayed or released: "+filepath.Base(paths[0])) {
		t.Errorf("with a replayed log: %s", out)
	}
	errtest.NotNil(t, errtest.Of(os.Stat(paths[0])), "the replayed log still exists")
}

// tidyOften makes a program check its log folder every 20 ms.
const tidyOften = "OPTIBFM_TEST_TIDY_OFTEN"

func TestRun_DeletesALogThatIsReleasedDuringTheRun(t *testing.T) {
	w, set := serveWatched(t)
	cmd := program(t, append(set, "log.keep_gb=1")...)
	cmd.Env = append(cmd.Env, tidyOften+"=1")
	output := w.start(t, cmd)
	released := filepath.Join(logDir(cmd), "earlier.mcap")
	fatal.If(t, errors.Join(os.WriteFile(released, []byte("replayed"), 0o600), os.Truncate(released, 2e9),
		flightlog.MarkReplayed(released)))
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool {
		_, err := os.Stat(released)
		return errors.Is(err, fs.ErrNotExist)
	}) {
		t.Error("the released log still exists")
	}
	terminate(t, cmd)
	rigtest.Contains(t, output.String(), "earlier.mcap")
	checkClosed(t, cmd)
}
