package rtloop

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const maxCPUs = 1024 // of unix.CPUSet

// Grant is one request to the operating system and its result.
type Grant struct {
	Request string `json:"request"`       // the configuration key, such as "fifo_priority"
	Asked   string `json:"asked"`         // the requested value
	Got     string `json:"got"`           // the current value
	Granted bool   `json:"granted"`       // whether Got is as good as Asked
	Why     string `json:"why,omitempty"` // cause of the refusal
	Fix     string `json:"fix,omitempty"`
}

// Granted is the real-time posture of a loop: one Grant for every request of its
// Config.
type Granted struct {
	Posture string  `json:"posture"`
	Grants  []Grant `json:"grants"`
}

// Missing returns the refused requests.
func (g Granted) Missing() []Grant {
	var missing []Grant
	for _, grant := range g.Grants {
		if !grant.Granted {
			missing = append(missing, grant)
		}
	}
	return missing
}

// String returns one line for each request.
func (g Granted) String() string {
	var b strings.Builder
	for i, grant := range g.Grants {
		if i > 0 {
			b.WriteByte('\n')
		}
		if grant.Granted {
			fmt.Fprintf(&b, "%s: %s: granted", grant.Request, grant.Asked)
			continue
		}
		fmt.Fprintf(&b, "%s: %s: not granted (%s; it is %s): %s",
			grant.Request, grant.Asked, grant.Why, grant.Got, grant.Fix)
	}
	return b.String()
}

// lockMemory locks all pages of the process in memory. Without an unlimited limit or
// CAP_IPC_LOCK it does not try: reaching the limit later crashes the Go runtime.
func (l *Loop) lockMemory() []Grant {
	if !l.cfg.LockMemory {
		return nil
	}
	g := Grant{
		Request: "lock_memory", Asked: "all memory locked", Got: "not locked",
		Fix: "run as root, set LimitMEMLOCK=infinity in the systemd unit, run `ulimit -l unlimited`, or grant CAP_IPC_LOCK",
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		g.Why = err.Error()
		return []Grant{g}
	}
	if limit.Cur != unix.RLIM_INFINITY && !hasCapability(unix.CAP_IPC_LOCK) {
		g.Why = fmt.Sprintf("the limit of locked memory is %d KiB", limit.Cur>>10)
		return []Grant{g}
	}
	if err := unix.Mlockall(lockFlags); err != nil {
		g.Why = "mlockall: " + err.Error()
		g.Fix = "free memory, raise the memory limit of the control group (memory.max), or check the seccomp filter"
		return []Grant{g}
	}
	l.restore = append(l.restore, func() { _ = unix.Munlockall() })
	g.Got, g.Granted, g.Fix = g.Asked, true, ""
	return []Grant{g}
}

// askThread requests the privileges of the calling thread.
func askThread(cfg Config) []Grant {
	var grants []Grant
	if len(cfg.CPUs) > 0 {
		grants = append(grants, askCPUs(cfg.CPUs))
	}
	if cfg.Priority > 0 {
		grants = append(grants, askPriority(cfg.Priority))
	}
	if cfg.TimerSlackNS > 0 {
		grants = append(grants, askTimerSlack(cfg.TimerSlackNS))
	}
	return grants
}

func askPriority(priority int) Grant {
	g := Grant{Request: "fifo_priority", Asked: fmt.Sprintf("SCHED_FIFO %d", priority)}
	err := setFIFO(priority)
	if err == nil {
		g.Got, g.Granted = g.Asked, true
		return g
	}
	g.Got, g.Why = "SCHED_OTHER", "sched_setattr: "+err.Error()
	g.Fix = "check the seccomp filter and the real-time budget of the control group"
	if errors.Is(err, unix.EPERM) {
		g.Why = "no permission" + priorityLimit()
		g.Fix = fmt.Sprintf("run as root, set LimitRTPRIO=%[1]d in the systemd unit, "+
			"add `@realtime - rtprio %[1]d` to /etc/security/limits.conf, or grant CAP_SYS_NICE", priority)
		if why, fix := groupBudget(os.DirFS("/"), mayHave(priority)); why != "" {
			g.Why, g.Fix = why, fix
		}
	}
	return g
}

// mayHave reports whether only the control group or a filter can refuse a priority.
func mayHave(priority int) bool {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_RTPRIO, &limit)
	return hasCapability(unix.CAP_SYS_NICE) || err == nil && limit.Cur >= uint64(priority)
}

// groupBudget returns whether the control group of this process refuses real-time priorities, as
// kernels with CONFIG_RT_GROUP_SCHED do for groups without a budget
// (Documentation/scheduler/sched-rt-group.rst), and the fix; "" if it does not. Version 1 of
// cgroups has a file with the budget. Version 2 has none: permitted reports that only the
// group or a seccomp filter can refuse. files is the root folder.
func groupBudget(files fs.FS, permitted bool) (why, fix string) {
	groups, _ := fs.ReadFile(files, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		controllers, group := fields[1], fields[2]
		if slices.Contains(strings.Split(controllers, ","), "cpu") {
			permitted = false // version 1 has the processors
			for _, mount := range []string{controllers, "cpu"} {
				file := path.Join("sys/fs/cgroup", mount, group, "cpu.rt_runtime_us")
				if budget, err := fs.ReadFile(files, file); err == nil && string(bytes.TrimSpace(budget)) == "0" {
					return fmt.Sprintf("the control group %s has no real-time budget: /%s is 0", group, file),
						fmt.Sprintf("`echo 950000 | sudo tee /%s`, after the same file of its parents", file)
				}
			}
		}
		if controllers == "" && group != "/" && permitted {
			return fmt.Sprintf("the control group %s (CONFIG_RT_GROUP_SCHED) or a seccomp filter refuses it", group),
				fmt.Sprintf("boot with rt_group_sched=0 (Linux 6.15), or before the start move the shell to the root "+
					"group: `echo $$ | sudo tee /sys/fs/cgroup/cgroup.procs` (now in /sys/fs/cgroup%s/cgroup.procs)", group)
		}
	}
	return "", ""
}

func priorityLimit() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_RTPRIO, &limit); err != nil {
		return ""
	}
	return fmt.Sprintf(", `ulimit -r` is %d", limit.Cur)
}

// setFIFO gives the calling thread a SCHED_FIFO priority that its children do
// not inherit.
func setFIFO(priority int) error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{
		Policy:   unix.SCHED_FIFO,
		Flags:    unix.SCHED_FLAG_RESET_ON_FORK,
		Priority: uint32(priority),
	}, 0)
}

func askCPUs(cpus []int) Grant {
	g := Grant{
		Request: "cpus", Asked: fmt.Sprint(cpus),
		Fix: "name processors that are online and in the process's control group (see `taskset -p`)",
	}
	var want, got unix.CPUSet
	for _, cpu := range cpus {
		want.Set(cpu)
	}
	err := unix.SchedSetaffinity(0, &want)
	if e := unix.SchedGetaffinity(0, &got); e != nil {
		g.Why, g.Got = e.Error(), "unknown"
		return g
	}
	g.Got = fmt.Sprint(listCPUs(&got))
	switch {
	case err != nil:
		g.Why = "sched_setaffinity: " + err.Error()
	case got != want:
		g.Why = "some are offline or not allowed"
	default:
		g.Granted, g.Fix = true, ""
	}
	return g
}

func listCPUs(set *unix.CPUSet) []int {
	var cpus []int
	for cpu := range maxCPUs {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

func askTimerSlack(ns int64) Grant {
	g := Grant{Request: "timer_slack_ns", Asked: fmt.Sprint(ns)}
	err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(ns), 0, 0, 0)
	got, e := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0) // 0 for SCHED_FIFO, from Linux 6.1 on
	g.Got, g.Granted = fmt.Sprint(got), int64(got) <= ns
	if err = errors.Join(err, e); err != nil {
		g.Got, g.Granted, g.Why = "unchanged", false, "prctl: "+err.Error()
	}
	if !g.Granted {
		g.Why, g.Fix = cmp.Or(g.Why, "the kernel keeps its value"), "check the seccomp filter"
	}
	return g
}

// RealTimeKernel reports whether the kernel is preemptible everywhere (PREEMPT_RT). files is the
// root folder.
func RealTimeKernel(files fs.FS) bool {
	version, _ := fs.ReadFile(files, "proc/version")
	if bytes.Contains(version, []byte("PREEMPT_RT")) {
		return true
	}
	flag, _ := fs.ReadFile(files, "sys/kernel/realtime") // of kernels with the RT patches
	return string(bytes.TrimSpace(flag)) == "1"
}

func hasCapability(capability uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}
