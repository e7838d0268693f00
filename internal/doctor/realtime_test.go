package doctor

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/jitter"
	"optibfm/rtloop"
)

func TestDoctor_ReportsEveryPrivilege(t *testing.T) {
	d := doctorFor(t, fakeMachine(tree()), "rover")
	for _, f := range d.checkPosture(t.Context()) {
		expect(t, f.Subject, f, statusOK, "granted (80)")
	}
	d.prepare = grants(false)
	found := d.checkPosture(t.Context())
	if len(found) != 4 || found[2].Subject != "loop.fifo_priority" {
		t.Fatalf("%+v", found)
	}
	for _, f := range found {
		if expect(t, f.Subject, f, statusWarn, "no permission", "LimitRTPRIO=80"); !f.Strict {
			t.Errorf("%s: not a failure under posture strict", f.Subject)
		}
	}
	for status, err := range map[string]error{statusFail: errors.New("out of range"), statusSkip: nil} {
		d.prepare = func(rtloop.Config) (rtloop.Granted, error) { return rtloop.Granted{}, err }
		expect(t, "without grants", d.checkPosture(t.Context())[0], status)
	}
}

func TestPreparePosture_AsksThisComputer(t *testing.T) {
	cfg := rtloop.DefaultConfig()
	cfg.LockMemory, cfg.Posture = false, rtloop.Strict
	if granted, err := preparePosture(cfg); err != nil || len(granted.Grants) != 2 {
		t.Errorf("%+v, %v", granted, err)
	}
	cfg.PeriodMS = -1
	errtest.NotNil(t, errtest.Of(preparePosture(cfg)), "accepted a period of -1 ms")
}

func TestDoctor_GradesKernelAndClockSettings(t *testing.T) {
	type files = map[string]string
	preemption, throttling := (*doctor).checkPreemption, (*doctor).checkThrottling
	governor, source := (*doctor).checkGovernor, (*doctor).checkClockSource
	fast := []string{"robot.driver=bridge", "robot.bridge.address=unix:/s", "loop.period_ms=1", "operator.source=none"}
	pinned := []string{"loop.cpus=[5]"}
	for _, c := range []struct {
		name         string
		check        func(*doctor) finding
		base, change files
		set          []string
		status, word string
	}{
		{"PREEMPT_RT", preemption, jetson, nil, fast, statusOK, "PREEMPT_RT"},
		{"realtime file", preemption, desktop, files{"/sys/kernel/realtime": "1"}, fast, statusOK, ""},
		{"long period", preemption, desktop, nil, nil, statusOK, "no PREEMPT_RT"},
		{"short period", preemption, desktop, nil, fast, statusWarn, "for a period of 1 ms"},
		{"95 %", throttling, jetson, nil, nil, statusOK, "95 %"},
		{"no time", throttling, desktop, nil, nil, statusWarn, "0 %"},
		{"little time", throttling, jetson, files{rtRuntime: "300000"}, nil, statusWarn, "30 %"},
		{"no limit", throttling, jetson, files{rtRuntime: "-1"}, nil, statusOK, "no limit"},
		{"not readable", throttling, nil, nil, nil, statusSkip, "not readable"},
		{"performance", governor, jetson, nil, pinned, statusOK, "performance"},
		{"mixed", governor, jetson, nil, nil, statusWarn, "performance, powersave"},
		{"powersave", governor, jetson, files{governor5: "powersave"}, pinned, statusWarn, "cpupower"},
		{"no governor", governor, nil, nil, nil, statusOK, "none"},
		{"counter", source, jetson, nil, nil, statusOK, "arch_sys_counter"},
		{"hpet", source, jetson, files{clockSource: "hpet"}, nil, statusWarn, "slow to read"},
		{"no source", source, nil, nil, nil, statusSkip, ""},
	} {
		d := doctorFor(t, fakeMachine(tree(c.base, c.change)), "rover", c.set...)
		expect(t, c.name, c.check(d), c.status, c.word)
	}
}

func TestDoctor_GradesWallClock(t *testing.T) {
	now := unix.Timeval{Sec: 1_800_000_000}
	for _, c := range []struct {
		t            unix.Timex
		state        int
		err          error
		status, word string
	}{
		{unix.Timex{Time: now, Maxerror: 1500}, 0, nil, statusOK, "within 1.5 ms"},
		{unix.Timex{Time: now}, unix.TIME_ERROR, nil, statusWarn, "not synchronised"},
		{unix.Timex{Time: now, Status: unix.STA_UNSYNC}, 0, nil, statusWarn, "not synchronised"},
		{unix.Timex{}, 0, nil, statusWarn, "1970-01-01"},
		{unix.Timex{}, 0, unix.EPERM, statusSkip, "not permitted"},
	} {
		d := doctorFor(t, fakeMachine(tree()), "")
		d.wallClock = func() (unix.Timex, int, error) { return c.t, c.state, c.err }
		expect(t, c.word, d.checkWallClock(), c.status, c.word)
	}
}

func TestDoctor_GradesLatency(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		r      jitter.Result
		status string
		words  []string
	}{
		{"punctual", lateness(ms/10, ms/2), statusOK, []string{"p99 100 µs, max 500 µs late; period 20 ms"}},
		{"an outlier", lateness(ms/10, 6*ms), statusWarn, []string{"a quarter"}},
		{"late", lateness(3*ms, 6*ms), statusWarn, []string{"a tenth", "PREEMPT_RT"}},
		{"missed", lateness(3*ms, 21*ms), statusWarn, []string{"would miss ticks"}},
		{"no wake-ups", jitter.Result{}, statusFail, []string{"no wake-ups"}},
	} {
		expect(t, c.name, gradeLatency(c.r, 20*ms), c.status, c.words...)
	}
}

func TestDoctor_MeasuresWithThePostureOfTheLoop(t *testing.T) {
	d := doctorFor(t, fakeMachine(tree()), "rover")
	d.seconds = 3
	d.measure = func(_ context.Context, o jitter.Options) (jitter.Result, error) {
		if o.PeriodMS != 10 || o.Seconds != 3 || o.Priority != 80 {
			t.Errorf("%+v", o)
		}
		return lateness(time.Microsecond, time.Microsecond), nil
	}
	expect(t, "punctual", d.latencyCheck().run(t.Context())[0], statusOK)
	d.measure = func(context.Context, jitter.Options) (jitter.Result, error) {
		return jitter.Result{}, errors.New("no clock")
	}
	expect(t, "error", d.latencyCheck().run(t.Context())[0], statusFail, "no clock")
	d.seconds = 0
	expect(t, "off", d.latencyCheck().run(t.Context())[0], statusSkip)
}
