package flightlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// victimVariable makes the test binary write a log until it is killed. quietVariable
// makes it write no labels, picturesVariable only pictures.
const (
	victimVariable   = "FLIGHTLOG_VICTIM"
	quietVariable    = "FLIGHTLOG_QUIET"
	picturesVariable = "FLIGHTLOG_PICTURES"
)

// killsVariable sets the number of kills.
const killsVariable = "FLIGHTLOG_KILLS"

func TestMain(m *testing.M) {
	path := os.Getenv(victimVariable)
	switch {
	case path != "" && os.Getenv(picturesVariable) != "":
		runPictureVictim(path)
	case path != "":
		runVictim(path, os.Getenv(quietVariable) != "")
	}
	os.Exit(m.Run())
}

// runVictim writes a tick each millisecond and a label every seven ticks. It prints
// "tick N" before it writes the tick, and "label N" when the label is acknowledged.
func runVictim(path string, quiet bool) {
	w, err := Create(path, testMetadata(testShape), Options{})
	if err != nil {
		panic(err)
	}
	for i := uint64(0); ; i++ {
		if err := w.WriteTick(randomTick(testShape, i)); err != nil {
			panic(err)
		}
		fmt.Printf("tick %d\n", i)
		if !quiet && i%7 == 3 {
			if err := w.WriteLabel(testLabel(i + 1)); err != nil {
				panic(err)
			}
			fmt.Printf("label %d\n", i+1)
		}
		time.Sleep(time.Millisecond)
	}
}

func kills() int { return number(killsVariable, 20, 5) }

// number returns the number in a variable of the environment, or one that depends on -short.
func number(variable string, long, short int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	if testing.Short() {
		return short
	}
	return long
}

func TestWriter_KillLosesNoAcknowledgedLabel(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	worst, labels := uint64(0), 0
	for range kills() {
		lost, acknowledged := killOnce(t, time.Duration(rng.Int64N(int64(400*time.Millisecond))), false)
		worst, labels = max(worst, lost), labels+acknowledged
	}
	t.Logf("%d kills: %d labels acknowledged, none lost; at most %d ticks of 1 ms or more lost", kills(), labels, worst)
	// A label flushes the ticks before it, and every seventh tick has one.
	if worst > 7 {
		t.Errorf("a kill lost %d ticks, more than between two labels", worst)
	}
}

func TestWriter_KillLosesAtMostTheFlushWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	worst := uint64(0)
	for range max(1, kills()/2) {
		lost, _ := killOnce(t, time.Duration(rng.Int64N(int64(800*time.Millisecond))), true)
		worst = max(worst, lost)
	}
	t.Logf("%d kills: at most %d ticks of 1 ms or more lost, in a window of 250 ms", max(1, kills()/2), worst)
	// The victim sleeps 1 ms between ticks: at most 250 fit into the window, and one
	// more ends it.
	if worst > 251 {
		t.Errorf("a kill lost %d ticks", worst)
	}
}

// killOnce kills a victim some time after its first tick. It returns the number of lost
// ticks and of acknowledged labels.
func killOnce(t *testing.T, life time.Duration, quiet bool) (lost uint64, acknowledged int) {
	t.Helper()
	variable := ""
	if quiet {
		variable = quietVariable
	}
	path, said := killVictim(t, variable, life)
	written, labels := inLog(t, path)
	var last uint64
	for _, line := range strings.Split(said, "\n") {
		var n uint64
		if _, err := fmt.Sscanf(line, "tick %d", &n); err == nil && strings.Count(line, " ") == 1 {
			last = n
		}
		if _, err := fmt.Sscanf(line, "label %d", &n); err == nil {
			acknowledged++
			if !labels[n] {
				t.Fatalf("label %d was acknowledged and is not in the log", n)
			}
		}
	}
	return last + 1 - min(written, last+1), acknowledged
}

// killVictim kills a victim some time after its first line. It returns the log and what the victim
// printed.
func killVictim(t *testing.T, variable string, life time.Duration) (path, said string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "victim.mcap")
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), victimVariable+"="+path)
	if variable != "" {
		victim.Env = append(victim.Env, variable+"=1")
	}
	out, err := victim.StdoutPipe()
	fatal.If(t, err)
	fatal.If(t, victim.Start())
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	fatal.If(t, err)
	time.AfterFunc(life, func() { _ = victim.Process.Signal(syscall.SIGKILL) })
	rest, _ := io.ReadAll(lines)
	_ = victim.Wait()
	return path, first + string(rest)
}

// inLog returns the number of ticks in a log, which must be consecutive, and its labels.
func inLog(t *testing.T, path string) (ticks uint64, labels map[uint64]bool) {
	t.Helper()
	labels = make(map[uint64]bool)
	for record, err := range open(t, path).Records() {
		fatal.If(t, err)
		if record.Label != nil {
			labels[record.Label.ID] = true
		}
		if record.Tick != nil {
			if record.Tick.Index != ticks {
				t.Fatalf("tick %d follows tick %d", record.Tick.Index, ticks)
			}
			ticks++
		}
	}
	return ticks, labels
}

func TestOpen_RefusesOtherFiles(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "text": "hello, this is not a log", "magic only": "\x89MCAP0\r\n",
	} {
		path := filepath.Join(t.TempDir(), "x")
		fatal.If(t, os.WriteFile(path, []byte(content), 0o600))
		errtest.Is(t, errtest.Of(Open(path)), ErrNotALog, name)
	}
	errtest.Is(t, errtest.Of(Open(filepath.Join(t.TempDir(), "absent"))), fs.ErrNotExist, "absent")
}

// fakeDisk is a file that fails on demand.
type fakeDisk struct {
	data      []byte
	free      int // bytes that still fit; negative: no limit
	syncError error
	syncs     int
}

func (d *fakeDisk) WriteAt(p []byte, off int64) (int, error) {
	end := int(off) + len(p)
	if d.free >= 0 && end > d.free {
		n := max(0, d.free-int(off))
		d.grow(int(off) + n)
		copy(d.data[off:], p[:n])
		return n, syscall.ENOSPC
	}
	d.grow(end)
	copy(d.data[off:], p)
	return len(p), nil
}

func (d *fakeDisk) grow(n int) {
	if n > len(d.data) {
		d.data = append(d.data, make([]byte, n-len(d.data))...)
	}
}

func (d *fakeDisk) Sync() error  { d.syncs++; return d.syncError }
func (d *fakeDisk) Close() error { return nil }
func (d *fakeDisk) Intact(_ int64, _ string, size int64) error {
	d.data = d.data[:size]
	return nil
}

func newOnDisk(t *testing.T, opts Options) (*Writer, *fakeDisk, *time.Time) {
	t.Helper()
	disk := &fakeDisk{free: -1}
	now := time.Unix(0, 0)
	opts.Now = func() time.Time { return now }
	w, err := newWriter("fake", disk, testMetadata(testShape), logChannels, opts)
	fatal.If(t, err)
	return w, disk, &now
}

func readBack(t *testing.T, disk *fakeDisk) (ticks []uint64, labels map[uint64]bool, r *Reader) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(disk.data), int64(len(disk.data)))
	fatal.If(t, err)
	labels = make(map[uint64]bool)
	for record, err := range r.Records() {
		fatal.If(t, err)
		if record.Tick != nil {
			ticks = append(ticks, record.Tick.Index)
		}
		if record.Label != nil {
			labels[record.Label.ID] = true
		}
	}
	return ticks, labels, r
}

func TestWriter_FullDiskRefusesALabel(t *testing.T) {
	w, disk, _ := newOnDisk(t, Options{})
	fatal.If(t, w.WriteTick(randomTick(testShape, 0)))
	fatal.If(t, w.WriteLabel(testLabel(1)))
	disk.free = len(disk.data) + 100
	fatal.If(t, w.WriteTick(randomTick(testShape, 1)))
	if err := w.WriteLabel(testLabel(2)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	if _, labels, _ := readBack(t, disk); len(labels) != 1 {
		t.Fatalf("after the refusal: labels %v", labels)
	}
	disk.free = -1
	fatal.If(t, w.WriteLabel(testLabel(3)))
	fatal.If(t, w.Close())
	ticks, labels, r := readBack(t, disk)
	if len(ticks) != 2 || labels[2] || !labels[1] || !labels[3] || r.Cut() != nil {
		t.Fatalf("ticks %v, labels %v, cut %+v", ticks, labels, r.Cut())
	}
}

func TestWriter_FailedSyncRefusesALabel(t *testing.T) {
	w, disk, _ := newOnDisk(t, Options{})
	disk.syncError = syscall.EIO
	if err := w.WriteLabel(testLabel(1)); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v", err)
	}
	disk.syncError = nil
	fatal.If(t, w.WriteLabel(testLabel(2)))
	fatal.If(t, w.Close())
	if _, labels, _ := readBack(t, disk); labels[1] || !labels[2] {
		t.Fatalf("labels %v", labels)
	}
}

func TestWriter_ARefusedLastLabelIsNotInTheClosedLog(t *testing.T) {
	w, disk, _ := newOnDisk(t, Options{})
	fatal.If(t, w.WriteTick(randomTick(testShape, 0)))
	fatal.If(t, w.WriteLabel(testLabel(1)))
	disk.free = len(disk.data)
	if err := w.WriteLabel(testLabel(2)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	disk.free = -1
	fatal.If(t, w.Close())
	if _, labels, r := readBack(t, disk); labels[2] || !labels[1] || r.Cut() != nil {
		t.Fatalf("labels %v, cut %v", labels, r.Cut())
	}
}

func TestWriter_DropsTicksBeyondTheBacklog(t *testing.T) {
	w, disk, now := newOnDisk(t, Options{Backlog: 8 << 10})
	disk.free = len(disk.data)
	refused := 0
	for i := range uint64(40) {
		*now = now.Add(20 * time.Millisecond)
		if err := w.WriteTick(randomTick(testShape, i)); errors.Is(err, ErrBacklog) {
			refused++
		}
	}
	if refused == 0 || w.Stats().Refused != uint64(refused) {
		t.Fatalf("%d refused, counted %d", refused, w.Stats().Refused)
	}
	disk.free = -1
	fatal.If(t, w.Close())
	ticks, _, _ := readBack(t, disk)
	if len(ticks) != 40-refused || ticks[len(ticks)-1] != uint64(len(ticks)-1) {
		t.Fatalf("%d ticks of 40 with %d refused: %v", len(ticks), refused, ticks)
	}
}

func TestWriter_FullDiskAtCloseLeavesAReadableLog(t *testing.T) {
	w, disk, _ := newOnDisk(t, Options{})
	fatal.If(t, w.WriteTick(randomTick(testShape, 0)))
	fatal.If(t, w.Flush())
	disk.free = len(disk.data) + 2000 // the summary does not fit
	if err := w.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	if ticks, _, r := readBack(t, disk); len(ticks) != 1 || r.Cut() == nil {
		t.Fatalf("ticks %v, cut %v", ticks, r.Cut())
	}
}

func TestWriter_FlushesWithinTheWindow(t *testing.T) {
	w, disk, now := newOnDisk(t, Options{FlushEvery: 100 * time.Millisecond})
	for i := range uint64(12) {
		fatal.If(t, w.WriteTick(randomTick(testShape, i)))
		*now = now.Add(20 * time.Millisecond)
		ticks, _, _ := readBack(t, disk)
		if lost := int(i) + 1 - len(ticks); lost > 5 {
			t.Fatalf("after tick %d, %d ticks are only in memory", i, lost)
		}
	}
}

func TestWriter_SyncsEachLabel(t *testing.T) {
	w, disk, _ := newOnDisk(t, Options{})
	before := disk.syncs
	fatal.If(t, w.WriteLabel(testLabel(1)))
	if disk.syncs != before+1 {
		t.Fatalf("%d syncs", disk.syncs-before)
	}
}

func TestWriter_RefusesALabelWithoutID(t *testing.T) {
	w, _, _ := newOnDisk(t, Options{})
	if err := w.WriteLabel(testLabel(0)); !errors.Is(err, ErrLabelID) {
		t.Fatalf("got %v", err)
	}
}

func TestWriter_CountsMissingButNotSkippedPeriods(t *testing.T) {
	w, disk, _ := newOnDisk(t, Options{})
	write := func(index, elapsed uint64) {
		tick := randomTick(testShape, index)
		tick.Elapsed = elapsed
		fatal.If(t, w.WriteTick(tick))
	}
	write(0, 0)
	write(1, 1)
	write(5, 4) // three skipped
	if n := w.Stats().Missing; n != 0 {
		t.Fatalf("skipping counts as %d missing periods", n)
	}
	write(9, 1) // 6, 7 and 8 are missing
	if n := w.Stats().Missing; n != 3 {
		t.Fatalf("got %d missing periods, want 3", n)
	}
	fatal.If(t, w.Close())
	_, _, r := readBack(t, disk)
	summary, _, err := Summarise(r)
	fatal.If(t, err)
	if summary.Skipped != 3 || summary.Dropped != 3 || summary.Warnings != 1 {
		t.Fatalf("got %+v", summary)
	}
}

func TestWriter_RefusesOtherShapesAndUseAfterClose(t *testing.T) {
	w, _, _ := newOnDisk(t, Options{})
	if err := w.WriteTick(randomTick(controller.Shape{Obs: 1, Action: 1, Latent: 1}, 0)); err == nil {
		t.Fatal("accepted")
	}
	fatal.If(t, w.Close())
	tick := w.WriteTick(randomTick(testShape, 0))
	for _, err := range []error{tick, w.WriteLabel(testLabel(1)), w.Flush(), w.Close()} {
		errtest.Is(t, err, ErrClosed)
	}
}
