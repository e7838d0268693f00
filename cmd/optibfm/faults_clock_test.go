package main

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
	"optibfm/internal/beliefstore"
	"optibfm/internal/rigtest"
)

// wallJump names the file from which a program of jumpyProgram reads, in each
// call of time.Now, by how many seconds its wall clock is wrong.
const wallJump = "OPTIBFM_TEST_WALL_JUMP"

// jumpySource goes into package time. A mapped file is what both processes see
// at once and what costs a clock no system call.
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

// jumpyProgram builds the whole program, with the libraries that it is made of,
// on a package time whose wall clock can be set, as settimeofday does: the
// monotonic readings stay. It is the only way to set the clock of one program:
// the kernel's time namespaces have no wall clock. Building takes a minute, once
// for a version of Go.
func jumpyProgram(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("there is no go command here: %v", err)
	}
	dir, original := t.TempDir(), filepath.Join(strings.TrimSpace(string(root)), "src/time/time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Skipf("the source of package time is not here: %v", err)
	}
	const reading = "sec, nsec, mono := runtimeNow()\n"
	now := strings.Index(string(source), "func Now() Time {")
	if now < 0 || !strings.Contains(string(source[now:]), reading) {
		t.Fatal("time.Now reads the clock in another way: adapt this test to this version of Go")
	}
	spoiled := string(source[:now]) + strings.Replace(string(source[now:]), reading, reading+"\tsec += jumped()\n", 1)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		original: write("time.go", spoiled),
		filepath.Join(filepath.Dir(original), "jump.go"): write("jump.go", jumpySource),
	}})
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "optibfm")
	build := exec.Command("go", "build", "-overlay", write("overlay.json", string(overlay)), "-o", binary, ".")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return binary
}

// jumpyClock is the file that wallJump names.
type jumpyClock struct{ path string }

// set makes the wall clock wrong by so much.
func (c jumpyClock) set(t *testing.T, by time.Duration) {
	t.Helper()
	var seconds [8]byte
	binary.NativeEndian.PutUint64(seconds[:], uint64(by/time.Second))
	f, err := os.OpenFile(c.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(seconds[:], 0); err != nil {
		t.Fatal(err)
	}
}

// TestRun_IgnoresJumpsOfTheWallClock sets the clock of a run
// forward and back by hours. The robot goes on, an operator's session holds and
// his presses count, and in the log time goes on as before. That the clock did
// jump is seen where a date is meant: in the record of what was learnt.
func TestRun_IgnoresJumpsOfTheWallClock(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program with another package time")
	}
	program := jumpyProgram(t)
	belief, begun := filepath.Join(t.TempDir(), "belief"), time.Now()
	r := prepareAttended(t, "", "operator.source=web", "operator.web.listen=127.0.0.1:0", "operator.web.max_late_s=60", "run.state_dir="+belief)
	clock := jumpyClock{filepath.Join(t.TempDir(), "jump")}
	clock.set(t, 0)
	r.cmd.Path, r.cmd.Env = program, append(os.Environ(), wallJump+"="+clock.path)
	r.start()
	r.arm()
	person := rigtest.PairPhone(t, r.output)
	for _, by := range []time.Duration{0, 6 * time.Hour, -30 * time.Hour, 0} {
		clock.set(t, by)
		r.goesOn("the clock is wrong by " + by.String())
		if got := person.Press("good"); got != "counted" {
			t.Errorf("the clock is wrong by %v: the press was %s, want counted", by, got)
		}
		awaitSaved(t, belief, begun.Add(by))
	}
	if err := r.End(); err != nil {
		t.Errorf("%v:\n%s", err, r.output)
	}
	checkTimesOfLog(t, onlyLog(t, r.cmd), begun, time.Now())
}

// awaitSaved waits until the belief was saved by a clock that is wrong.
func awaitSaved(t *testing.T, dir string, by time.Time) {
	t.Helper()
	var saved time.Time
	if !rigtest.WaitUntil(20*time.Second, func() bool {
		record, err := beliefstore.Load(dir)
		saved = record.SavedAt
		return err == nil && saved.Sub(by) >= 0 && saved.Sub(by) < 10*time.Minute
	}) {
		t.Errorf("the belief was saved at %v: the clock did not jump to %v", saved, by)
	}
}

// checkTimesOfLog looks at the times of a log's records, and that it verifies.
func checkTimesOfLog(t *testing.T, log *flightlog.Reader, from, to time.Time) {
	t.Helper()
	labels, last := uint64(0), uint64(0)
	for record, err := range log.Records() {
		if err != nil {
			t.Fatal(err)
		}
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

// TestNothingReadsTheWallClockPastTimeNow keeps the test above complete: what it
// spoils is time.Now.
func TestNothingReadsTheWallClockPastTimeNow(t *testing.T) {
	past := regexp.MustCompile(`CLOCK_REALTIME|CLOCK_TAI|Gettimeofday|(unix|syscall)\.Time\(|TimerfdCreate`)
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if found := past.Find(source); found != nil {
			t.Errorf("%s: found %s: read the date with time.Now, and the time that passes with rtloop.Now", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
