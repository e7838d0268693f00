package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"optibfm/rtloop"
)

// fixed are findings that depend on the computer of the test.
var fixed = map[string]finding{
	"rt.latency":   fine("1000 wake-ups: p50 9 µs, p99 31 µs, max 88 µs late, of 50 ms; cyclictest: 6 µs, 22 µs, 61 µs"),
	"disk.log_dir": fine("/var/log/optibfm takes files"),
	"disk.fsync":   fine("p50 1.1 ms, p99 4.0 ms of 200"),
	"disk.space":   fine("42.9 GB free; a run writes 54 MB an hour: 795 hours"),
	"model.check":  fine("φ and π take p50 31 µs, p99 44 µs, of 50 ms; no vectors.npz beside it to compare with"),
}

// Report runs all checks of a doctor, with fixed findings in place of what
// measures this computer.
var updateGolden = flag.Bool("update", false, "write the golden files")

func (d *doctor) Report(ctx context.Context, posture obtained, p *doctorPrinter) (*doctorReport, error) {
	r := d.newReport()
	r.Program = "test"
	p.Begin(r)
	d.posture.Store(&posture)
	for _, c := range d.checks() {
		if f, ok := fixed[c.id]; ok && d.configured || c.id == "rt.latency" {
			c.run = func(context.Context) []finding { return []finding{f} }
		}
		if c.id == "rt.posture" {
			continue
		}
		found := c.perform(ctx, d.file.Loop.Posture)
		r.Add(found)
		p.findings(found)
	}
	return r, p.End(r)
}

// goodBoard is a Jetson on which all is well, with the ready-made robot.
func goodBoard(t *testing.T) *doctor {
	m := fakeMachine(board())
	m.line = func(string, string) (lineState, error) { return lineState{Chip: "gpiochip0", Offset: 17}, nil }
	return examined(t, m, "composite", "loop.cpus=[5]")
}

// badComputer is one on which much is wrong.
func badComputer(t *testing.T) *doctor {
	files := tree(badPC)
	device(files, "/dev/i2c-1", 108)
	device(files, "/dev/gpiochip0", 0)
	m := fakeMachine(files)
	m.access = denies("/dev/i2c-1", "/dev/gpiochip0")
	m.wallClock = func() (unix.Timex, int, error) { return unix.Timex{Status: unix.STA_UNSYNC}, unix.TIME_ERROR, nil }
	return examined(t, m, "composite", "loop.cpus=[5]")
}

func TestTheDoctorsReportIsGroupedAlignedAndFitsInto80Columns(t *testing.T) {
	for name, d := range map[string]*doctor{"jetson": goodBoard(t), "badpc": badComputer(t), "alone": examined(t, fakeMachine(tree(badPC)), "")} {
		posture := granted
		if name != "jetson" {
			posture = refusing
		}
		var out bytes.Buffer
		if _, err := d.Report(t.Context(), posture, newDoctorPrinter(&out, io.Discard, false)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > doctorWidth {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		golden(t, filepath.Join("testdata", name+".txt"), out.Bytes())
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *updateGolden {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it anew); got\n%s", path, got)
	}
}

func TestNothingFailsOnAGoodBoardAndMuchOnABadComputer(t *testing.T) {
	good, err := goodBoard(t).Report(t.Context(), granted, newDoctorPrinter(io.Discard, io.Discard, false))
	if err != nil || !good.Passed || good.Failed != 0 || good.Warned != 0 {
		t.Errorf("%+v, %v", good, err)
	}
	bad, err := badComputer(t).Report(t.Context(), refusing, newDoctorPrinter(io.Discard, io.Discard, false))
	if err != nil || bad.Passed || bad.Failed < 5 || bad.OK+bad.Warned+bad.Failed+bad.Skipped != len(bad.Findings) {
		t.Errorf("%+v, %v", bad, err)
	}
}

func TestPostureStrictTurnsWhatItRefusesIntoFailures(t *testing.T) {
	strict, err := badComputer(t).Report(t.Context(), refusing, newDoctorPrinter(io.Discard, io.Discard, false))
	if err != nil {
		t.Fatal(err)
	}
	lenient := badComputer(t)
	lenient.file.Loop.Posture = rtloop.Warn
	warned, err := lenient.Report(t.Context(), refusing, newDoctorPrinter(io.Discard, io.Discard, false))
	if err != nil {
		t.Fatal(err)
	}
	if warned.strict == 0 || strict.Failed != warned.Failed+warned.strict || strict.Warned != warned.Warned-warned.strict {
		t.Errorf("strict %d fail %d warn; warn %d fail %d warn, %d of them strict", strict.Failed, strict.Warned, warned.Failed, warned.Warned, warned.strict)
	}
	var made []string
	for i, f := range strict.Findings {
		if f.Status != warned.Findings[i].Status {
			made = append(made, f.ID)
		}
	}
	want := []string{"rt.fifo", "rt.memlock", "rt.affinity", "rt.timer_slack", "rt.throttling", "cpu.throttled", "cpu.power_mode", "memory.size"}
	if !slices.Equal(made, want) {
		t.Errorf("%v, want %v", made, want)
	}
}

// keysOfJSON are the keys of objects, with the path to them.
func keysOfJSON(value any, path string, into map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			into[path+key] = true
			if key != "values" { // its keys are the checks' own
				keysOfJSON(inner, path+key+".", into)
			}
		}
	case []any:
		for _, inner := range v {
			keysOfJSON(inner, path, into)
		}
	}
}

func TestKeysAndIDsOfTheJSONAreStable(t *testing.T) {
	var out bytes.Buffer
	d := badComputer(t)
	d.file.Loop.Posture = rtloop.Warn
	if _, err := d.Report(t.Context(), refusing, newDoctorPrinter(&out, io.Discard, true)); err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(out.Bytes(), &value); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	keysOfJSON(value, "", keys)
	want := "computer config fail findings findings.found findings.group findings.id findings.mend findings.status findings.strict findings.subject findings.values " +
		"kernel ok passed posture program skip user version warn"
	if got := strings.Join(slices.Sorted(maps.Keys(keys)), " "); got != want {
		t.Errorf("keys\n%s\nwant\n%s", got, want)
	}
	var r doctorReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Version != 1 {
		t.Fatal(err)
	}
	var ids []string
	for _, f := range r.Findings {
		ids = append(ids, f.ID)
		if f.Group == "" {
			t.Errorf("%s has no group", f.ID)
		}
	}
	want = "config.file system.user rt.fifo rt.memlock rt.affinity rt.timer_slack rt.isolation rt.preemption rt.throttling rt.others rt.latency " +
		"cpu.governor cpu.idle cpu.temperature cpu.throttled cpu.power_mode memory.size clock.source clock.wall disk.log_dir disk.fsync disk.space " +
		"device.i2c device.gpio device.bounds operator.device model.bundle model.fit model.check model.backend"
	if got := strings.Join(slices.Compact(ids), " "); got != want {
		t.Errorf("ids\n%s\nwant\n%s", got, want)
	}
}

func TestTheDoctorFailsWhereACheckDoes(t *testing.T) {
	m := fakeMachine(tree(jetson))
	f := DoctorFlags{Config: "composite", Set: []string{"loop.lock_memory=false", "loop.fifo_priority=0", "log.dir=" + t.TempDir()}}
	var out, progress bytes.Buffer
	err := RunDoctor(t.Context(), f, m, &out, &progress)
	if err == nil || !strings.Contains(err.Error(), "checks fail") || !strings.Contains(out.String(), "/dev/i2c-1 is not there") {
		t.Errorf("%v\n%s", err, &out)
	}
	out.Reset()
	f.Config, f.JSON, f.Seconds = "rover", true, 0.05
	err = RunDoctor(t.Context(), f, m, &out, &progress)
	var r doctorReport
	if decodeErr := json.Unmarshal(out.Bytes(), &r); decodeErr != nil || err != nil || !r.Passed || r.Config != "rover" || progress.Len() > 0 {
		t.Errorf("%v, %v\n%s", err, decodeErr, &out)
	}
}

func TestABadConfigurationIsAFindingAndTheRestIsChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte("version: 1\nrobto: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := RunDoctor(t.Context(), DoctorFlags{Config: path}, fakeMachine(tree(jetson)), &out, io.Discard)
	if err == nil || !strings.Contains(out.String(), "did you mean robot?") || !strings.Contains(out.String(), "arch_sys_counter") || !strings.Contains(out.String(), "see config.file") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestFlagsOutOfRangeAreRefused(t *testing.T) {
	for word, f := range map[string]DoctorFlags{"--seconds": {Seconds: -1}, "3600": {Seconds: 1e9}, "--config": {Set: []string{"a=b"}}} {
		if err := RunDoctor(t.Context(), f, fakeMachine(tree()), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestACheckThatHangsPanicsOrIsInterruptedIsAFinding(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	hangs := check{id: "disk.fsync", limit: 10 * time.Millisecond, run: func(context.Context) []finding {
		<-release
		return nil
	}}
	verdict(t, "hangs", hangs.perform(t.Context(), rtloop.Warn)[0], statusFail, "did not end within 10ms")
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	verdict(t, "interrupted", hangs.perform(interrupted, rtloop.Warn)[0], statusSkip, "interrupted")
	panics := single("rt.fifo", func() finding { panic("no such thing") })
	f := panics.perform(t.Context(), rtloop.Warn)[0]
	verdict(t, "panics", f, statusFail, "no such thing", "doctor_test.go:")
	if f.ID != "rt.fifo" || f.Group != "real time" {
		t.Errorf("%+v", f)
	}
	late := check{id: "rt.latency", limit: 10 * time.Millisecond, run: func(ctx context.Context) []finding {
		<-ctx.Done()
		return []finding{fine("what there was")}
	}}
	verdict(t, "ends in time when called off", late.perform(t.Context(), rtloop.Warn)[0], statusOK, "what there was")
	if err := RunDoctor(interrupted, DoctorFlags{}, fakeMachine(tree()), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Error(err)
	}
}

func TestTheUserWhoseRightsAreLookedAtIsNamed(t *testing.T) {
	d := examined(t, fakeMachine(tree()), "rover")
	verdict(t, "service", d.serviceUser(), statusOK, "optibfm (uid 990), groups optibfm, gpio")
	d.file.Run.HostUser = "operator"
	verdict(t, "two users", d.serviceUser(), statusWarn, "run.host_user is operator")
	d.user = identity{Name: "root"}
	verdict(t, "root", d.serviceUser(), statusWarn, "sudo -u optibfm")
	if who := whoAmI(); who.Name == "" || who.UID != os.Geteuid() {
		t.Errorf("%+v", who)
	}
}

func TestTextsAreFoldedAtSpacesAndCommandsStayWhole(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"one two three", []string{"one two", "three"}},
		{"run `a b c` now", []string{"run", "`a b c`", "now"}},
		{"`longer than a line`", []string{"`longer", "than a", "line`"}},
		{"unbreakable-word x", []string{"unbreakable-word", "x"}},
		{"see /proc/sys/kernel/x", []string{"see", "/proc/", "sys/", "kernel/x"}},
		{"first\nsecond", []string{"first", "second"}},
		{"first\n   a  b  c  d", []string{"first", "   a  b  c  d"}},
		{"", []string{""}},
		{"µµµµ µµµ", []string{"µµµµ µµµ"}},
	} {
		if got := fold(c.text, 8); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q", c.text, got)
		}
	}
}

func TestTheDoctorRunsOnThisComputer(t *testing.T) {
	var out bytes.Buffer
	err := RunDoctor(t.Context(), DoctorFlags{Config: "rover", Seconds: 0.1, Set: []string{"log.dir=" + t.TempDir()}}, ThisMachine(), &out, io.Discard)
	for _, title := range groupTitles {
		if !strings.Contains(out.String(), "\n"+title+"\n") {
			t.Errorf("no %s:\n%s", title, &out)
		}
	}
	if err != nil {
		t.Logf("%v\n%s", err, &out) // it may well be right
	}
	if errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
