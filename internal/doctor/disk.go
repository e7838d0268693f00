package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/internal/version"
	"optibfm/posterior"
)

func (d *doctor) diskChecks() []check {
	if !d.configured {
		return []check{d.unasked("disk.log_dir", "log.dir"), d.unasked("disk.fsync", "log.dir"), d.unasked("disk.space", "log.dir")}
	}
	return []check{
		single("disk.log_dir", d.logDir),
		{id: "disk.fsync", limit: 15 * time.Second, run: d.fsync},
		{id: "disk.space", limit: 15 * time.Second, run: func(context.Context) []finding { return []finding{d.freeSpace()} }},
	}
}

// logDir writes into log.dir, or where it will be made, and removes what it
// wrote.
func (d *doctor) logDir() finding {
	if !d.file.Log.Enabled {
		return doubtful("set log.enabled: true", "log.enabled is false: labels are not durable, and nothing can be replayed")
	}
	wanted, there, err := logFolder(d.file.Log)
	if err != nil {
		return broken("set log.dir to a folder of this user", "%v", err)
	}
	probe, err := probeFolder(there)
	if err != nil {
		install := fmt.Sprintf("`sudo install -d -o %s %s`", d.user.Name, shell.Quote(wanted))
		return broken(install, "%s: %v", wanted, errors.Unwrap(err))
	}
	if err := os.Remove(probe); err != nil {
		return broken("see `dmesg`", "%v", err)
	}
	const tmpfs, ramfs = 0x01021994, 0x858458f6 // statfs(2)
	if s, err := d.space(there); err == nil && (s.Type == tmpfs || s.Type == ramfs) {
		return lacking("set log.dir to a folder on a disk", "%s is in memory: labels are lost with the power", wanted)
	}
	if there != wanted {
		return fine("%s can be made, in %s", wanted, there)
	}
	return fine("%s takes files", wanted)
}

// logFolder is log.dir, and the nearest folder above it that exists.
func logFolder(l configs.Log) (wanted, there string, err error) {
	if wanted, err = filepath.Abs(l.Dir); err != nil {
		return "", "", err
	}
	for there = wanted; ; there = filepath.Dir(there) {
		info, err := os.Stat(there)
		switch {
		case errors.Is(err, fs.ErrNotExist) && there != "/":
			continue
		case err != nil:
			return "", "", err
		case !info.IsDir():
			return "", "", fmt.Errorf("%s is no folder", there)
		}
		return wanted, there, nil
	}
}

func probeFolder(in string) (string, error) { return os.MkdirTemp(in, ".optibfm-doctor-") }

// inProbe calls f with a new folder on the disk of the log, which it removes.
func (d *doctor) inProbe(f func(folder string) finding) finding {
	if !d.file.Log.Enabled {
		return skipped("log.enabled is false")
	}
	_, there, err := logFolder(d.file.Log)
	if err != nil {
		return skipped("see disk.log_dir")
	}
	folder, err := probeFolder(there)
	if err != nil {
		return skipped("see disk.log_dir")
	}
	defer os.RemoveAll(folder)
	return f(folder)
}

// fsync measures what a label waits for before it is acknowledged.
func (d *doctor) fsync(ctx context.Context) []finding {
	return []finding{d.inProbe(func(folder string) finding {
		times, err := timeSyncs(ctx, filepath.Join(folder, "fsync"))
		if err != nil {
			return broken("see `dmesg` for the disk", "%v", err)
		}
		return judgeSyncs(times)
	})}
}

// timeSyncs appends 4 KiB and syncs, as often as fits into two seconds, up to
// 200 times.
func timeSyncs(ctx context.Context, path string) ([]time.Duration, error) {
	const most, budget, size = 200, 2 * time.Second, 4096
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	block := make([]byte, size)
	var times []time.Duration
	for begun := time.Now(); len(times) < most && time.Since(begun) < budget && ctx.Err() == nil; {
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := f.Sync(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}

// judgeSyncs: a person waits a tenth of a second for an answer without noticing;
// a disk that takes a second will lose ticks.
func judgeSyncs(times []time.Duration) finding {
	const noticed, bad = 100 * time.Millisecond, time.Second
	if len(times) == 0 {
		return skipped("interrupted")
	}
	slices.Sort(times)
	p50, p99 := times[len(times)/2], times[len(times)*99/100]
	found := fmt.Sprintf("p50 %s, p99 %s of %d", shortTime(p50), shortTime(p99), len(times))
	const mend = "log to another disk (NVMe or eMMC, not an SD card or a network)"
	var f finding
	switch {
	case p99 >= bad:
		f = lacking(mend, "%s: ticks will be dropped from the log, and labels wait", found)
	case p99 >= noticed:
		f = doubtful(mend, "%s: that long an operator waits for a label to be acknowledged", found)
	default:
		f = fine("%s", found)
	}
	return f.with(map[string]float64{"p50_ms": us(p50) / 1000, "p99_ms": us(p99) / 1000})
}

// freeSpace compares what is free with the rate of a log of this robot.
func (d *doctor) freeSpace() finding {
	return d.inProbe(func(folder string) finding {
		s, err := d.space(folder)
		if err != nil {
			return broken("see `dmesg` for the disk", "%v", err)
		}
		free := float64(s.Bavail) * float64(s.Bsize)
		model, err := setup.OpenModel(d.file.Model.Bundle)
		if err != nil {
			return skipped("%.1f GB free; how much a run writes depends on the model: see model.bundle", free/1e9)
		}
		dims := model.Dims()
		shape := controller.Shape{Obs: dims.Obs, Action: dims.Action, Latent: dims.Latent}
		rate, err := dataRate(d.file, shape, filepath.Join(folder, "sample.mcap"))
		if err != nil {
			return broken("see `dmesg` for the disk", "%v", err)
		}
		return judgeSpace(free, rate)
	})
}

// judgeSpace takes bytes and bytes per second.
func judgeSpace(free, rate float64) finding {
	const least, comfortable = 0.5, 8 // hours
	hours := free / rate / 3600
	found := fmt.Sprintf("%.1f GB free; a run writes %.0f MB an hour: %.*f hours", free/1e9, rate*3600/1e6, btoi(hours < 10), hours)
	const mend = "free some, or log to a larger disk"
	var f finding
	switch {
	case hours < least:
		f = broken(mend, "%s", found)
	case hours < comfortable:
		f = doubtful(mend, "%s", found)
	default:
		f = fine("%s", found)
	}
	return f.with(map[string]float64{"free_bytes": free, "bytes_per_hour": rate * 3600, "hours": hours})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// dataRate writes a short log with ticks of this shape and returns how many
// bytes a second of it takes. Its numbers are random: real ones are no larger.
func dataRate(f configs.File, shape controller.Shape, path string) (float64, error) {
	const ticks = 256
	period := f.Loop.Period()
	w, err := flightlog.Create(path, flightlog.Metadata{
		Program: version.String(), Shape: shape, Control: f.Controller, Robot: hal.Spec{Name: "sample", Period: period},
	}, flightlog.Options{NoSync: true, FlushEvery: time.Duration(f.Log.FlushMS * float64(time.Millisecond))})
	if err != nil {
		return 0, err
	}
	before := w.Stats().Bytes
	if err := writeSample(w, f.Controller, shape, period, ticks); err != nil {
		return 0, errors.Join(err, w.Close())
	}
	if err := w.Flush(); err != nil {
		return 0, errors.Join(err, w.Close())
	}
	perTick := float64(w.Stats().Bytes-before) / ticks
	snapshots := 8 * float64(posterior.StateLen(shape.Latent)) / f.Log.SnapshotS
	return perTick/period.Seconds() + snapshots, w.Close()
}

// writeSample writes ticks, and as many plans as a planner makes.
func writeSample(w *flightlog.Writer, c controller.Config, shape controller.Shape, period time.Duration, ticks uint64) error {
	rng := rand.New(rand.NewPCG(1, 2))
	t := controller.NewTick(shape)
	for i := range ticks {
		t.Index, t.Elapsed, t.SenseAt = i, min(i, 1), int64(i)*int64(period)
		t.Deadline, t.Wake, t.Done, t.Hash = t.SenseAt, t.SenseAt+50_000, t.SenseAt+500_000, rng.Uint64()
		t.Flags = controller.FlagArmed
		for _, numbers := range [][]float64{t.Phi, t.Z} {
			for j := range numbers {
				numbers[j] = rng.NormFloat64()
			}
		}
		for _, numbers := range [][]float32{t.Obs, t.Action} {
			for j := range numbers {
				numbers[j] = float32(rng.NormFloat64())
			}
		}
		if err := w.WriteTick(t); err != nil {
			return err
		}
		if c.Replan == 0 || i%c.Replan != 0 {
			continue
		}
		if err := w.WritePlan(flightlog.Plan{Tick: i, At: t.Done, Strategy: c.Strategy, Z: t.Z}); err != nil {
			return err
		}
	}
	return nil
}
