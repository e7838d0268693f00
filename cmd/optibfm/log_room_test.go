package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"optibfm/flightlog"
	"optibfm/internal/rigtest"
)

func TestAFullDiskIsReportedBeforeTheRobotMoves(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, append(set, "run.duration_s=1", "log.min_free_gb=1000000")...)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "log.min_free_gb") || !strings.Contains(string(out), "nothing moved") {
		t.Errorf("%v\n%s", err, out)
	}
	if w.acts.Load() != 0 || w.Arms != 0 {
		t.Errorf("%d acts", w.acts.Load())
	}
}

func TestAReplayedLogMakesRoomForTheNextRunWhichSaysSo(t *testing.T) {
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
	again := func() string {
		t.Helper()
		next := program(t, "run.duration_s=0.3", "run.episode_s=0", "operator.source=none", "log.keep_gb=1e-9", "log.dir="+dir)
		out, err := next.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := again(); !strings.Contains(out, "were not verified") {
		t.Errorf("a log that was not verified: %s", out)
	}
	var text bytes.Buffer
	root := NewRootCommand()
	root.SetOut(&text)
	root.SetArgs([]string{"replay", paths[0]})
	if err := root.Execute(); err != nil || !flightlog.Replayed(paths[0]) {
		t.Fatalf("replay: %v\n%s", err, text.String())
	}
	if out := again(); !strings.Contains(out, "removed, as verified") {
		t.Errorf("a replayed log: %s", out)
	}
	if _, err := os.Stat(paths[0]); err == nil {
		t.Error("it is still there")
	}
}

func TestReleaseMarksLogsAndNothingElse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notes.mcap")
	if err := os.WriteFile(path, []byte("no log"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := NewRootCommand()
	root.SetArgs([]string{"log", "release", path})
	if err := root.Execute(); err == nil || flightlog.Replayed(path) {
		t.Errorf("found %v", err)
	}
}

// tidyOften makes a program look at its log folder all the time.
const tidyOften = "OPTIBFM_TEST_TIDY_OFTEN"

func TestALogThatIsReleasedWhileARunGoesOnMakesRoomForIt(t *testing.T) {
	w, set := serveWatched(t)
	cmd := program(t, append(set, "log.keep_gb=1e-9")...)
	cmd.Env = append(cmd.Env, tidyOften+"=1")
	output := w.start(t, cmd)
	released := filepath.Join(logDir(cmd), "earlier.mcap")
	if err := errors.Join(os.WriteFile(released, []byte("replayed"), 0o600), flightlog.MarkReplayed(released)); err != nil {
		t.Fatal(err)
	}
	if !rigtest.WaitUntil(20*time.Second, func() bool { _, err := os.Stat(released); return errors.Is(err, fs.ErrNotExist) }) {
		t.Error("it is still there")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !strings.Contains(output.String(), "earlier.mcap") {
		t.Errorf("nobody was told:\n%s", output)
	}
	if cut := onlyLog(t, cmd).Cut(); cut != nil {
		t.Errorf("the log of the run: %+v", cut)
	}
}
