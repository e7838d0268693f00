package review

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
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

// damagesVariable sets the number of damages that the experiment tries.
const damagesVariable = "OPTIBFM_DAMAGES"

func damages() int {
	if n, err := strconv.Atoi(os.Getenv(damagesVariable)); err == nil {
		return n
	}
	if testing.Short() {
		return 100
	}
	return 300
}

// The logs that are damaged.
const (
	closedLog = iota
	packedLog // compressed
	copiedLog // by log recover
	killedLog // after a chunk
	tornLog   // within a chunk
	numLogs
)

// TestReplay_AcceptsNoDamagedLog damages logs in every way that a disk, a file system
// or a program can, and asserts that replay accepts none that it cannot verify as far
// as the undamaged log.
//
// A process that is killed leaves a log without an end, so replay accepts a log that
// was truncated or ends in zeros, up to the last chunk that is whole. No checksum covers
// the last chunk of a log that was never closed where that chunk is itself cut off:
// damage that begins there costs what a truncation at its first byte does.
func TestReplay_AcceptsNoDamagedLog(t *testing.T) {
	var subjects [numLogs]subject
	for i, log := range damagedLogs(t) {
		subjects[i] = subject{log: log, found: replayBytes(t, log)}
		if f := subjects[i].found; f.err != nil || !f.OK || !f.marked || f.Verified == 0 {
			t.Fatalf("log %d without damage: %+v", i, f)
		}
	}
	rng := rand.New(rand.NewPCG(2026, 11))
	counts := make(map[string]map[string]int)
	for i := range damages() {
		kind := damageKinds[i%len(damageKinds)]
		s := subjects[i/len(damageKinds)%numLogs]
		log := kind.apply(bytes.Clone(s.log), rng)
		name := fmt.Sprintf("damage %d: %s of log %d", i, kind.name, i/len(damageKinds)%numLogs)
		if counts[kind.name] == nil {
			counts[kind.name] = make(map[string]int)
		}
		counts[kind.name][s.check(t, name, kind.name, log)]++
	}
	total := make(map[string]int)
	for _, kind := range damageKinds {
		t.Logf("%-26s %v", kind.name, counts[kind.name])
		for outcome, n := range counts[kind.name] {
			total[outcome] += n
		}
	}
	t.Logf("%d damaged logs: %v", damages(), total)
}

// subject is a log before its damage.
type subject struct {
	log   []byte
	found replayResult
}

// check asserts what replay and log info make of a damaged log, and names it.
func (s *subject) check(t *testing.T, name, kind string, log []byte) string {
	t.Helper()
	got := replayBytes(t, log)
	accepted := got.err == nil
	if got.marked != accepted || accepted && (!got.OK || len(got.Damage) > 0) {
		t.Errorf("%s: marked as replayed %v, ok %v, damage %v, error %v", name, got.marked, got.OK, got.Damage, got.err)
	}
	if damaged := errors.Is(got.err, flightlog.ErrDamaged); damaged != errors.Is(got.info, flightlog.ErrDamaged) {
		t.Errorf("%s: replay returns %v, log info %v", name, got.err, got.info)
	}
	switch {
	case bytes.Equal(log, s.log):
		if !accepted {
			t.Errorf("%s: nothing changed, and replay returns %v", name, got.err)
		}
		return "nothing changed"
	case !accepted:
		empty := errors.Is(got.err, flightlog.ErrNotALog) || errors.Is(got.err, flightlog.ErrNoSnapshot)
		if torn := kind == truncation || kind == zeroTail; torn && !empty {
			t.Errorf("%s: a cut end is normal, and replay returns %v", name, got.err)
		}
		return "refused"
	case got.Verified == s.found.Verified && got.Ticks == s.found.Ticks:
		return "accepted, nothing lost"
	}
	// What is lost must be what a truncation costs.
	at := 0
	for at < min(len(log), len(s.log)) && log[at] == s.log[at] {
		at++
	}
	cut := replayBytes(t, s.log[:at])
	if got.Cut == "" || cut.err != nil || got.Verified != cut.Verified {
		t.Errorf("%s: accepted with %d of %d ticks verified (cut: %q); truncated there: %d, %v",
			name, got.Verified, s.found.Verified, got.Cut, cut.Verified, cut.err)
	}
	if kind != truncation && kind != zeroTail && s.closed() {
		t.Errorf("%s: accepted as a truncation", name)
	}
	return "accepted up to the cut"
}

// closed reports whether the log ends with a footer.
func (s *subject) closed() bool { return s.found.Cut == "" }

// replayResult is the result of Replay and Info for a log.
type replayResult struct {
	replayReport
	err    error
	marked bool
	info   error
}

func replayBytes(t *testing.T, log []byte) replayResult {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.mcap")
	fatal.If(t, os.WriteFile(path, log, 0o600))
	var out bytes.Buffer
	var r replayResult
	r.err = Replay(&out, path, Options{JSON: true})
	if out.Len() > 0 {
		fatal.If(t, json.Unmarshal(out.Bytes(), &r.replayReport))
	}
	r.marked = flightlog.Replayed(path)
	r.info = Info(io.Discard, path)
	return r
}

// Two kinds leave what a killed process or a power failure leaves.
const (
	truncation = "truncation"
	zeroTail   = "zeros up to the end"
)

var damageKinds = []struct {
	name  string
	apply func(log []byte, rng *rand.Rand) []byte
}{
	{"one bit flipped", func(log []byte, rng *rand.Rand) []byte { return flipped(log, rng.IntN(len(log)), rng) }},
	{"one bit of the last 2 KiB", func(log []byte, rng *rand.Rand) []byte {
		return flipped(log, max(0, len(log)-1-rng.IntN(2048)), rng)
	}},
	{"one bit of a record's lead", func(log []byte, rng *rand.Rand) []byte {
		at := 8
		for range rng.IntN(60) {
			next := at + 9 + int(log[at+1]) + int(log[at+2])<<8 + int(log[at+3])<<16
			if next+9 > len(log) {
				break
			}
			at = next
		}
		return flipped(log, at+rng.IntN(9), rng)
	}},
	{"random bytes", func(log []byte, rng *rand.Rand) []byte {
		at, n := stretch(log, rng)
		for i := range n {
			log[at+i] = byte(rng.Uint32())
		}
		return log
	}},
	{"a run of zeros", func(log []byte, rng *rand.Rand) []byte {
		at, n := stretch(log, rng)
		clear(log[at : at+n])
		return log
	}},
	{truncation, func(log []byte, rng *rand.Rand) []byte {
		at := rng.IntN(len(log))
		return log[:at]
	}},
	{zeroTail, func(log []byte, rng *rand.Rand) []byte {
		at := rng.IntN(len(log))
		clear(log[at:])
		return append(log, make([]byte, rng.IntN(8192))...)
	}},
	{"a block twice", func(log []byte, rng *rand.Rand) []byte {
		at, n := stretch(log, rng)
		return append(log[:at+n:at+n], log[at:]...)
	}},
	{"a block elsewhere too", func(log []byte, rng *rand.Rand) []byte {
		at, n := stretch(log, rng)
		to := rng.IntN(len(log) - n)
		copy(log[to:], bytes.Clone(log[at:at+n]))
		return log
	}},
	{"a block deleted", func(log []byte, rng *rand.Rand) []byte {
		at, n := stretch(log, rng)
		return append(log[:at:at], log[at+n:]...)
	}},
	{"a chunk deleted", func(log []byte, rng *rand.Rand) []byte {
		at, n := commit(log, rng)
		return append(log[:at:at], log[at+n:]...)
	}},
	{"a chunk twice", func(log []byte, rng *rand.Rand) []byte {
		at, n := commit(log, rng)
		return append(log[:at+n:at+n], log[at:]...)
	}},
	{"bytes behind the end", func(log []byte, rng *rand.Rand) []byte {
		more := make([]byte, 1+rng.IntN(300))
		for i := range more {
			more[i] = byte(1 + rng.IntN(255))
		}
		return append(log[:len(log):len(log)], more...)
	}},
}

func flipped(log []byte, at int, rng *rand.Rand) []byte {
	log[at] ^= 1 << rng.IntN(8)
	return log
}

// stretch is up to 4 KiB anywhere in a log.
func stretch(log []byte, rng *rand.Rand) (at, n int) {
	n = 1 + rng.IntN(4096)
	return rng.IntN(len(log) - n), n
}

// commit is a chunk with its message indexes.
func commit(log []byte, rng *rand.Rand) (at, n int) {
	var starts []int
	for i := 8; i+9 <= len(log); {
		next := i + 9 + int(log[i+1]) + int(log[i+2])<<8 + int(log[i+3])<<16
		if log[i] == 0x06 || log[i] == 0x0f || next > len(log) {
			starts = append(starts, i)
		}
		i = next
	}
	k := rng.IntN(len(starts) - 1)
	return starts[k], starts[k+1] - starts[k]
}

// damagedLogs are whole logs of one run of 150 ticks.
func damagedLogs(t *testing.T) (logs [numLogs][]byte) {
	t.Helper()
	read := func(path string) []byte {
		log, err := os.ReadFile(path)
		fatal.If(t, err)
		return log
	}
	path, w := writeChunks(t, false)
	logs[killedLog] = read(path)
	logs[tornLog] = logs[killedLog][:len(logs[killedLog])-1000]
	fatal.If(t, w.Close())
	logs[closedLog] = read(path)
	copied := filepath.Join(t.TempDir(), "copied.mcap")
	fatal.If(t, errtest.Of(flightlog.Recover(path, copied)))
	logs[copiedLog] = read(copied)
	path, w = writeChunks(t, true)
	fatal.If(t, w.Close())
	logs[packedLog] = read(path)
	return logs
}

// writeChunks writes the log of a run with a label every tenth tick, a snapshot every
// thirtieth and a chunk every seventh.
func writeChunks(t *testing.T, compress bool) (path string, w *flightlog.Writer) {
	t.Helper()
	shape := controller.Shape{Obs: 3, Action: 2, Latent: 4}
	cfg := controller.DefaultConfig()
	period := 20 * time.Millisecond
	path = filepath.Join(t.TempDir(), "run.mcap")
	w, err := flightlog.Create(path, flightlog.Metadata{
		Program: "test", Shape: shape, Control: cfg, Robot: hal.Spec{Name: "testbot", Period: period},
		Config: []byte("robot: {driver: rover}\noperator: {source: scripted}\n"), Extra: map[string]string{"task": "stand"},
	}, flightlog.Options{NoSync: true, Compress: compress, FlushEvery: time.Hour})
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
	path, w := writeChunks(t, false)
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
	path, w := writeChunks(t, false)
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
	rigtest.Contains(t, about, `"controller.json" does not agree`, "control    unknown", "150 in 3.0 s")
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
	path := filepath.Join(t.TempDir(), "run.mcap")
	fatal.If(t, os.WriteFile(path, damagedLogs(t)[tornLog], 0o600))
	_, infoErr := info(t, path)
	_, catErr := cat(t, path, "")
	_, replayErr := replayed(t, path, Options{})
	err := errors.Join(infoErr, catErr, replayErr, Release([]string{path}))
	if err != nil || !flightlog.Replayed(path) {
		t.Errorf("%v; marked as replayed: %v", err, flightlog.Replayed(path))
	}
}

func TestReview_PicturesDoNotAffectTheLog(t *testing.T) {
	path, w := writeChunks(t, false)
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
	path, w := writeChunks(t, false)
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
