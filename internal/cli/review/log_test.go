package review

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
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// writeLog writes a log of 50 labelled ticks. With differs, the hash of tick 30 is wrong.
func writeLog(t *testing.T, differs bool) string {
	t.Helper()
	shape := controller.Shape{Obs: 1, Action: 1, Latent: 2}
	cfg := controller.DefaultConfig()
	period := 20 * time.Millisecond
	path := filepath.Join(t.TempDir(), "run.mcap")
	w, err := flightlog.Create(path, flightlog.Metadata{
		Program: "test", Shape: shape, Control: cfg, Robot: hal.Spec{Name: "testbot", Period: period},
		Extra: map[string]string{"task": ""}, // as of a robot that is no simulator
	}, flightlog.Options{NoSync: true})
	fatal.If(t, err)
	learner, err := controller.NewLearner(cfg, shape.Latent, period)
	fatal.If(t, err)
	state := make([]float64, posterior.StateLen(shape.Latent))
	learner.Belief().State(state)
	fatal.If(t, w.WriteSnapshot(flightlog.Snapshot{State: state, Hash: learner.Belief().Hash()}))
	tick := controller.NewTick(shape)
	for i := range uint64(50) {
		tick.Flags = controller.FlagArmed | controller.FlagReward
		tick.Phi[0], tick.Phi[1], tick.Reward = 1, float64(i%7), 1
		writeTick(t, w, learner, tick, i, true, differs && i == 30)
	}
	fatal.If(t, w.Close())
	return path
}

func TestInfo_HasNoEmptyFields(t *testing.T) {
	var out bytes.Buffer
	fatal.If(t, Info(&out, writeLog(t, false)))
	if strings.Contains(out.String(), "task") {
		t.Errorf("%s", out.String())
	}
}

func TestPrintSummary_SaysHowWellTheBeliefPredicts(t *testing.T) {
	known := controller.Interval{Low: 0.55, Middle: 0.7, High: 0.9}
	for skill, want := range map[float64]string{
		0.3: "better than guessing, reaches 55–90 %, at the end",
		0.1: "no better than guessing, at the end",
	} {
		var out bytes.Buffer
		printSummary(&out, flightlog.Summary{Evidence: controller.Evidence{Skill: skill, SkillError: 0.1}, Known: known})
		rigtest.Contains(t, out.String(), "predicts   "+want+"\n")
	}
	var out bytes.Buffer
	if printSummary(&out, flightlog.Summary{}); strings.Contains(out.String(), "predicts") {
		t.Errorf("a judgement without labels: %s", out.String())
	}
}

func TestPrintSummary_NamesTheCauseOfTheEnd(t *testing.T) {
	for end, want := range map[string]string{
		"":                            "",
		"host failed: silence\x1b[2J": "  ended by   host failed: silence?[2J\n",
	} {
		var out bytes.Buffer
		printSummary(&out, flightlog.Summary{End: end})
		if got := out.String(); !strings.HasSuffix(got, want) || end == "" && strings.Contains(got, "ended by") {
			t.Errorf("%q: want %q in\n%s", end, want, got)
		}
	}
}

// writeTick completes a tick from its features and writes it, with a label or a wrong hash.
func writeTick(
	t *testing.T, w *flightlog.Writer, learner *controller.Learner, tick *controller.Tick, i uint64, label, wrong bool,
) {
	t.Helper()
	tick.Index, tick.Elapsed, tick.SenseAt = i, min(i, 1), int64(i)*int64(20*time.Millisecond)
	learner.Advance(tick.Elapsed)
	learner.Observe(i, tick.SenseAt, tick.Phi, nil)
	tick.NormSq = learner.Belief().NormSq(tick.Phi)
	tick.DGap = posterior.DGap(tick.NormSq, learner.LabelWeight())
	if tick.NumLabels = 0; label {
		l := rewardsrc.Label{ID: i + 1, Tick: i, Value: 1, Kind: rewardsrc.Value, At: tick.SenseAt}
		fatal.If(t, w.WriteLabel(l))
		tick.Labels[0], tick.NumLabels = learner.Apply(l, 0), 1
	}
	tick.Revised = learner.Settle(tick.Index)
	tick.Sigma, tick.Zero = learner.Sigma(), learner.Zero()
	tick.LogDet, tick.Hash = learner.Belief().LogDet(), learner.Belief().Hash()
	if wrong {
		tick.Hash++
	}
	fatal.If(t, w.WriteTick(tick))
}

// printed calls a function that prints, and checks the width of the lines.
func printed(t *testing.T, print func(out *bytes.Buffer) error) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := print(&out)
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width && strings.HasPrefix(line, "  ") {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	return out.String(), err
}

func replayed(t *testing.T, path string, o Options) (string, error) {
	t.Helper()
	return printed(t, func(out *bytes.Buffer) error { return Replay(out, path, o) })
}

func info(t *testing.T, path string) (string, error) {
	t.Helper()
	return printed(t, func(out *bytes.Buffer) error { return Info(out, path) })
}

func cat(t *testing.T, path, topic string) (string, error) {
	t.Helper()
	return printed(t, func(out *bytes.Buffer) error { return Cat(out, out, path, topic) })
}

func TestReplay_ComparesEveryTick(t *testing.T) {
	out, err := replayed(t, writeLog(t, false), Options{})
	fatal.If(t, err)
	rigtest.Contains(t, out, "50 of 50 ticks: every hash", "50 applied")
	out, err = replayed(t, writeLog(t, true), Options{})
	errtest.Is(t, err, ErrDiffers)
	rigtest.Contains(t, out, "1 DIFFER", "tick 30: hash")
}

func TestReplay_AnswersWhatIf(t *testing.T) {
	path, kappa, lambda := writeLog(t, false), 0.5, 2.0
	out, err := replayed(t, path, Options{WhatIf: &flightlog.Params{Kappa: &kappa}})
	fatal.If(t, err)
	rigtest.Contains(t, out, "What if kappa = 0.5 (was 0)", "by a logged label", "cosine")
	out, err = replayed(t, path, Options{WhatIf: &flightlog.Params{Lambda: &lambda}, JSON: true})
	fatal.If(t, err)
	rigtest.Contains(t, out, `"ok": true`, `"lambda": 2`)
}

func TestReplay_WritesAPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "report.html")
	for _, differs := range []bool{false, true} {
		out, err := replayed(t, writeLog(t, differs), Options{Page: page})
		if errors.Is(err, ErrDiffers) != differs {
			t.Errorf("differs %v: got %v", differs, err)
		}
		content, err := os.ReadFile(page)
		fatal.If(t, err)
		rigtest.Contains(t, out, page, "of 50 ticks")
		rigtest.Contains(t, string(content), "<!DOCTYPE html>", "</html>")
		if strings.Contains(string(content), "1 DIFFER. The first: tick 30: hash") != differs {
			t.Errorf("differs %v: the page does not agree", differs)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(page), ".report-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	_, err := replayed(t, writeLog(t, false), Options{Page: filepath.Join(t.TempDir(), "no", "report.html")})
	errtest.Contains(t, err, "--html", "in a missing folder")
}

func TestRecover_CopiesACutLog(t *testing.T) {
	path := writeLog(t, false)
	whole, err := os.ReadFile(path)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(path, whole[:len(whole)-len(whole)/3], 0o600))
	out, err := info(t, path)
	fatal.If(t, err)
	rigtest.Contains(t, out, "never closed", "the last tick", "log recover "+path)

	target := filepath.Join(t.TempDir(), "copy.mcap")
	for try := range 2 {
		_, err := printed(t, func(out *bytes.Buffer) error { return Recover(out, path, target) })
		if exists := try == 1; exists != (err != nil) {
			t.Errorf("the copy exists: %v, found %v", exists, err)
		}
	}
	out, err = info(t, target)
	fatal.If(t, err)
	rigtest.Contains(t, out, "complete")
}

func TestCat_PrintsOneTopic(t *testing.T) {
	out, err := cat(t, writeLog(t, false), "/label")
	fatal.If(t, err)
	if n := strings.Count(out, "\n"); n != 50 {
		t.Errorf("%d lines for 50 labels", n)
	}
	errtest.NotNil(t, errtest.Of(cat(t, "any", "/nothing")), "an unknown topic was accepted")
}

func TestRelease_MarksLogsOnly(t *testing.T) {
	notes, log := filepath.Join(t.TempDir(), "notes.mcap"), writeLog(t, false)
	fatal.If(t, os.WriteFile(notes, []byte("no log"), 0o600))
	if err := Release([]string{notes, log}); err == nil || flightlog.Replayed(notes) || !flightlog.Replayed(log) {
		t.Errorf("%v; marked: notes %v, log %v", err, flightlog.Replayed(notes), flightlog.Replayed(log))
	}
}

func TestReplay_ALogWithoutAComparedTickIsAnError(t *testing.T) {
	r := flightlog.Result{Unverified: 9, Summary: flightlog.Summary{Counts: flightlog.Counts{Ticks: 9}}}
	errtest.Is(t, replayError("run.mcap", r), errNotCompared, "replay")
	if text := verdictText(r); !strings.HasPrefix(text, "NO: ") {
		t.Errorf("verdict %q", text)
	}
}
