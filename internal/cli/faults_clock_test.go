package cli

import (
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/taskstore"
)

// wallJump names the file from which a program of jumpyProgram reads the error of its wall clock in
// seconds, in each call of time.Now.
const wallJump = "OPTIBFM_TEST_WALL_JUMP"

// jumpySource is added to package time. Both processes see a mapped file at once, without a system
// call.
const jumpySource = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var wallJump = mapWallJump()

func mapWallJump() *int64 {
	path, ok := syscall.Getenv("` + wallJump + `")
	if !ok {
		return new(int64)
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	memory, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return (*int64)(unsafe.Pointer(&memory[0]))
}

func jumped() int64 { return atomic.LoadInt64(wallJump) }
`

// jumpyProgram builds the program and its libraries on a package time whose wall clock can be set;
// monotonic readings stay. Time namespaces of the kernel have no wall clock. The first build takes
// about a minute.
func jumpyProgram(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("no go command: %v", err)
	}
	dir, original := t.TempDir(), filepath.Join(strings.TrimSpace(string(root)), "src/time/time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Skipf("the source of package time is not here: %v", err)
	}
	const reading = "sec, nsec, mono := runtimeNow()\n"
	now := strings.Index(string(source), "func Now() Time {")
	if now < 0 || !strings.Contains(string(source[now:]), reading) {
		t.Fatal("time.Now reads the clock differently; adapt this test to this version of Go")
	}
	spoiled := string(source[:now]) + strings.Replace(string(source[now:]), reading, reading+"\tsec += jumped()\n", 1)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		original: write("time.go", spoiled),
		filepath.Join(filepath.Dir(original), "jump.go"): write("jump.go", jumpySource),
	}})
	fatal.If(t, err)
	binary := filepath.Join(dir, "optibfm")
	overlayFile := write("overlay.json", string(overlay))
	build := exec.Command("go", "build", "-overlay", overlayFile, "-o", binary, "optibfm/cmd/optibfm")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return binary
}

// jumpyClock is the file that wallJump names.
type jumpyClock struct{ path string }

// set sets the error of the wall clock.
func (c jumpyClock) set(t *testing.T, by time.Duration) {
	t.Helper()
	var seconds [8]byte
	binary.NativeEndian.PutUint64(seconds[:], uint64(by/time.Second))
	f, err := os.OpenFile(c.path, os.O_RDWR|os.O_CREATE, 0o600)
	fatal.If(t, err)
	defer f.Close()
	fatal.If(t, errtest.Of(f.WriteAt(seconds[:], 0)))
}

// TestRun_IgnoresJumpsOfTheWallClock sets the clock of a run forward and back by hours. The robot
// keeps moving, the session of the operator stays valid, presses count and the times in the log are
// continuous. The date of the saved belief shows that the clock did jump.
func TestRun_IgnoresJumpsOfTheWallClock(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program with another package time")
	}
	t.Parallel()
	program := jumpyProgram(t)
	belief, begun := filepath.Join(t.TempDir(), "belief"), time.Now()
	r := prepareAttended(t, "", "operator.source=web", "operator.web.listen=127.0.0.1:0",
		"operator.web.max_late_s=60", "run.state_dir="+belief)
	clock := jumpyClock{filepath.Join(t.TempDir(), "jump")}
	clock.set(t, 0)
	r.cmd.Path, r.cmd.Env = program, append(os.Environ(), wallJump+"="+clock.path)
	r.start()
	r.arm()
	person := rigtest.PairPhone(t, r.output)
	for _, by := range []time.Duration{0, 6 * time.Hour, -30 * time.Hour, 0} {
		clock.set(t, by)
		acts := r.robot.acts.Load()
		if !rigtest.WaitUntil(rigtest.HangGuard, func() bool { return r.robot.acts.Load() >= acts+50 }) {
			t.Fatalf("the clock is wrong by %v: %d acts:\n%s", by, r.robot.acts.Load()-acts, r.output)
		}
		if got := person.Press("good"); got != "counted" {
			t.Errorf("the clock is wrong by %v: the press was %s, want counted", by, got)
		}
		awaitSaved(t, belief, begun.Add(by))
	}
	select {
	case <-r.robot.halted:
		t.Errorf("halted:\n%s", r.output)
	default:
	}
	errtest.Nil(t, r.End(), r.output)
	checkTimesOfLog(t, onlyLog(t, r.cmd), begun, time.Now())
}

// awaitSaved waits until the saved belief has the date of the wrong clock.
func awaitSaved(t *testing.T, dir string, by time.Time) {
	t.Helper()
	var saved time.Time
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool {
		task, err := taskstore.Store{State: dir}.Load(taskstore.Last)
		saved = task.Origin.At
		return err == nil && saved.Sub(by) >= 0 && saved.Sub(by) < 10*time.Minute
	}) {
		t.Errorf("the belief was saved at %v: the clock did not jump to %v", saved, by)
	}
}

// checkTimesOfLog checks that the times of the records are in order and that the log verifies.
func checkTimesOfLog(t *testing.T, log *flightlog.Reader, from, to time.Time) {
	t.Helper()
	labels, last := uint64(0), uint64(0)
	for record, err := range log.Records() {
		fatal.If(t, err)
		if at := time.Unix(0, int64(record.LogTime)); at.Before(from) || at.After(to) {
			t.Fatalf("%s of %v: the run was from %v to %v", record.Topic, at, from, to)
		}
		if record.Tick != nil {
			if labels += record.Tick.NumLabels; record.LogTime < last {
				t.Fatalf("the time of tick %d is before that of the one before", record.Tick.Index)
			}
			last = record.LogTime
		}
	}
	if labels < 4 {
		t.Errorf("%d labels in the log", labels)
	}
	if result, err := flightlog.Verify(log); err != nil || !result.OK() {
		t.Errorf("the replay: %v, %v", err, result.First)
	}
}

// TestImports_NothingReadsTheWallClockPastTimeNow keeps the test above complete: that replaces only
// time.Now.
func TestImports_NothingReadsTheWallClockPastTimeNow(t *testing.T) {
	if testing.Short() {
		t.Skip("reads all source files")
	}
	past := regexp.MustCompile(`CLOCK_REALTIME|CLOCK_TAI|Gettimeofday|(unix|syscall)\.Time\(|TimerfdCreate`)
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if found := past.Find(source); found != nil {
			t.Errorf("%s: found %s; use time.Now for dates and rtloop.Now for durations", path, found)
		}
		return err
	})
	fatal.If(t, err)
}
