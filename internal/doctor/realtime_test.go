package doctor

import (
	"context"
	"errors"
	"testing"
	"time"

	"optibfm/internal/jitter"
	"optibfm/rtloop"
)

// look is a check before a changed tree, with loop keys.
type look struct {
	name   string
	base   map[string]string
	change map[string]string
	set    []string
	status string
	words  []string
}

func (l look) run(t *testing.T, check func(*doctor) finding) {
	t.Helper()
	set := append([]string{"loop.cpus=[5]"}, l.set...)
	verdict(t, l.name, check(examined(t, fakeMachine(changed(l.base, l.change)), "rover", set...)), l.status, l.words...)
}

func TestWhatTheLoopIsNotGrantedIsAWarningWithTheLoopsOwnMend(t *testing.T) {
	d := examined(t, fakeMachine(tree()), "rover")
	verdict(t, "before", d.grant("fifo_priority", ""), statusSkip)
	d.posture.Store(&refusing)
	for request, words := range map[string][]string{
		"fifo_priority": {"SCHED_FIFO 80", "no right", "LimitRTPRIO"}, "lock_memory": {"64 KiB", "LimitMEMLOCK"},
		"cpus": {"offline", "online"}, "timer_slack_ns": {"prctl", "seccomp"},
	} {
		f := d.grant(request, "")
		verdict(t, request, f, statusWarn, words...)
		if !f.Strict {
			t.Errorf("%s: posture strict refuses to start without it", request)
		}
	}
	d.posture.Store(&granted)
	verdict(t, "granted", d.grant("fifo_priority", ""), statusOK, "granted")
	verdict(t, "locked", d.lockedMemory(), statusOK, "40 MiB")
	verdict(t, "not asked", d.grant("else", "not asked for"), statusOK, "not asked for")
	d.posture.Store(&obtained{err: errors.New("rtloop: out of range")})
	verdict(t, "error", d.grant("cpus", ""), statusFail, "out of range")
}

func TestTheLoopIsAskedForWhatItGetsHere(t *testing.T) {
	cfg := rtloop.DefaultConfig()
	cfg.LockMemory, cfg.Posture = false, rtloop.Strict
	o := obtain(cfg, ThisMachine())
	if o.err != nil || len(o.granted.Grants) != 2 {
		t.Errorf("%+v", o)
	}
	cfg.PeriodMS = -1
	if o := obtain(cfg, ThisMachine()); o.err == nil {
		t.Error("a period of -1 is granted")
	}
}

func TestIsolation(t *testing.T) {
	for _, l := range []look{
		{"isolated", jetson, nil, nil, statusOK, []string{"without timer tick"}},
		{"ticking", jetson, map[string]string{"/sys/devices/system/cpu/nohz_full": "(null)\n"}, nil, statusOK, []string{"stays on 5"}},
		{"cpuset", badPC, map[string]string{"/sys/fs/cgroup/cpuset.cpus.isolated": "4-6"}, nil, statusOK, []string{"isolated"}},
		{"shared", badPC, nil, nil, statusWarn, []string{"not isolated: 5, of loop.cpus", "isolcpus=5", "nohz_full=5"}},
		{"unused", jetson, nil, []string{"loop.cpus=[]"}, statusWarn, []string{"cpus: [5]"}},
		{"none", badPC, nil, []string{"loop.cpus=[]"}, statusOK, []string{"no processor is isolated"}},
	} {
		l.run(t, (*doctor).isolation)
	}
}

func TestPreemption(t *testing.T) {
	dynamic := "Linux version 6.8.0 #1 SMP PREEMPT_DYNAMIC"
	fast := []string{"robot.driver=bridge", "robot.bridge.address=unix:/s", "loop.period_ms=1", "operator.source=none"}
	for _, l := range []look{
		{"rt", jetson, nil, nil, statusOK, []string{"PREEMPT_RT"}},
		{"rt by name", jetson, map[string]string{"/sys/kernel/realtime": "-"}, nil, statusOK, []string{"PREEMPT_RT"}},
		{"voluntary", badPC, nil, nil, statusWarn, []string{"voluntary or none", "preempt=full"}},
		{"dynamic", badPC, map[string]string{"/proc/version": dynamic, "/sys/kernel/debug/sched/preempt": "none voluntary (full)"}, nil, statusOK, []string{"now full"}},
		{"dynamic none", badPC, map[string]string{"/proc/version": dynamic, "/sys/kernel/debug/sched/preempt": "(none) voluntary full"}, nil, statusWarn, []string{"now none"}},
		{"by command line", badPC, map[string]string{"/proc/version": dynamic, "/proc/cmdline": "quiet preempt=voluntary"}, nil, statusWarn, []string{"preempt=voluntary"}},
		{"empty choice", badPC, map[string]string{"/proc/version": dynamic, "/proc/cmdline": "preempt="}, nil, statusOK, nil},
		{"short period", badPC, map[string]string{"/proc/version": dynamic}, fast, statusWarn, []string{"for a period of 1 ms", "PREEMPT_RT kernel"}},
	} {
		l.run(t, (*doctor).preemption)
	}
}

func TestThrottling(t *testing.T) {
	const runtime, group = "/proc/sys/kernel/sched_rt_runtime_us", "/sys/fs/cgroup/cpu,cpuacct/user.slice/cpu.rt_runtime_us"
	for _, l := range []look{
		{"usual", jetson, nil, nil, statusOK, []string{"95 %"}},
		{"off", jetson, map[string]string{runtime: "-1"}, nil, statusOK, []string{"off"}},
		{"little", jetson, map[string]string{runtime: "100000"}, nil, statusWarn, []string{"10 %", "sysctl"}},
		{"nothing", jetson, map[string]string{runtime: "0"}, nil, statusWarn, []string{"no time at all"}},
		{"unknown", jetson, map[string]string{runtime: "-"}, nil, statusSkip, nil},
		{"group without", badPC, nil, nil, statusWarn, []string{group, "200000", "RT_GROUP_SCHED"}},
		{"group with", badPC, map[string]string{group: "200000", runtime: "950000"}, nil, statusOK, nil},
	} {
		l.run(t, (*doctor).throttling)
	}
}

func TestOnlyThreadsThatGoBeforeTheLoopAreNamed(t *testing.T) {
	for _, l := range []look{
		{"kernel's own", jetson, nil, nil, statusOK, []string{"no other thread"}},
		{"jack", badPC, nil, nil, statusWarn, []string{"jackd (rt) (FIFO 95)", "chrt"}},
		{"round robin", jetson, map[string]string{"/proc/7/task/7/stat": stat("x", 0, 81, policyRR)}, nil, statusWarn, []string{"x (RR 81)"}},
		{"deadline", jetson, map[string]string{"/proc/7/task/8/stat": stat("dl", 0, 0, policyDeadline)}, nil, statusWarn, []string{"dl (deadline)"}},
		{"equal", jetson, map[string]string{"/proc/7/task/7/stat": stat("x", 0, 80, policyFIFO)}, nil, statusOK, nil},
		{"own", jetson, map[string]string{"/proc/4242/task/7/stat": stat("watchdog", 0, 99, policyFIFO)}, nil, statusOK, nil},
		{"damaged", jetson, map[string]string{"/proc/7/task/7/stat": "7 (x) S", "/proc/8/task/8/stat": ")(", "/proc/9/task/9/stat": ""}, nil, statusOK, nil},
		{"no priority", badPC, nil, []string{"loop.fifo_priority=0"}, statusSkip, nil},
	} {
		l.run(t, (*doctor).otherThreads)
	}
}

// lateness is a measurement.
func lateness(p99, most time.Duration, cyclictest *jitter.CyclictestRun) jitter.Result {
	r := jitter.Result{Cyclictest: cyclictest}
	r.Loop.Lateness = rtloop.Distribution{Count: 1000, P50: p99 / 2, P99: p99, Max: most}
	return r
}

func TestWakeUpsAreJudgedByThePeriodAndBesideCyclictest(t *testing.T) {
	const ms = time.Millisecond
	good := &jitter.CyclictestRun{WakeUpCounts: jitter.WakeUpCounts{Cycles: 1000, P50: ms / 50, P99: ms / 20, Max: ms / 10}}
	for _, c := range []struct {
		name   string
		r      jitter.Result
		status string
		words  []string
	}{
		{"punctual", lateness(ms/10, ms/2, good), statusOK, []string{"p99 100 µs, max 500 µs late, of 20 ms", "cyclictest: 20 µs, 50 µs, 100 µs"}},
		{"an outlier", lateness(ms/10, 6*ms, nil), statusWarn, []string{"a quarter"}},
		{"late", lateness(3*ms, 6*ms, nil), statusWarn, []string{"a tenth", "--hog"}},
		{"only we", lateness(3*ms, 6*ms, good), statusWarn, []string{"cyclictest is much better"}},
		{"missed", lateness(3*ms, 21*ms, nil), statusWarn, []string{"would be missed"}},
		{"never", jitter.Result{}, statusFail, []string{"never woke"}},
	} {
		verdict(t, c.name, judgeWakeUps(c.r, 20*ms), c.status, c.words...)
	}
}

func TestWakeUpsAreMeasuredAloneWhereCyclictestFails(t *testing.T) {
	d := examined(t, fakeMachine(tree()), "rover")
	d.seconds = 3
	var asked []jitter.Options
	d.measure = func(_ context.Context, o jitter.Options) (jitter.Result, error) {
		asked = append(asked, o)
		if !o.Alone {
			return jitter.Result{}, errors.New("cyclictest: not permitted")
		}
		return lateness(time.Microsecond, time.Microsecond, nil), nil
	}
	verdict(t, "alone", d.wakeUps().run(t.Context())[0], statusOK, "cyclictest may not run")
	if len(asked) != 2 || asked[0].PeriodMS != 10 || asked[0].Seconds != 3 || asked[0].Fifo != 80 {
		t.Errorf("%+v", asked)
	}
	d.measure = func(context.Context, jitter.Options) (jitter.Result, error) {
		return jitter.Result{}, errors.New("no clock")
	}
	verdict(t, "not at all", d.wakeUps().run(t.Context())[0], statusFail, "no clock")
	d.seconds = 0
	verdict(t, "not asked", d.wakeUps().run(t.Context())[0], statusSkip)
}

func FuzzAnyThreadIsReadWithoutPanic(f *testing.F) {
	f.Add(stat("a ) (b", 0x400000, 99, policyFIFO))
	f.Fuzz(func(t *testing.T, text string) {
		if thread, ok := parseThread(text); ok {
			if thread.precedes(90) && !thread.precedes(50) {
				t.Errorf("%v goes before 90 and not before 50", thread)
			}
		}
	})
}
