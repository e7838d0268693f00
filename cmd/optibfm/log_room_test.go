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

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/control"
	"optibfm/internal/host"
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
	root := NewRootCommand()
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
	if !control.Until(20*time.Second, func() bool { _, err := os.Stat(released); return errors.Is(err, fs.ErrNotExist) }) {
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

// TestLogsMakeRoomWhileARunGoesOn gives a running tidier logs that appear after its
// start, as those of other runs do, and the log of the run itself.
func TestLogsMakeRoomWhileARunGoesOn(t *testing.T) {
	cmd := program(t, "run.duration_s=3", "run.episode_s=0", "operator.scripted.mode=every_tick")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	source, err := filepath.Glob(filepath.Join(logDir(cmd), "*.mcap"))
	if err != nil || len(source) != 1 {
		t.Fatalf("%v, %v", source, err)
	}
	text, err := os.ReadFile(source[0])
	if err != nil {
		t.Fatal(err)
	}
	labels := labelsOf(t, source[0])
	dir, events := t.TempDir(), make(chan flightlog.Event, 64)
	end := host.StartTidying(configs.Log{Enabled: true, Dir: dir, KeepGB: 1e-9}, events, time.Millisecond)
	put := func(name string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kept := put("kept.mcap")
	if !control.Until(20*time.Second, func() bool {
		info, err := os.Stat(kept)
		return err == nil && info.Size() < int64(len(text))
	}) {
		t.Fatal("a log was not thinned while the run went on")
	}
	live, err := os.Create(filepath.Join(dir, "live.mcap"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	if err := unix.Flock(int(live.Fd()), unix.LOCK_EX); err != nil { // as a writer does
		t.Fatal(err)
	}
	if err := flightlog.MarkReplayed(live.Name()); err != nil {
		t.Fatal(err)
	}
	gone := put("gone.mcap")
	if err := flightlog.MarkReplayed(gone); err != nil {
		t.Fatal(err)
	}
	if !control.Until(20*time.Second, func() bool { _, err := os.Stat(gone); return errors.Is(err, fs.ErrNotExist) }) {
		t.Error("a replayed log was not removed while the run went on")
	}
	end()
	if _, err := os.Stat(live.Name()); err != nil {
		t.Errorf("the log of the run: %v", err)
	}
	if now := labelsOf(t, kept); now != labels || labels == 0 {
		t.Errorf("%d of %d labels are left", now, labels)
	}
	warnings := 0
	for len(events) > 0 {
		if e := <-events; e.Level == flightlog.Warn {
			warnings++
		}
	}
	if warnings != 1 {
		t.Errorf("it was told %d times that the labels take more than they may", warnings)
	}
}

// labelsOf counts what people said in a log.
func labelsOf(t *testing.T, path string) (n int) {
	t.Helper()
	r, err := flightlog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for record, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if record.Label != nil {
			n++
		}
	}
	return n
}
