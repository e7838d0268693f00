package doctor

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/fatal"
	"optibfm/tflite"
)

func TestDoctor_ChecksLogFolderAndLeavesNoFiles(t *testing.T) {
	dir := t.TempDir()
	d := doctorFor(t, fakeMachine(tree()), "rover", "log.dir="+dir)
	expect(t, "existing", d.checkLogFolder(), statusOK, "is writable")
	if f := d.checkSync(t.Context()); f.Values["p99_ms"] <= 0 || f.Values["p50_ms"] > f.Values["p99_ms"] {
		t.Errorf("%+v", f)
	}
	expect(t, "no model", d.checkSpace(), statusSkip, "42.9 GB", "model.bundle")
	d.checkBundle()
	expect(t, "space", d.checkSpace(), statusOK, "42.9 GB", "85 MB/h")
	d.space = func(string) (unix.Statfs_t, error) { return unix.Statfs_t{Type: 0x01021994}, nil }
	expect(t, "tmpfs", d.checkLogFolder(), statusWarn, "in memory")
	d.space = func(string) (unix.Statfs_t, error) { return unix.Statfs_t{}, unix.EIO }
	expect(t, "statfs error", d.checkSpace(), statusFail, "input/output error")
	d.file.Log.Dir = filepath.Join(dir, "a", "b")
	expect(t, "new", d.checkLogFolder(), statusOK, "a run creates "+d.file.Log.Dir)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

func TestDoctor_FailsWithoutLogFolder(t *testing.T) {
	d := doctorFor(t, fakeMachine(tree()), "rover", "log.dir=/proc/nothing/here")
	expect(t, "no rights", d.checkLogFolder(), statusFail, "sudo install -d -o optibfm /proc/nothing/here")
	expect(t, "no rights", d.checkSync(t.Context()), statusSkip, "disk.log_dir")
	file := filepath.Join(t.TempDir(), "file")
	fatal.If(t, os.WriteFile(file, nil, 0o600))
	d.file.Log.Dir = filepath.Join(file, "logs")
	expect(t, "below a file", d.checkLogFolder(), statusFail, "file")
	d.file.Log.Enabled = false
	if checks := d.diskChecks(); len(checks) != 1 {
		t.Errorf("%+v", checks)
	} else {
		expect(t, "off", checks[0].run(t.Context())[0], statusWarn, "log.enabled")
	}
}

func TestDoctor_GradesSyncsAndSpace(t *testing.T) {
	const ms = time.Millisecond
	for status, times := range map[string][]time.Duration{
		statusOK: {ms, 3 * ms, 2 * ms}, statusWarn: {ms, 150 * ms}, statusSkip: nil,
	} {
		expect(t, "syncs", gradeSyncs(times), status)
	}
	if f := gradeSyncs([]time.Duration{ms, 2 * time.Second}); f.Status != statusWarn || !f.Strict {
		t.Errorf("%+v, want a strict warning", f)
	}
	for _, c := range []struct {
		hours, minFree float64
		status, word   string
	}{
		{0.2, 0, statusFail, "0.2 hours"}, {3, 0, statusWarn, "3.0 hours"}, {100, 0, statusOK, "36 MB/h"},
		{100, 101 * 36e6, statusWarn, "log.min_free_gb"},
	} {
		expect(t, "space", gradeSpace(c.hours*36e6, 1e4, c.minFree), c.status, c.word)
	}
}

func TestDataRate_MatchesWrittenLog(t *testing.T) {
	const ticks = 256
	file, err := configs.Load("rover")
	fatal.If(t, err)
	file.Controller.Replan, file.Log.SnapshotS = 0, 1e9 // only ticks
	dims := tflite.Dims{Obs: 64, Action: 29, Latent: 128}
	shape := controller.Shape{Obs: dims.Obs, Action: dims.Action, Latent: dims.Latent}
	period := file.Loop.Period()
	w, err := flightlog.Create(filepath.Join(t.TempDir(), "log.mcap"), flightlog.Metadata{
		Shape: shape, Control: file.Controller, Robot: hal.Spec{Name: "robot", Period: period},
	}, flightlog.Options{NoSync: true})
	fatal.If(t, err)
	defer w.Close()
	before := w.Stats().Bytes
	noise := rand.New(rand.NewPCG(1, 2))
	tick := controller.NewTick(shape)
	for i := range uint64(ticks) {
		tick.Index, tick.Elapsed, tick.Hash = i, min(i, 1), noise.Uint64()
		tick.SenseAt = int64(i+1) * int64(period)
		tick.Deadline, tick.Wake, tick.Done = tick.SenseAt, tick.SenseAt+50_000, tick.SenseAt+500_000
		for _, numbers := range [][]float64{tick.Phi, tick.Z} {
			for j := range numbers {
				numbers[j] = noise.NormFloat64()
			}
		}
		for _, numbers := range [][]float32{tick.Obs, tick.Action} {
			for j := range numbers {
				numbers[j] = float32(noise.NormFloat64())
			}
		}
		fatal.If(t, w.WriteTick(tick))
	}
	fatal.If(t, w.Flush())
	written := float64(w.Stats().Bytes-before) / ticks / period.Seconds()
	if rate := dataRate(file, dims); rate < 0.95*written || rate > 1.05*written {
		t.Errorf("estimate %.0f bytes/s, written %.0f", rate, written)
	}
}
