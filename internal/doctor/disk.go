package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"optibfm/configs"
	"optibfm/internal/shell"
	"optibfm/tflite"
)

func (d *doctor) diskChecks() []check {
	const limit = 15 * time.Second
	if !d.file.Log.Enabled {
		return []check{single("disk.log_dir", func() finding {
			return warn("set log.enabled: true", "log.enabled is false: no durable labels, no replay")
		})}
	}
	return []check{
		single("disk.log_dir", d.checkLogFolder),
		bounded("disk.fsync", limit, d.checkSync),
		single("disk.space", d.checkSpace),
	}
}

// checkLogFolder creates and removes a file in log.dir, or in the folder where a run creates it.
func (d *doctor) checkLogFolder() finding {
	dir, parent, err := logFolder(d.file.Log)
	if err != nil {
		return fail("set log.dir to a folder that this user may write", "%v", err)
	}
	f, err := createProbe(parent)
	if err != nil {
		fix := fmt.Sprintf("`sudo install -d -o %s %s`", d.user.Name, shell.Quote(dir))
		return fail(fix, "%s: %v", dir, errors.Unwrap(err))
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return fail("see `dmesg`", "%v", err)
	}
	const tmpfs, ramfs = 0x01021994, 0x858458f6 // statfs(2)
	if s, err := d.space(parent); err == nil && (s.Type == tmpfs || s.Type == ramfs) {
		return warnStrict("set log.dir to a folder on a disk", "%s is in memory: a power failure loses labels", dir)
	}
	if parent != dir {
		return pass("a run creates %s", dir)
	}
	return pass("%s is writable", dir)
}

// logFolder returns log.dir and the nearest existing folder: log.dir or above it.
func logFolder(l configs.Log) (dir, existing string, err error) {
	if dir, err = filepath.Abs(l.Dir); err != nil {
		return "", "", err
	}
	for existing = dir; ; existing = filepath.Dir(existing) {
		info, err := os.Stat(existing)
		switch {
		case errors.Is(err, fs.ErrNotExist) && existing != "/":
			continue
		case err != nil:
			return "", "", err
		case !info.IsDir():
			return "", "", fmt.Errorf("%s: not a folder", existing)
		}
		return dir, existing, nil
	}
}

func createProbe(dir string) (*os.File, error) { return os.CreateTemp(dir, ".optibfm-doctor-") }

// checkSync measures fsync, which a label waits for before it is acknowledged.
func (d *doctor) checkSync(ctx context.Context) finding {
	_, dir, err := logFolder(d.file.Log)
	if err != nil {
		return skip("see disk.log_dir")
	}
	f, err := createProbe(dir)
	if err != nil {
		return skip("see disk.log_dir")
	}
	defer os.Remove(f.Name())
	defer f.Close()
	times, err := timeSyncs(ctx, f)
	if err != nil {
		return fail("see `dmesg` for the disk", "%v", err)
	}
	return gradeSyncs(times)
}

// timeSyncs appends and syncs 4 KiB, up to 200 times within two seconds.
func timeSyncs(ctx context.Context, f *os.File) (times []time.Duration, err error) {
	const most, budget, size = 200, 2 * time.Second, 4096
	block := make([]byte, size)
	for begin := time.Now(); len(times) < most && time.Since(begin) < budget && ctx.Err() == nil; {
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

// gradeSyncs warns where an operator notices the delay, and where the log would drop ticks.
func gradeSyncs(times []time.Duration) finding {
	const noticed, bad = 100 * time.Millisecond, time.Second
	const fix = "log to a faster disk (NVMe or eMMC, not an SD card or a network)"
	if len(times) == 0 {
		return skip("interrupted")
	}
	slices.Sort(times)
	p50, p99 := times[len(times)/2], times[len(times)*99/100]
	text := fmt.Sprintf("p50 %s, p99 %s of %d", short(p50), short(p99), len(times))
	f := pass("%s", text)
	switch {
	case p99 >= bad:
		f = warnStrict(fix, "%s: the log drops ticks, and labels wait", text)
	case p99 >= noticed:
		f = warn(fix, "%s: the acknowledgement of a label waits that long", text)
	}
	return f.with(map[string]float64{"p50_ms": ms(p50), "p99_ms": ms(p99)})
}

// checkSpace compares the free space with log.min_free_gb and with the data rate of a run.
func (d *doctor) checkSpace() finding {
	_, dir, err := logFolder(d.file.Log)
	if err != nil {
		return skip("see disk.log_dir")
	}
	s, err := d.space(dir)
	if err != nil {
		return fail("see `dmesg` for the disk", "%v", err)
	}
	free := float64(s.Bavail) * float64(s.Bsize)
	model := d.model()
	if model == nil {
		return skip("%.1f GB free; the data rate depends on the model: see model.bundle", free/1e9)
	}
	return gradeSpace(free, dataRate(d.file, model.Dims()), d.file.Log.MinFreeGB*1e9)
}

// gradeSpace takes the free bytes, the bytes per second of a run, and log.min_free_gb in bytes.
func gradeSpace(free, rate, minFree float64) finding {
	const least, comfortable = 0.5, 8 // hours
	const fix = "free some space, or log to a larger disk"
	hours := free / rate / 3600
	text := fmt.Sprintf("%.1f GB free: %.1f hours at %.0f MB/h", free/1e9, hours, rate*3600/1e6)
	f := pass("%s", text)
	switch {
	case hours < least:
		f = fail(fix, "%s", text)
	case free < minFree:
		f = warn(fix+"; `optibfm log release` marks copied logs as removable",
			"%s; log.min_free_gb is %.1f: a run removes old logs, and does not start if space is still missing",
			text, minFree/1e9)
	case hours < comfortable:
		f = warn(fix, "%s", text)
	}
	return f.with(map[string]float64{"free_bytes": free, "bytes_per_hour": rate * 3600, "hours": hours})
}

// dataRate estimates the bytes per second of a run's log: ticks, plans, belief snapshots and
// pictures. Compression reduces it for numbers that repeat.
func dataRate(f configs.File, dims tflite.Dims) float64 {
	const tickOverhead, planOverhead = 130, 55 // bytes: times, flags, hash and headers
	const pixelsPerByte = 6                    // of a JPEG picture
	tick := float64(tickOverhead + 4*(dims.Obs+dims.Action) + 2*8*dims.Latent)
	if replan := f.Controller.Replan; replan > 0 {
		tick += float64(planOverhead+8*dims.Latent) / float64(replan)
	}
	picture := float64(f.Operator.View.Width*f.Operator.View.Height) / pixelsPerByte
	return tick/f.Loop.Period().Seconds() + 8*float64(f.Controller.Shape(dims).StateLen())/f.Log.SnapshotS +
		f.Log.FramesHz*picture
}
