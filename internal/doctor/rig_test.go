package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/rigtest"
	"optibfm/rewardsrc/evdev"
	"optibfm/rtloop"
)

// tree makes a file system of texts.
func tree(parts ...map[string]string) fstest.MapFS {
	files := fstest.MapFS{}
	for _, part := range parts {
		for p, text := range part {
			files[named(p)] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return files
}

// device adds a character device of a group, readable and writable for it.
func device(files fstest.MapFS, p string, gid uint32) {
	files[named(p)] = &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | 0o660, Sys: &syscall.Stat_t{Gid: gid}}
}

// jetson is a board that is set up well: processor 5 is isolated.
var jetson = map[string]string{
	"/proc/device-tree/model":                                            "NVIDIA Jetson Orin Nano Developer Kit\x00",
	"/proc/sys/kernel/osrelease":                                         "5.15.148-rt-tegra\n",
	"/proc/version":                                                      "Linux version 5.15.148-rt-tegra #1 SMP PREEMPT_RT Mon Jan 1 00:00:00 PST 2025",
	"/proc/cmdline":                                                      "isolcpus=5 nohz_full=5 console=ttyTCU0,115200",
	"/proc/meminfo":                                                      "MemTotal:        7802112 kB\nMemFree:  1000 kB\nMemAvailable:    5242880 kB\n",
	"/proc/sys/kernel/sched_rt_runtime_us":                               "950000\n",
	"/proc/sys/kernel/sched_rt_period_us":                                "1000000\n",
	"/proc/self/cgroup":                                                  "0::/system.slice/optibfm.service\n",
	"/proc/1/task/1/stat":                                                stat("systemd", 0x400100, 0, 0),
	"/proc/1/comm":                                                       "systemd\n",
	"/proc/17/task/17/stat":                                              stat("migration/0", 0x04208040, 99, 1),
	"/proc/88/task/88/stat":                                              stat("irq/43-i2c", 0x00208040, 50, 1),
	"/sys/kernel/realtime":                                               "1\n",
	"/sys/devices/system/cpu/isolated":                                   "5\n",
	"/sys/devices/system/cpu/nohz_full":                                  "5\n",
	"/sys/devices/system/cpu/online":                                     "0-5\n",
	"/sys/devices/system/cpu/present":                                    "0-5\n",
	"/sys/devices/system/cpu/cpu5/cpufreq/scaling_governor":              "performance\n",
	"/sys/devices/system/cpu/cpu5/cpuidle/state0/latency":                "1\n",
	"/sys/devices/system/cpu/cpu5/cpuidle/state0/name":                   "WFI\n",
	"/sys/devices/system/cpu/cpu5/cpuidle/state1/latency":                "5000\n",
	"/sys/devices/system/cpu/cpu5/cpuidle/state1/name":                   "c7\n",
	"/sys/devices/system/cpu/cpu5/cpuidle/state1/disable":                "1\n",
	"/sys/devices/system/clocksource/clocksource0/current_clocksource":   "arch_sys_counter\n",
	"/sys/devices/system/clocksource/clocksource0/available_clocksource": "arch_sys_counter\n",
	"/sys/class/thermal/thermal_zone0/type":                              "cpu-thermal\n",
	"/sys/class/thermal/thermal_zone0/temp":                              "51250\n",
	"/sys/class/thermal/thermal_zone0/trip_point_0_type":                 "passive\n",
	"/sys/class/thermal/thermal_zone0/trip_point_0_temp":                 "99000\n",
	"/sys/class/thermal/thermal_zone0/trip_point_1_type":                 "critical\n",
	"/sys/class/thermal/thermal_zone0/trip_point_1_temp":                 "104500\n",
	"/sys/class/thermal/cooling_device0/type":                            "pwm-fan\n",
	"/sys/class/thermal/cooling_device0/cur_state":                       "2\n",
	"/var/lib/nvpmodel/status":                                           "pmode:0000 fmode:quiet\n",
	"/etc/nvpmodel.conf":                                                 "# modes\n< POWER_MODEL ID=0 NAME=15W >\n< POWER_MODEL ID=1 NAME=7W >\n",
	"/etc/nv_tegra_release":                                              "# R36\n",
	"/etc/group":                                                         "root:x:0:\ntty:x:5:\ndialout:x:20:\ni2c:x:108:\ngpio:x:999:optibfm\n",
}

// badPC is a desktop computer that nobody has set up for robots.
var badPC = map[string]string{
	"/sys/class/dmi/id/product_name":                                     "HP ProDesk\n",
	"/proc/sys/kernel/osrelease":                                         "4.19.0-generic\n",
	"/proc/version":                                                      "Linux version 4.19.0-generic (gcc) #1 SMP Debian",
	"/proc/cmdline":                                                      "quiet splash console=ttyUSB0,115200",
	"/proc/meminfo":                                                      "MemTotal:  1048576 kB\nMemAvailable:  262144 kB\n",
	"/proc/sys/kernel/sched_rt_runtime_us":                               "0\n",
	"/proc/sys/kernel/sched_rt_period_us":                                "1000000\n",
	"/proc/self/cgroup":                                                  "4:cpu,cpuacct:/user.slice\n0::/\n",
	"/sys/fs/cgroup/cpu,cpuacct/user.slice/cpu.rt_runtime_us":            "0\n",
	"/proc/900/task/901/stat":                                            stat("jackd (rt)", 0x400040, 95, 1),
	"/proc/900/comm":                                                     "jackd\n",
	"/proc/901/comm":                                                     "ModemManager\n",
	"/sys/devices/system/cpu/online":                                     "0-3\n",
	"/sys/devices/system/cpu/present":                                    "0-7\n",
	"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":              "powersave\n",
	"/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":              "powersave\n",
	"/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor":              "performance\n",
	"/sys/devices/system/cpu/cpu0/cpuidle/state3/latency":                "12000\n",
	"/sys/devices/system/cpu/cpu0/cpuidle/state3/name":                   "C10\n",
	"/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count":  "17\n",
	"/sys/devices/system/clocksource/clocksource0/current_clocksource":   "hpet\n",
	"/sys/devices/system/clocksource/clocksource0/available_clocksource": "hpet acpi_pm\n",
	"/sys/class/thermal/thermal_zone0/type":                              "acpitz\n",
	"/sys/class/thermal/thermal_zone0/temp":                              "97000\n",
	"/sys/class/thermal/thermal_zone0/trip_point_0_type":                 "critical\n",
	"/sys/class/thermal/thermal_zone0/trip_point_0_temp":                 "100000\n",
	"/sys/class/thermal/thermal_zone1/temp":                              "-256000\n",
	"/sys/class/thermal/cooling_device0/type":                            "Processor\n",
	"/sys/class/thermal/cooling_device0/cur_state":                       "3\n",
	"/sys/class/tty/console/active":                                      "tty0 ttyUSB0\n",
	"/etc/group":                                                         "root:x:0:\ni2c:x:108:\n",
}

// stat is a line of /proc/PID/task/TID/stat.
func stat(name string, flags, priority, policy uint64) string {
	fields := strings.Fields(strings.Repeat("0 ", 50))
	number := func(n uint64) string { return string(appendUint(nil, n)) }
	fields[0], fields[9-3], fields[40-3], fields[41-3] = "S", number(flags), number(priority), number(policy)
	return "12 (" + name + ") " + strings.Join(fields, " ") + "\n"
}

func appendUint(b []byte, n uint64) []byte {
	if n >= 10 {
		b = appendUint(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// granted is an operating system that grants all.
var granted = obtained{heldKiB: 40 << 10, granted: rtloop.Granted{Grants: []rtloop.Grant{
	{Request: "lock_memory", Asked: "all memory locked", Granted: true}, {Request: "cpus", Asked: "[5]", Granted: true},
	{Request: "fifo_priority", Asked: "SCHED_FIFO 80", Granted: true}, {Request: "timer_slack_ns", Asked: "1", Granted: true},
}}}

// refusing is one that grants nothing.
var refusing = obtained{granted: rtloop.Granted{Grants: []rtloop.Grant{
	{Request: "lock_memory", Asked: "all memory locked", Got: "not locked", Why: "the limit of locked memory is 64 KiB", Fix: "set LimitMEMLOCK=infinity"},
	{Request: "cpus", Asked: "[5]", Got: "[0 1]", Why: "some are offline", Fix: "name processors that are online"},
	{Request: "fifo_priority", Asked: "SCHED_FIFO 80", Got: "SCHED_OTHER", Why: "no right to it", Fix: "set LimitRTPRIO=80"},
	{Request: "timer_slack_ns", Asked: "1", Got: "unchanged", Why: "prctl: not permitted", Fix: "look for a seccomp filter"},
}}}

var errNoDevice = errors.New("no such device")

// noInputs is a machine without input devices.
type noInputs struct{}

func (noInputs) List() ([]evdev.Info, error)          { return nil, nil }
func (noInputs) Open(evdev.Info) (evdev.Input, error) { return nil, errNoDevice }

// inputList is a machine with input devices that nobody opens.
type inputList struct {
	noInputs
	devices []evdev.Info
}

func (l inputList) List() ([]evdev.Info, error) { return l.devices, nil }

// fakeMachine is a machine with files and nothing else, whose user may do all.
func fakeMachine(files fs.FS) machine {
	return machine{
		files: files, pid: 4242, user: identity{Name: "optibfm", UID: 990, Groups: []string{"optibfm", "gpio"}},
		access: func(string) error { return nil },
		links:  func() ([]byte, error) { return nil, nil },
		wallClock: func() (unix.Timex, int, error) {
			return unix.Timex{Time: unix.Timeval{Sec: 1_800_000_000}, Maxerror: 1500}, 0, nil
		},
		clockLook: func() time.Duration { return 40 * time.Nanosecond },
		space:     func(string) (unix.Statfs_t, error) { return unix.Statfs_t{Bsize: 4096, Bavail: 10 << 20}, nil },
		line:      func(string, string) (lineState, error) { return lineState{}, errNoDevice },
		inputs:    noInputs{},
		hardware:  rigtest.NewRig().Hardware(),
		program:   func(context.Context, ...string) (string, error) { return "", errNoDevice },
	}
}

// examined is a doctor before a machine with a configuration, "" for none.
func examined(t *testing.T, m machine, config string, set ...string) *doctor {
	t.Helper()
	d, err := newDoctor(DoctorFlags{Config: config, Set: set}, m)
	if err != nil {
		t.Fatal(err)
	}
	if d.configErr != nil {
		t.Fatal(d.configErr)
	}
	return d
}

// changed is a tree with other texts in some files; "-" removes one.
func changed(base, change map[string]string) fstest.MapFS {
	files := maps.Clone(base)
	maps.Copy(files, change)
	maps.DeleteFunc(files, func(_, text string) bool { return text == "-" })
	return tree(files)
}

// verdict checks the status of a finding and words in it.
func verdict(t *testing.T, what string, f finding, status string, words ...string) {
	t.Helper()
	if f.Status != status {
		t.Errorf("%s: %s, want %s: %s", what, f.Status, status, f.Found)
	}
	for _, word := range words {
		if !strings.Contains(f.Found+" > "+f.Mend, word) {
			t.Errorf("%s: no %q in %q > %q", what, word, f.Found, f.Mend)
		}
	}
	if (f.Status == statusWarn || f.Status == statusFail) && f.Mend == "" {
		t.Errorf("%s: no mend: %s", what, f.Found)
	}
}
