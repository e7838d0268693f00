package review

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/posterior"
)

// writeChunks writes the log of a run with a label every tenth tick, a snapshot every
// thirtieth and a chunk every seventh.
func writeChunks(t *testing.T) (path string, w *flightlog.Writer) {
	t.Helper()
	shape := controller.Shape{Obs: 3, Action: 2, Latent: 4}
	cfg := controller.DefaultConfig()
	period := 20 * time.Millisecond
	path = filepath.Join(t.TempDir(), "run.mcap")
	w, err := flightlog.Create(path, flightlog.Metadata{
		Program: "test", Shape: shape, Control: cfg, Robot: hal.Spec{Name: "testbot", Period: period},
		Config: []byte("robot: {driver: rover}\noperator: {source: scripted}\n"), Extra: map[string]string{"task": "stand"},
	}, flightlog.Options{NoSync: true, FlushEvery: time.Hour})
	fatal.If(t, err)
	learner, err := controller.NewLearner(cfg, shape.Latent, period)
	fatal.If(t, err)
	state := make([]float64, posterior.StateLen(shape.Latent))
	tick := controller.NewTick(shape)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range uint64(150) {
		if i%30 == 0 {
			learner.Belief().State(state)
			fatal.If(t, w.WriteSnapshot(flightlog.Snapshot{Next: i, State: state, Hash: learner.Belief().Hash()}))
		}
		tick.Flags = controller.FlagArmed
		for k := range tick.Phi {
			tick.Phi[k], tick.Z[k] = rng.NormFloat64(), rng.NormFloat64()
		}
		writeTick(t, w, learner, tick, i, i%10 == 9, false)
		if i%7 == 6 {
			fatal.If(t, w.Flush())
		}
	}
	fatal.If(t, w.Flush())
	return path, w
}

// damagedLog writes a log with a flipped bit in a chunk in its middle, in a folder whose
// name needs quotes in a shell.
func damagedLog(t *testing.T) string {
	t.Helper()
	path, w := writeChunks(t)
	fatal.If(t, w.Close())
	log, err := os.ReadFile(path)
	fatal.If(t, err)
	log[len(log)/2+200] ^= 1
	t.Chdir(t.TempDir())
	path = filepath.Join("-my logs", "run.mcap")
	fatal.If(t, os.Mkdir(filepath.Dir(path), 0o700))
	fatal.If(t, os.WriteFile(path, log, 0o600))
	return path
}

func TestReview_EveryFunctionReportsDamage(t *testing.T) {
	path, kappa := damagedLog(t), 0.5
	whatIf := &flightlog.Params{Kappa: &kappa}
	page := filepath.Join(t.TempDir(), "run.html")
	for name, c := range map[string]struct {
		call func() (string, error)
		want []string
	}{
		"info": {func() (string, error) { return info(t, path) }, []string{"damaged from byte", "d = 4"}},
		"cat": {func() (string, error) { return cat(t, path, "") },
			[]string{"log cat: damaged from byte", `"index":"149"`}},
		"replay": {func() (string, error) { return replayed(t, path, Options{}) },
			[]string{"damaged from byte", "NO: the log is damaged", "missing ticks", "resumed"}},
		"JSON": {func() (string, error) { return replayed(t, path, Options{JSON: true}) },
			[]string{`"ok": false`, `"damage": [`}},
		"what if": {func() (string, error) { return replayed(t, path, Options{WhatIf: whatIf}) },
			[]string{"What if", "the log is damaged: this is approximate"}},
		"page": {func() (string, error) { return replayed(t, path, Options{Page: page}) },
			[]string{"NO: the log is damaged"}},
		"release": {func() (string, error) { return "", Release([]string{path}) }, nil},
	} {
		out, err := c.call()
		if !errors.Is(err, flightlog.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rigtest.Contains(t, out, c.want...)
		rigtest.Contains(t, err.Error(), "damaged from byte", "checksum of a chunk", "log recover './"+path+"'")
		if flightlog.Replayed(path) {
			t.Errorf("%s: the log is marked as replayed", name)
		}
	}
}

func TestReview_ReadsALogWhoseSettingsAreDamaged(t *testing.T) {
	path, w := writeChunks(t)
	fatal.If(t, w.Close())
	log, err := os.ReadFile(path)
	fatal.If(t, err)
	log[bytes.Index(log, []byte("controller.json"))+400] ^= 1
	fatal.If(t, os.WriteFile(path, log, 0o600))
	about, infoErr := info(t, path)
	ticks, catErr := cat(t, path, "/tick")
	text, replayErr := replayed(t, path, Options{})
	var report bytes.Buffer
	jsonErr := Replay(&report, path, Options{JSON: true})
	page, pageErr := replayed(t, path, Options{Page: filepath.Join(t.TempDir(), "run.html")})
	for _, err := range []error{infoErr, catErr, replayErr, jsonErr, pageErr} {
		errtest.Is(t, err, flightlog.ErrDamaged)
	}
	rigtest.Contains(t, about, "attachment: wrong checksum of", "control    unknown", "150 in 3.0 s")
	rigtest.Contains(t, text, "NO: nothing in the log can be verified", "150 ticks can be read")
	rigtest.Contains(t, report.String(), `"ok": false`, `"unverifiable": "`, `"ticks": 150`)
	rigtest.Contains(t, page, "NO: nothing in the log can be verified")
	if n := strings.Count(ticks, `"index"`); n < 149 || flightlog.Replayed(path) {
		t.Errorf("%d ticks; marked as replayed: %v", n, flightlog.Replayed(path))
	}
	fatal.If(t, Recover(io.Discard, path, path+".copy"))
	text, err = replayed(t, path+".copy", Options{})
	rigtest.Contains(t, text, "150 ticks can be")
	errtest.Is(t, err, flightlog.ErrUnverifiable, "the copy")
}

func TestReplay_DoesNotMarkARecoveredCopy(t *testing.T) {
	path := damagedLog(t)
	fatal.If(t, Recover(io.Discard, path, "copy.mcap"))
	out, err := replayed(t, "copy.mcap", Options{})
	fatal.If(t, err)
	rigtest.Contains(t, out, "recovered", "from a log with damage")
	if flightlog.Replayed("copy.mcap") {
		t.Error("the copy is marked as replayed: a run may remove it")
	}
}

func TestReview_AKilledRunsLogIsNotDamaged(t *testing.T) {
	path, w := writeChunks(t)
	fatal.If(t, w.Flush())
	size, err := os.Stat(path)
	fatal.If(t, err)
	fatal.If(t, os.Truncate(path, size.Size()-1000))
	_, infoErr := info(t, path)
	_, catErr := cat(t, path, "")
	_, replayErr := replayed(t, path, Options{})
	err = errors.Join(infoErr, catErr, replayErr, Release([]string{path}))
	if err != nil || !flightlog.Replayed(path) {
		t.Errorf("%v; marked as replayed: %v", err, flightlog.Replayed(path))
	}
}

func TestReview_PicturesDoNotAffectTheLog(t *testing.T) {
	path, w := writeChunks(t)
	pictures := w.Pictures(0)
	for i := range 3 {
		fatal.If(t, pictures.Write(flightlog.Picture{At: int64(i), JPEG: []byte("picture")}))
	}
	fatal.If(t, errors.Join(pictures.Close(), w.Close()))
	out, err := info(t, path)
	fatal.If(t, err)
	rigtest.Contains(t, out, "pictures   3, ")
	file := strings.TrimSuffix(path, ".mcap") + ".view-001.mcap"
	content, err := os.ReadFile(file)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(file, bytes.Replace(content, []byte("picture"), []byte("damaged"), -1), 0o600))
	var page bytes.Buffer
	err = errors.Join(Info(&page, path), Replay(io.Discard, path, Options{}),
		Replay(io.Discard, path, Options{Page: filepath.Join(t.TempDir(), "run.html")}), Release([]string{file}))
	fatal.If(t, err)
	rigtest.Contains(t, page.String(), "complete", "not all are readable")
	if !flightlog.Replayed(path) || flightlog.Replayed(file) {
		t.Error("the log is not marked as replayed, or its pictures are")
	}
}

func TestReplay_PageOfALogWithoutASnapshotIsAnError(t *testing.T) {
	path, w := writeChunks(t)
	fatal.If(t, w.Close())
	log, err := os.ReadFile(path)
	fatal.If(t, err)
	beforeTheFirstChunk := bytes.Index(log, []byte("robot: {driver")) + 100
	fatal.If(t, os.WriteFile(path, log[:beforeTheFirstChunk], 0o600))
	for _, o := range []Options{{}, {Page: filepath.Join(t.TempDir(), "run.html")}} {
		if _, err := replayed(t, path, o); !errors.Is(err, flightlog.ErrNoSnapshot) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
