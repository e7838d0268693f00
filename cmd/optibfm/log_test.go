package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// writeTestLog writes a log of a few labelled ticks; the hash of one of them
// is wrong where liar says so.
func writeTestLog(t *testing.T, liar bool) string {
	t.Helper()
	shape := controller.Shape{Obs: 1, Action: 1, Latent: 2}
	cfg := controller.DefaultConfig()
	period := 20 * time.Millisecond
	path := filepath.Join(t.TempDir(), "run.mcap")
	w, err := flightlog.Create(path, flightlog.Metadata{
		Program: "test", Shape: shape, Control: cfg, Robot: hal.Spec{Name: "testbot", Period: period},
	}, flightlog.Options{NoSync: true})
	mustLog(t, err)
	learner, err := controller.NewLearner(cfg, shape.Latent, period)
	mustLog(t, err)
	state := make([]float64, posterior.StateLen(shape.Latent))
	learner.Belief().State(state)
	mustLog(t, w.WriteSnapshot(0, state, learner.Belief().Hash()))
	tick := controller.NewTick(shape)
	for i := range uint64(50) {
		tick.Index, tick.Elapsed, tick.SenseAt = i, min(i, 1), int64(i)*int64(period)
		tick.Flags = controller.FlagArmed | controller.FlagReward
		tick.Phi[0], tick.Phi[1], tick.Reward = 1, float64(i%7), 1
		learner.Advance(tick.Elapsed)
		learner.Observe(i, tick.SenseAt, tick.Phi)
		tick.NormSq = learner.Belief().NormSq(tick.Phi)
		tick.DGap = posterior.DGap(tick.NormSq, learner.LabelWeight())
		label := rewardsrc.Label{ID: i + 1, Tick: i, Value: 1, Kind: rewardsrc.Value, At: tick.SenseAt}
		mustLog(t, w.WriteLabel(label))
		tick.Labels[0], tick.NumLabels = learner.Apply(label, 0), 1
		tick.LogDet, tick.Hash = learner.Belief().LogDet(), learner.Belief().Hash()
		if liar && i == 30 {
			tick.Hash++
		}
		mustLog(t, w.WriteTick(tick))
	}
	mustLog(t, w.Close())
	return path
}

func mustLog(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func logOutput(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newLogCommand()
	if args[0] == "replay" {
		cmd, args = newReplayCommand(), args[1:]
	}
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage = true
	cmd.SetArgs(args)
	err := cmd.Execute()
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > reportWidth && strings.HasPrefix(line, "  ") {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	return out.String(), err
}

func expectLog(t *testing.T, out string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(out, part) {
			t.Errorf("%q is missing in\n%s", part, out)
		}
	}
}

func TestReplayOfAnHonestLogAgrees(t *testing.T) {
	out, err := logOutput(t, "replay", writeTestLog(t, false))
	mustLog(t, err)
	expectLog(t, out, "50 of 50 ticks: every hash", "50 applied")
}

func TestReplayFailsAndNamesTheTickWhereAHashDiffers(t *testing.T) {
	out, err := logOutput(t, "replay", writeTestLog(t, true))
	if !errors.Is(err, errReplayDiffers) {
		t.Errorf("got %v", err)
	}
	expectLog(t, out, "1 DIFFER", "tick 30: hash")
}

func TestReplayAnswersWhatIf(t *testing.T) {
	path := writeTestLog(t, false)
	out, err := logOutput(t, "replay", path, "--kappa", "0.5")
	mustLog(t, err)
	expectLog(t, out, "What if kappa = 0.5 (was 0)", "by a logged label", "cosine")
	out, err = logOutput(t, "replay", path, "--lambda", "2", "--json")
	mustLog(t, err)
	expectLog(t, out, `"ok": true`, `"lambda": 2`)
}

func TestReplayWritesAPageAlsoWhereTheLogDiffers(t *testing.T) {
	page := filepath.Join(t.TempDir(), "report.html")
	for _, differs := range []bool{false, true} {
		out, err := logOutput(t, "replay", writeTestLog(t, differs), "--html", page)
		if errors.Is(err, errReplayDiffers) != differs {
			t.Errorf("differs %v: got %v", differs, err)
		}
		content, err := os.ReadFile(page)
		mustLog(t, err)
		expectLog(t, out, page, "of 50 ticks")
		expectLog(t, string(content), "<!DOCTYPE html>", "</html>")
		if strings.Contains(string(content), "1 DIFFER. The first: tick 30: hash") != differs {
			t.Errorf("differs %v: the page says otherwise", differs)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(page), ".report-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAPageThatCannotBeWrittenIsAnError(t *testing.T) {
	_, err := logOutput(t, "replay", writeTestLog(t, false), "--html", filepath.Join(t.TempDir(), "no", "report.html"))
	if err == nil || !strings.Contains(err.Error(), "--html") {
		t.Errorf("got %v", err)
	}
	if _, err := logOutput(t, "replay", writeTestLog(t, false), "--html", "x.html", "--kappa", "1"); err == nil {
		t.Error("--html with --kappa was accepted")
	}
}

func TestACutLogIsDescribedAndRecovered(t *testing.T) {
	path := writeTestLog(t, false)
	whole, err := os.ReadFile(path)
	mustLog(t, err)
	mustLog(t, os.WriteFile(path, whole[:len(whole)-len(whole)/3], 0o600))
	out, err := logOutput(t, "info", path)
	mustLog(t, err)
	expectLog(t, out, "never closed", "the last tick is", "optibfm log recover")

	mended := filepath.Join(t.TempDir(), "mended.mcap")
	_, err = logOutput(t, "recover", path, "-o", mended)
	mustLog(t, err)
	out, err = logOutput(t, "info", mended)
	mustLog(t, err)
	expectLog(t, out, "whole")
	if _, err := logOutput(t, "recover", path, "-o", mended); err == nil {
		t.Error("an existing file was overwritten")
	}
}

func TestLogCatPrintsOneTopic(t *testing.T) {
	out, err := logOutput(t, "cat", writeTestLog(t, false), "--topic", "/label")
	mustLog(t, err)
	if n := strings.Count(out, "\n"); n != 50 {
		t.Errorf("%d lines for 50 labels", n)
	}
	if _, err := logOutput(t, "cat", "any", "--topic", "/nothing"); err == nil {
		t.Error("a topic that is none was accepted")
	}
}
