package rtloop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/fatal"
)

// policies counts the threads of this process with each policy and priority.
func policies(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	names, err := filepath.Glob("/proc/self/task/[0-9]*")
	fatal.If(t, err)
	for _, name := range names {
		tid, err := strconv.Atoi(filepath.Base(name))
		fatal.If(t, err)
		attr, err := unix.SchedGetAttr(tid, 0)
		if err != nil {
			continue // it has ended
		}
		policy := map[uint32]string{unix.SCHED_NORMAL: "NORMAL", unix.SCHED_RR: "RR", unix.SCHED_FIFO: "FIFO"}[attr.Policy]
		found[fmt.Sprintf("%s %d", policy, attr.Priority)]++
	}
	return found
}

// wantOthers checks the policy of all threads without SCHED_FIFO.
func wantOthers(t *testing.T, when, want string) {
	t.Helper()
	found := policies(t)
	if found[want] == 0 {
		t.Errorf("%s: no thread has %s: %v", when, want, found)
	}
	for policy := range found {
		if policy != want && !strings.HasPrefix(policy, "FIFO") {
			t.Errorf("%s: threads have %v, want only %s", when, found, want)
		}
	}
}

// realTime skips a test without the privilege of real-time priorities.
func realTime(t *testing.T) {
	t.Helper()
	if !mayHave(80) || groupRefuses() {
		t.Skip("no privilege for real-time priorities")
	}
}

func groupRefuses() bool {
	why, _ := groupBudget(os.DirFS("/"), false)
	return why != ""
}

func TestPrepare_OtherThreadsHaveALowerPriority(t *testing.T) {
	realTime(t)
	cfg := DefaultConfig()
	cfg.Priority = 60
	l, granted, err := Prepare(cfg)
	if err != nil || len(granted.Missing()) > 0 && granted.Missing()[0].Request == "fifo_priority" {
		t.Fatalf("%v, %v", err, granted)
	}
	stopLooking(l.companions)
	l.companions.look(0, lookEvery)
	wantOthers(t, "prepared", "RR 50")
	if found := policies(t); found["FIFO 60"] == 0 {
		t.Errorf("the control thread is not one of %v", found)
	}
	// Field 41 is the policy.
	out, err := exec.Command("cat", "/proc/self/stat").Output()
	if fields := strings.Fields(string(out)); err != nil || len(fields) < 41 || fields[40] != "0" {
		t.Errorf("a child process has the policy of its parent: %v, %v", fields, err)
	}
	l.Close()
	wantOthers(t, "closed", "NORMAL 0")
}

func TestPrepare_OtherThreadsNeverShareThePriority(t *testing.T) {
	realTime(t)
	cfg := DefaultConfig()
	cfg.Priority = 1 // no real-time priority is lower
	l, _, err := Prepare(cfg)
	fatal.If(t, err)
	defer l.Close()
	wantOthers(t, "prepared", "NORMAL 0")
	if found := policies(t); found["FIFO 1"] == 0 {
		t.Errorf("the control thread is not one of %v", found)
	}
}

// quiet returns companions whose thread does not run.
func quiet(t *testing.T) *companions {
	t.Helper()
	realTime(t)
	c, err := startCompanions(60, unix.Gettid())
	fatal.If(t, err)
	stopLooking(c)
	t.Cleanup(c.Stop)
	return c
}

// stopLooking ends the thread, so that the test decides when to look.
func stopLooking(c *companions) {
	c.stop.Store(true)
	<-c.done
}

func TestCompanions_RaiseNewThreads(t *testing.T) {
	c := quiet(t)
	createThreads(spareThreads + runtime.GOMAXPROCS(0) + 8) // more than are idle
	if policies(t)["NORMAL 0"] == 0 {
		t.Fatal("no new thread has the ordinary policy")
	}
	c.look(0, lookEvery)
	wantOthers(t, "after a look", "RR 50")
}

func TestCompanions_LosePriorityWhileTheyAreBusy(t *testing.T) {
	c := quiet(t)
	for range busyLimit/lookEvery - 1 {
		c.look(lookEvery, lookEvery)
	}
	wantOthers(t, "busy, but not for long", "RR 50")
	c.look(lookEvery, lookEvery)
	wantOthers(t, "busy", "NORMAL 0")
	for range calmLimit/lookEvery - 1 {
		c.look(0, lookEvery)
	}
	wantOthers(t, "calm, but not for long", "NORMAL 0")
	c.look(0, lookEvery)
	wantOthers(t, "calm", "RR 50")
	if n := c.demotions(); n != 1 {
		t.Errorf("%d demotions", n)
	}
}

func TestCompanions_LookAllocatesNothing(t *testing.T) {
	c := quiet(t)
	if n := testing.AllocsPerRun(100, func() { c.look(0, lookEvery); c.used() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestDemotion_CountsBusyTimeWithALeak(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name       string
		used       []time.Duration // within 50 ms each
		wantActive bool
	}{
		{"calm", []time.Duration{0, ms, 37 * ms, 0, 0}, false},
		{"just busy", []time.Duration{38 * ms, 38 * ms, 38 * ms, 38 * ms}, true},
		{"too short", []time.Duration{50 * ms, 50 * ms, 50 * ms}, false},
		{"with a break", []time.Duration{50 * ms, 50 * ms, 50 * ms, 0, 50 * ms, 50 * ms, 50 * ms}, false},
		{"busy in four of five looks", slices.Repeat([]time.Duration{50 * ms, 50 * ms, 50 * ms, 50 * ms, 0}, 20)[1:], true},
		{"busy in three of four looks", slices.Repeat([]time.Duration{50 * ms, 50 * ms, 50 * ms, 0}, 20), false},
		{"on four processors", []time.Duration{200 * ms, 200 * ms, 200 * ms, 200 * ms}, true},
	} {
		var d demotion
		for _, used := range c.used {
			d.observe(used, 50*ms)
		}
		if d.active != c.wantActive {
			t.Errorf("%s: active %v", c.name, d.active)
		}
	}
}

func TestDemotion_OfCalmThreadsEndsDespiteABusyLook(t *testing.T) {
	d := demotion{active: true}
	looks := 0
	for ; d.active && looks < 1000; looks++ {
		used := time.Duration(0)
		if looks%20 == 10 {
			used = lookEvery
		}
		d.observe(used, lookEvery)
	}
	if want := int(calmLimit/lookEvery) + 2*4; looks != want { // two busy looks cost four calm ones each
		t.Errorf("%d looks, want %d", looks, want)
	}
}

// TestCompanions_ReportAnErrorOfALook takes the list of threads away.
func TestCompanions_ReportAnErrorOfALook(t *testing.T) {
	c := quiet(t)
	fatal.If(t, c.err())
	task := c.task
	c.task = -1
	c.look(0, lookEvery)
	if err := c.err(); err != unix.EBADF {
		t.Errorf("the error is %v", err)
	}
	c.task = task
	c.look(0, lookEvery)
	if err := c.err(); err != nil {
		t.Errorf("after a good look: %v", err)
	}
}

// spin uses processor time on this thread.
func spin(limit time.Duration, until func() bool) {
	const own = unix.CLOCK_THREAD_CPUTIME_ID
	for end := cpuTime(own) + int64(limit); cpuTime(own) < end && !until(); {
	}
}

// TestPrepare_BusyThreadsLoseThePriority computes for less than a second with the priority: it
// would keep other programs from running.
func TestPrepare_BusyThreadsLoseThePriority(t *testing.T) {
	realTime(t)
	l := prepare(t, DefaultConfig())
	defer l.Close()
	spin(600*time.Millisecond, func() bool { return l.Live().Demoted > 0 })
	if n := l.Live().Demoted; n != 1 {
		t.Fatalf("%d demotions", n)
	}
}

func TestCompanions_UseIsThatOfOtherThreads(t *testing.T) {
	runtime.LockOSThread() // no other goroutine measures on this thread
	defer runtime.UnlockOSThread()
	idle := unix.Gettid()
	for name, loop := range map[string]bool{"the control thread": true, "another thread": false} {
		used := make(chan int64)
		go func() {
			runtime.LockOSThread() // and ends with it
			c := &companions{loop: idle}
			if loop {
				c.loop = unix.Gettid()
			}
			before, self := c.used(), cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
			spin(50*time.Millisecond, func() bool { return false })
			after, selfAfter := c.used(), cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
			used <- after - before + (selfAfter - self) // used leaves out the thread that asks
		}()
		got := time.Duration(<-used)
		if counted := got > 40*time.Millisecond; counted == loop {
			t.Errorf("%s: %v of 50 ms", name, got)
		}
	}
}
