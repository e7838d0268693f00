package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"optibfm/internal/plaintext"
	"optibfm/rtloop"
)

func (d *doctor) realTimeChecks() []check {
	return []check{
		single("rt.fifo", func() finding { return d.grant("fifo_priority", "loop.fifo_priority is 0: the ordinary scheduler") }),
		single("rt.memlock", d.lockedMemory),
		single("rt.affinity", func() finding { return d.grant("cpus", "loop.cpus is empty: any processor") }),
		single("rt.timer_slack", func() finding { return d.grant("timer_slack_ns", "loop.timer_slack_ns is 0: left as it is") }),
		single("rt.isolation", d.isolation),
		single("rt.preemption", d.preemption),
		single("rt.throttling", d.throttling),
		single("rt.others", d.otherThreads),
	}
}

// obtained is what the operating system granted the loop.
type obtained struct {
	granted rtloop.Granted
	heldKiB int64 // of memory, while it was locked
	err     error
}

// obtain asks for all that the loop wants, and gives it back.
func obtain(cfg rtloop.Config, m machine) obtained {
	cfg.Posture = rtloop.Warn // all answers, not the first refusal
	loop, granted, err := rtloop.Prepare(cfg)
	if err != nil {
		return obtained{err: err}
	}
	defer loop.Close()
	held, _ := m.statusKiB("VmRSS") // VmLck counts what the runtime reserves, too
	return obtained{granted: granted, heldKiB: held}
}

// prepare finds out what the loop is granted, for the checks that tell it.
func (d *doctor) prepare(context.Context) []finding {
	o := obtain(d.file.Loop, d.machine)
	d.posture.Store(&o)
	return nil
}

// statusKiB is a line of /proc/self/status.
func (m machine) statusKiB(key string) (int64, bool) {
	text, _ := m.read("/proc/self/status")
	return kibibytes(text, key)
}

// kibibytes finds "KEY: 123 kB" among lines.
func kibibytes(text, key string) (int64, bool) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key+":" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// grant is the finding about one request of the loop, in the loop's own words.
// Posture strict refuses to start without it.
func (d *doctor) grant(request, notAsked string) finding {
	o := d.posture.Load()
	if o == nil {
		return skipped("see rt.posture")
	}
	if o.err != nil {
		return broken("correct the section loop of the configuration", "%v", o.err)
	}
	for _, g := range o.granted.Grants {
		switch {
		case g.Request != request:
		case g.Granted:
			return fine("%s: granted", g.Asked)
		default:
			return lacking(g.Fix, "%s: not granted: %s; it is %s", g.Asked, g.Why, g.Got)
		}
	}
	return fine("%s", notAsked)
}

func (d *doctor) lockedMemory() finding {
	f := d.grant("lock_memory", "loop.lock_memory is false: pages may be written out")
	if o := d.posture.Load(); o != nil && o.heldKiB > 0 && f.Status == statusOK {
		f.Found += fmt.Sprintf(" (%d MiB of this program)", o.heldKiB>>10)
		f = f.with(map[string]float64{"held_mib": float64(o.heldKiB) / 1024})
	}
	return f
}

// isolation compares loop.cpus with the processors that the kernel keeps free.
func (d *doctor) isolation() finding {
	isolated, _ := d.cpuList("/sys/devices/system/cpu/isolated")
	partition, _ := d.cpuList("/sys/fs/cgroup/cpuset.cpus.isolated")
	isolated = append(isolated, partition...)
	tickless, _ := d.cpuList("/sys/devices/system/cpu/nohz_full")
	cpus := d.file.Loop.CPUs
	if len(cpus) == 0 {
		if len(isolated) == 0 {
			return fine("no processor is isolated, and loop.cpus asks for none")
		}
		return doubtful(fmt.Sprintf("set loop.cpus to one of them: `cpus: [%d]`", isolated[0]),
			"isolated: %s; but loop.cpus is empty: the loop stays off them", showCPUs(isolated))
	}
	var shared, ticking []int
	for _, cpu := range cpus {
		if !slices.Contains(isolated, cpu) {
			shared = append(shared, cpu)
		}
		if !slices.Contains(tickless, cpu) {
			ticking = append(ticking, cpu)
		}
	}
	if len(shared) > 0 {
		list := showCPUs(cpus)
		return doubtful(fmt.Sprintf("add to the kernel's command line `isolcpus=%s` `nohz_full=%s` `rcu_nocbs=%s` and reboot", list, list, list),
			"not isolated: %s, of loop.cpus: other work runs there too", showCPUs(shared))
	}
	if len(ticking) > 0 {
		return fine("isolated: %s; the timer tick stays on %s (no nohz_full)", showCPUs(cpus), showCPUs(ticking))
	}
	return fine("isolated: %s, without timer tick", showCPUs(cpus))
}

// preemption tells how soon the kernel lets go of a processor. A period below
// two milliseconds leaves no room for what a kernel without PREEMPT_RT does.
func (d *doctor) preemption() finding {
	const wantsRT = 2.0 // ms
	if realtime, _ := d.number("/sys/kernel/realtime"); realtime == 1 {
		return fine("PREEMPT_RT")
	}
	version, _ := d.read("/proc/version")
	model := preemptionModel(version)
	if choice, ok := d.read("/sys/kernel/debug/sched/preempt"); ok {
		if _, rest, marked := strings.Cut(choice, "("); marked {
			now, _, _ := strings.Cut(rest, ")")
			model += ", now " + now
		}
	} else if line, _ := d.read("/proc/cmdline"); strings.Contains(line, "preempt=") {
		_, rest, _ := strings.Cut(line, "preempt=")
		model += ", booted with preempt=" + strings.Fields(rest + " ?")[0]
	}
	period := d.file.Loop.PeriodMS
	switch {
	case strings.HasPrefix(model, "PREEMPT_RT"):
		return fine("PREEMPT_RT")
	case period < wantsRT:
		return lacking("boot a PREEMPT_RT kernel (Debian: linux-image-rt; Jetson: the rt-kernel packages), or lengthen loop.period_ms",
			"%s, without PREEMPT_RT, for a period of %v ms", model, period)
	case strings.Contains(model, "none"), strings.Contains(model, "voluntary"):
		return doubtful("boot with `preempt=full`, or a PREEMPT_RT kernel", "%s: system calls of others hold the loop up", model)
	}
	return fine("%s: without PREEMPT_RT; enough for %v ms if rt.latency says so", model, period)
}

// preemptionModel finds the model in the kernel's version.
func preemptionModel(version string) string {
	for _, model := range []string{"PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT"} {
		if slices.Contains(strings.Fields(version), model) {
			return model
		}
	}
	return "voluntary or none"
}

// throttling looks at what the kernel leaves to real-time threads: sched(7),
// and Documentation/scheduler/sched-rt-group.rst for control groups.
func (d *doctor) throttling() finding {
	const least = 0.5 // of the time
	if group, budget, ok := d.groupBudget(); ok && budget == 0 {
		return lacking("write 200000 into that file, as root; or boot a kernel without RT_GROUP_SCHED",
			"this control group has no real-time time, hence no SCHED_FIFO: 0 in %s", group)
	}
	runtime, ok := d.number("/proc/sys/kernel/sched_rt_runtime_us")
	if !ok {
		return skipped("the kernel does not tell (sched_rt_runtime_us)")
	}
	if runtime < 0 {
		return fine("off: a loop that spins can hold a processor for ever; the watchdog is the only help")
	}
	period, _ := d.number("/proc/sys/kernel/sched_rt_period_us")
	share := float64(runtime) / float64(max(period, 1))
	const mend = "`sudo sysctl kernel.sched_rt_runtime_us=950000`"
	switch {
	case runtime == 0:
		return lacking(mend, "real-time threads get no time at all (sched_rt_runtime_us is 0)")
	case share < least:
		return doubtful(mend, "real-time threads get %.0f %% of the time only (sched_rt_runtime_us %d of %d)", 100*share, runtime, period)
	}
	return fine("real-time threads get %.0f %% of the time; the loop needs far less", 100*share)
}

// groupBudget is the real-time time of this process's control group, where the
// kernel has groups for it.
func (m machine) groupBudget() (p string, microseconds int64, ok bool) {
	text, _ := m.read("/proc/self/cgroup")
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 || !slices.Contains(strings.Split(fields[1], ","), "cpu") {
			continue
		}
		for _, mount := range []string{"cpu,cpuacct", "cpu"} {
			p = "/sys/fs/cgroup/" + mount + strings.TrimSuffix(fields[2], "/") + "/cpu.rt_runtime_us"
			if microseconds, ok = m.number(p); ok {
				return p, microseconds, true
			}
		}
	}
	return "", 0, false
}

// otherThreads looks for threads that may take the processor from the loop.
func (d *doctor) otherThreads() finding {
	priority := d.file.Loop.Priority
	if priority == 0 {
		return skipped("loop.fifo_priority is 0: every real-time thread goes first")
	}
	var above []string
	for _, p := range d.glob("/proc/[0-9]*/task/[0-9]*/stat") {
		text, ok := d.read(p)
		if !ok || strings.HasPrefix(p, fmt.Sprintf("/proc/%d/", d.pid)) {
			continue
		}
		if t, ok := parseThread(text); ok && t.precedes(priority) {
			above = append(above, t.String())
		}
	}
	if len(above) == 0 {
		return fine("no other thread goes before SCHED_FIFO %d", priority)
	}
	slices.Sort(above)
	count := float64(len(above))
	above = slices.Compact(above)
	const most = 5
	list := strings.Join(above[:min(most, len(above))], ", ")
	if len(above) > most {
		list += ", ..."
	}
	return doubtful("raise loop.fifo_priority (98 at most), lower theirs with `chrt`, or bind them to other processors with `taskset`",
		"before SCHED_FIFO %d go: %s", priority, list).with(map[string]float64{"threads": count})
}

// thread is what proc_pid_stat(5) says of a thread's scheduling.
type thread struct {
	name             string
	kernel           bool
	priority, policy int
}

// The policies of sched(7), and PF_KTHREAD of the kernel's linux/sched.h.
const (
	policyFIFO     = 1
	policyRR       = 2
	policyDeadline = 6
	kernelThread   = 0x00200000
)

// parseThread reads a stat line: the name in parentheses may hold anything.
func parseThread(text string) (t thread, ok bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return t, false
	}
	fields := strings.Fields(text[end+1:]) // from field 3 on
	const flags, priority, policy = 9 - 3, 40 - 3, 41 - 3
	if len(fields) <= policy {
		return t, false
	}
	bits, err1 := strconv.ParseUint(fields[flags], 10, 64)
	p, err2 := strconv.Atoi(fields[priority])
	kind, err3 := strconv.Atoi(fields[policy])
	if err1 != nil || err2 != nil || err3 != nil {
		return t, false
	}
	return thread{plaintext.Clean(text[open+1 : end]), bits&kernelThread != 0, p, kind}, true
}

// precedes reports whether the scheduler prefers t to SCHED_FIFO with a
// priority. The kernel's own stoppers and watchdog run for microseconds, and
// nobody can lower them.
func (t thread) precedes(priority int) bool {
	if t.kernel && (strings.HasPrefix(t.name, "migration/") || t.name == "watchdogd") {
		return false
	}
	switch t.policy {
	case policyDeadline:
		return true
	case policyFIFO, policyRR:
		return t.priority > priority
	}
	return false
}

func (t thread) String() string {
	switch t.policy {
	case policyDeadline:
		return t.name + " (deadline)"
	case policyRR:
		return fmt.Sprintf("%s (RR %d)", t.name, t.priority)
	}
	return fmt.Sprintf("%s (FIFO %d)", t.name, t.priority)
}
