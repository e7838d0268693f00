package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/flightlog"
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
	if out := again(); !strings.Contains(out, "thinned to the labels") {
		t.Errorf("an unreplayed log: %s", out)
	}
	var text bytes.Buffer
	root := newRootCommand()
	root.SetOut(&text)
	root.SetArgs([]string{"replay", paths[0]})
	if err := root.Execute(); err != nil || !flightlog.Replayed(paths[0]) {
		t.Fatalf("the thinned log: %v\n%s", err, text.String())
	}
	if out := again(); !strings.Contains(out, "removed, as replayed") {
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
	root := newRootCommand()
	root.SetArgs([]string{"log", "release", path})
	if err := root.Execute(); err == nil || flightlog.Replayed(path) {
		t.Errorf("found %v", err)
	}
}
