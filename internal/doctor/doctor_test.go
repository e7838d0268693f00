package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/rtloop"
)

// goodBoard is a machine without problems. badComputer is one with many.
func goodBoard() machine {
	m := fakeMachine(board())
	m.line = func(string, string) (lineState, error) { return lineState{Chip: "gpiochip0", Offset: 17}, nil }
	return m
}

func badComputer() machine {
	files := tree(desktop)
	addDevice(files, "/dev/i2c-1", 108)
	addDevice(files, "/dev/gpiochip0", 0)
	m := fakeMachine(files)
	m.access, m.prepare = denied("/dev/i2c-1", "/dev/gpiochip0"), grants(false)
	m.wallClock = func() (unix.Timex, int, error) { return unix.Timex{Status: unix.STA_UNSYNC}, unix.TIME_ERROR, nil }
	return m
}

// jsonReport runs the doctor for the composite robot.
func jsonReport(t *testing.T, m machine, set ...string) (r report, text []byte) {
	t.Helper()
	set = append(set, "loop.cpus=[5]", "log.dir="+t.TempDir())
	var out bytes.Buffer
	err := run(t.Context(), Options{Config: "composite", Set: set, JSON: true, Seconds: 1}, m, &out, io.Discard)
	if decodeErr := json.Unmarshal(out.Bytes(), &r); decodeErr != nil || (err == nil) != r.Passed {
		t.Fatalf("%v, %v\n%s", err, decodeErr, &out)
	}
	return r, out.Bytes()
}

// measured are the checks with results that depend on the test's computer.
var measured = []string{"disk.log_dir", "disk.fsync", "model.check"}

// idsWith returns the ids of findings with a status, except measured ones.
func (r report) idsWith(status string) (ids []string) {
	for _, f := range r.Findings {
		if f.Status == status && !slices.Contains(measured, f.ID) {
			ids = append(ids, f.ID)
		}
	}
	return slices.Compact(ids)
}

func TestDoctor_PassesGoodBoard(t *testing.T) {
	board := goodBoard()
	board.user = identity{Name: "root"}
	r, _ := jsonReport(t, board, "run.host_user=optibfm-host", "safety.external_deadman=relay")
	if len(r.Findings) == 0 || len(r.Findings) != r.OK+r.Warned+r.Failed+r.Skipped {
		t.Errorf("%+v", r)
	}
	warned, failed := r.idsWith(statusWarn), r.idsWith(statusFail)
	if !slices.Equal(warned, []string{"system.user"}) || failed != nil {
		t.Errorf("warnings %v, failures %v: %+v", warned, failed, r)
	}
}

func TestDoctor_StrictPostureTurnsWarningsIntoFailures(t *testing.T) {
	privileges := []string{"config.guards", "system.host", "rt.posture", "rt.kernel"}
	devices := []string{"device.i2c", "device.gpio"}
	strict, _ := jsonReport(t, badComputer())
	if got, want := strict.idsWith(statusFail), slices.Concat(privileges, devices); !slices.Equal(got, want) {
		t.Errorf("strict: failures %v, want %v", got, want)
	}
	lenient, _ := jsonReport(t, badComputer(), "loop.posture=warn")
	if got := lenient.idsWith(statusFail); !slices.Equal(got, devices) {
		t.Errorf("warn: failures %v, want %v", got, devices)
	}
	for _, want := range append(privileges, "clock.source", "clock.wall") {
		if got := lenient.idsWith(statusWarn); !slices.Contains(got, want) {
			t.Errorf("warnings %v, want %s", got, want)
		}
	}
}

func TestDoctor_JSONKeysAndIDsAreStable(t *testing.T) {
	r, text := jsonReport(t, badComputer(), "loop.posture=warn")
	if r.Version != 2 {
		t.Errorf("version %d", r.Version)
	}
	keys := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^(?: {2}| {6})"(\w+)":`).FindAllSubmatch(text, -1) {
		keys[string(match[1])] = true
	}
	want := "computer config fail findings fix found group id kernel ok passed posture program skip status strict " +
		"subject user values version warn"
	if got := strings.Join(slices.Sorted(maps.Keys(keys)), " "); got != want {
		t.Errorf("keys\n%s\nwant\n%s", got, want)
	}
	var ids []string
	for _, f := range r.Findings {
		ids = append(ids, f.ID)
		if f.Group == "" {
			t.Errorf("%s has no group", f.ID)
		}
	}
	want = "config.file config.guards system.user system.host rt.posture rt.kernel rt.latency clock.source clock.wall " +
		"device.i2c device.gpio device.bounds device.start operator.device " +
		"model.bundle model.fit model.check model.backend disk.log_dir disk.fsync disk.space"
	if got := strings.Join(slices.Compact(ids), " "); got != want {
		t.Errorf("ids\n%s\nwant\n%s", got, want)
	}
}

func TestDoctor_ReportsInvalidConfigurationAndChecksTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.yaml")
	fatal.If(t, os.WriteFile(path, []byte("version: 1\nrobto: {}\n"), 0o600))
	var out bytes.Buffer
	err := run(t.Context(), Options{Config: path}, fakeMachine(tree(jetson)), &out, io.Discard)
	errtest.NotNil(t, err)
	rigtest.Contains(t, out.String(),
		"did you mean robot?", "arch_sys_counter", "needs a valid configuration", "1 fail")
}

func TestDoctor_RefusesInvalidOptions(t *testing.T) {
	for word, o := range map[string]Options{
		"--seconds": {Seconds: -1}, "3600": {Seconds: 1e9}, "--config": {Set: []string{"a=b"}},
	} {
		err := run(t.Context(), o, fakeMachine(tree()), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestCheck_ReportsHangPanicAndInterrupt(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	hangs := bounded("disk.fsync", 10*time.Millisecond, func(context.Context) finding {
		<-release
		return finding{}
	})
	expect(t, "hangs", hangs.perform(t.Context(), rtloop.Warn)[0], statusFail, "no result within 10ms")
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, "interrupted", hangs.perform(interrupted, rtloop.Warn)[0], statusSkip, "interrupted")
	f := single("rt.posture", func() finding { panic("no such thing") }).perform(t.Context(), rtloop.Warn)[0]
	expect(t, "panics", f, statusFail, "no such thing")
	if f.ID != "rt.posture" || f.Group != "real time" {
		t.Errorf("%+v", f)
	}
	partial := bounded("rt.latency", 10*time.Millisecond, func(ctx context.Context) finding {
		<-ctx.Done()
		return pass("partial result")
	})
	expect(t, "observes its context", partial.perform(t.Context(), rtloop.Warn)[0], statusOK, "partial result")
	errtest.Contains(t, run(interrupted, Options{}, fakeMachine(tree()), io.Discard, io.Discard), "interrupted")
}

func TestDoctor_NamesUser(t *testing.T) {
	d := doctorFor(t, fakeMachine(tree()), "rover")
	expect(t, "service", d.checkUser(), statusOK, "optibfm (uid 990), groups optibfm, gpio")
	d.file.Run.HostUser = "operator"
	expect(t, "two users", d.checkUser(), statusWarn, "run.host_user is operator")
	expect(t, "the host's user", d.checkHost(), statusOK, "runs as operator")
	for _, c := range d.checks() {
		if c.id == "disk" {
			expect(t, "disk", c.perform(t.Context(), rtloop.Warn)[0], statusSkip, "run the doctor as operator")
		}
	}
	d.user = identity{Name: "operator", UID: 991}
	for _, c := range d.checks() {
		if c.id == "rt.posture" || c.id == "device" {
			expect(t, c.id, c.perform(t.Context(), rtloop.Warn)[0], statusSkip, "of the control process")
		}
	}
	d.user = identity{Name: "root"}
	expect(t, "root", d.checkUser(), statusWarn, "sudo -u optibfm")
	if who := currentUser(); who.Name == "" || who.UID != os.Geteuid() {
		t.Errorf("%+v", who)
	}
}

func TestDoctor_ReportsASharedUser(t *testing.T) {
	d := doctorFor(t, fakeMachine(tree()), "rover")
	expect(t, "simulator", d.checkHost(), statusOK, "moves no robot")
	d.file.Robot.Driver = "composite"
	for _, host := range []string{"", "root"} {
		d.file.Run.HostUser = host
		if f := d.checkHost(); f.Status != statusWarn || !f.Strict {
			t.Errorf("%q: %+v", host, f)
		}
	}
}

func TestDoctor_ReportsMissingGuards(t *testing.T) {
	expect(t, "simulator", doctorFor(t, fakeMachine(tree()), "rover").checkGuards(), statusSkip, "nothing moves")
	d := doctorFor(t, fakeMachine(tree()), "servo-arm")
	d.file.Safety.Arm = configs.ArmAutomatic
	f := d.checkGuards()
	if expect(t, "no guards", f, statusWarn, "safety.arm: automatic", "no deadman of arm"); !f.Strict {
		t.Error("posture strict accepts it")
	}
	d.file.Safety.Arm, d.file.Safety.ExternalDeadman = configs.ArmOperator, "relay K2"
	expect(t, "guarded", d.checkGuards(), statusOK, "a person arms the robot")
}

func TestPrinter_GroupsAndAlignsFindings(t *testing.T) {
	posture := warnStrict("set `LimitRTPRIO=80`", "not granted: no permission").about("loop.fifo_priority")
	posture.ID, posture.Group = "rt.posture", "real time"
	latency := skip("--seconds is 0")
	latency.ID, latency.Group = "rt.latency", "real time"
	const fix = "log to another disk: `sudo install -d -o optibfm /var/log/optibfm`"
	disk := fail(fix, "%s", strings.Repeat("word ", 14))
	disk.ID, disk.Group = "disk.log_dir", "disk"
	r := &report{Computer: "HP ProDesk", Kernel: "4.19", User: "optibfm"}
	var out bytes.Buffer
	p := &printer{out: &out, progress: io.Discard}
	p.begin(r)
	for _, f := range []finding{posture, latency, disk} {
		r.add([]finding{f})
		p.print([]finding{f})
	}
	fatal.If(t, p.end(r))
	const want = `HP ProDesk, Linux 4.19, user optibfm

real time
  warn*  rt.posture       loop.fifo_priority: not granted: no permission
                          > set ` + "`LimitRTPRIO=80`" + `
  -      rt.latency       --seconds is 0

disk
  fail   disk.log_dir     word word word word word word word word word word word
                          word word word
                          > log to another disk:
                          ` + "`sudo install -d -o optibfm /var/log/optibfm`" + `

0 ok, 1 warn, 1 fail, 1 not checked
* failures with loop.posture: strict (1)
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

func TestWrap_BreaksAtSpacesOutsideCommandsAndTables(t *testing.T) {
	for text, want := range map[string][]string{
		"one two three":            {"one two", "three"},
		"run `a b c` now":          {"run", "`a b c`", "now"},
		"`longer than a line` x":   {"`longer than a line`", "x"},
		"unbreakable-word x":       {"unbreakable-word", "x"},
		"first\nsecond":            {"first", "second"},
		"first\n   a  b  c  d":     {"first", "   a  b  c  d"},
		"":                         {""},
		"µµµµ µµµ":                 {"µµµµ µµµ"},
		"a `command that has` b `": {"a", "`command that has`", "b `"},
	} {
		if got := wrap(text, 8); !slices.Equal(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestDoctor_RunsOnThisComputer(t *testing.T) {
	var out bytes.Buffer
	o := Options{Config: "rover", Seconds: 0.1, Set: []string{"log.dir=" + t.TempDir()}}
	err := Run(t.Context(), o, &out, io.Discard)
	for _, title := range groupTitles {
		if !strings.Contains(out.String(), "\n"+title+"\n") {
			t.Errorf("no %s:\n%s", title, &out)
		}
	}
	if err != nil && !strings.Contains(err.Error(), "findings failed") { // this computer may have failures
		t.Error(err)
	}
}
