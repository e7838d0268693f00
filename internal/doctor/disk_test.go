package doctor

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheLogsFolderIsTriedAndLeftAsItWas(t *testing.T) {
	dir := t.TempDir()
	d := examined(t, fakeMachine(tree()), "rover", "log.dir="+dir)
	verdict(t, "there", d.logDir(), statusOK, "takes files")
	for _, f := range d.fsync(t.Context()) {
		if f.Values["p99_ms"] <= 0 || f.Values["p50_ms"] > f.Values["p99_ms"] {
			t.Errorf("%+v", f)
		}
	}
	space := d.freeSpace()
	verdict(t, "space", space, statusOK, "42.9 GB", "MB an hour")
	// 20 ticks a second with 32 + 32 float64 alone are 37 MB an hour.
	if r := space.Values["bytes_per_hour"]; r < 37e6 || r > 90e6 {
		t.Errorf("%v bytes an hour", r)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	d.space = func(string) (unix.Statfs_t, error) { return unix.Statfs_t{Type: 0x01021994}, nil }
	verdict(t, "in memory", d.logDir(), statusWarn, "lost with the power")
	d.file.Log.Dir = filepath.Join(dir, "a", "b")
	d.space = func(string) (unix.Statfs_t, error) { return unix.Statfs_t{}, unix.EIO }
	verdict(t, "not yet there", d.logDir(), statusOK, "can be made, in "+dir)
	verdict(t, "no answer", d.freeSpace(), statusFail, "input/output error")
	d.file.Log.Dir = "/proc/nothing/here"
	verdict(t, "nowhere", d.logDir(), statusFail, "sudo install -d -o optibfm /proc/nothing/here")
	verdict(t, "no probe", d.freeSpace(), statusSkip, "disk.log_dir")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.file.Log.Dir = filepath.Join(file, "logs")
	verdict(t, "below a file", d.logDir(), statusFail, "file")
	d.file.Log.Enabled = false
	verdict(t, "off", d.logDir(), statusWarn, "log.enabled")
	verdict(t, "off", d.fsync(t.Context())[0], statusSkip)
}

func TestADiskIsJudgedByItsSyncsAndItsHours(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		times  []time.Duration
		status string
	}{
		{[]time.Duration{ms, 3 * ms, 2 * ms}, statusOK}, {[]time.Duration{ms, 150 * ms}, statusWarn}, {[]time.Duration{ms, 2 * time.Second}, statusWarn}, {nil, statusSkip},
	} {
		verdict(t, "syncs", judgeSyncs(c.times), c.status)
	}
	for hours, status := range map[float64]string{0.2: statusFail, 3: statusWarn, 100: statusOK} {
		verdict(t, "hours", judgeSpace(hours*3600*1e4, 1e4), status, "36 MB an hour")
	}
	if times, err := timeSyncs(context.Background(), "/proc/nothing"); err == nil {
		t.Errorf("%v", times)
	}
}
