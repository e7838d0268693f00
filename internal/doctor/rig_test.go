package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal/can"
	"optibfm/internal/fatal"
	"optibfm/internal/jitter"
	"optibfm/internal/registry"
	"optibfm/internal/rigtest"
	"optibfm/rewardsrc/evdev"
	"optibfm/rtloop"
)

// tree returns a file system of texts. A later map replaces files of an earlier one.
func tree(parts ...map[string]string) fstest.MapFS {
	files := fstest.MapFS{}
	for _, part := range parts {
		for p, text := range part {
			files[relative(p)] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return files
}

// addDevice adds a character device that a group may read and write.
func addDevice(files fstest.MapFS, p string, gid uint32) {
	mode := fs.ModeDevice | fs.ModeCharDevice | 0o660
	files[relative(p)] = &fstest.MapFile{Mode: mode, Sys: &syscall.Stat_t{Gid: gid}}
}

// Files that tests change.
const (
	clockSource = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
	governor5   = "/sys/devices/system/cpu/cpu5/cpufreq/scaling_governor"
	rtRuntime   = "/proc/sys/kernel/sched_rt_runtime_us"
)

// jetson is a computer that is set up well.
var jetson = map[string]string{
	"/proc/device-tree/model":             "NVIDIA Jetson Orin Nano Developer Kit\x00",
	"/proc/sys/kernel/osrelease":          "5.15.148-rt-tegra\n",
	"/proc/version":                       "Linux version 5.15.148-rt-tegra #1 SMP PREEMPT_RT",
	rtRuntime:                             "950000\n",
	"/proc/sys/kernel/sched_rt_period_us": "1000000\n",
	"/proc/1/comm":                        "systemd\n",
	"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
	governor5:   "performance\n",
	clockSource: "arch_sys_counter\n",
}

// desktop is a computer that is not set up for robots.
var desktop = map[string]string{
	"/sys/class/dmi/id/product_name":      "HP ProDesk\n",
	"/proc/sys/kernel/osrelease":          "4.19.0-generic\n",
	"/proc/version":                       "Linux version 4.19.0-generic (gcc) #1 SMP Debian",
	rtRuntime:                             "0\n",
	"/proc/sys/kernel/sched_rt_period_us": "1000000\n",
	"/proc/901/comm":                      "ModemManager\n",
	governor5:                             "powersave\n",
	clockSource:                           "hpet\n",
	"/sys/class/tty/console/active":       "tty0 ttyUSB0\n",
}

// board returns the files of a jetson with devices.
func board() fstest.MapFS {
	files := tree(jetson)
	addDevice(files, "/dev/i2c-1", 108)
	addDevice(files, "/dev/gpiochip0", 999)
	addDevice(files, "/dev/ttyUSB0", 20)
	return files
}

// denied returns an access function that refuses the named files.
func denied(names ...string) func(string) error {
	return func(p string) error {
		if slices.Contains(names, p) {
			return unix.EACCES
		}
		return nil
	}
}

// grants is an operating system that grants every request, or none.
func grants(granted bool) func(rtloop.Config) (rtloop.Granted, error) {
	return func(rtloop.Config) (rtloop.Granted, error) {
		var g rtloop.Granted
		for _, request := range []string{"lock_memory", "cpus", "fifo_priority", "timer_slack_ns"} {
			one := rtloop.Grant{Request: request, Asked: "80", Got: "80", Granted: granted}
			if !granted {
				one.Got, one.Why, one.Fix = "0", "no permission", "set LimitRTPRIO=80"
			}
			g.Grants = append(g.Grants, one)
		}
		return g, nil
	}
}

// lateness returns a measurement.
func lateness(p99, most time.Duration) jitter.Result {
	var r jitter.Result
	r.Loop.Lateness = rtloop.Distribution{Count: 1000, P50: p99 / 2, P99: p99, Max: most}
	return r
}

var errNoDevice = errors.New("no such device")

// inputs is a list of input devices that cannot be opened.
type inputs []evdev.Info

func (l inputs) List() ([]evdev.Info, error)        { return l, nil }
func (inputs) Open(evdev.Info) (evdev.Input, error) { return nil, errNoDevice }

// fakeMachine returns a machine that has files and no devices, and grants every request.
func fakeMachine(files fs.FS) machine {
	return machine{
		files: files, user: identity{Name: "optibfm", UID: 990, Groups: []string{"optibfm", "gpio"}},
		access: denied(), prepare: grants(true),
		group: func(id int) string { return map[int]string{0: "root", 20: "dialout", 108: "i2c", 999: "gpio"}[id] },
		measure: func(context.Context, jitter.Options) (jitter.Result, error) {
			return lateness(31*time.Microsecond, 88*time.Microsecond), nil
		},
		wallClock: func() (unix.Timex, int, error) {
			return unix.Timex{Time: unix.Timeval{Sec: 1_800_000_000}, Maxerror: 1500}, 0, nil
		},
		space:  func(string) (unix.Statfs_t, error) { return unix.Statfs_t{Bsize: 4096, Bavail: 10 << 20}, nil },
		link:   func(string) (can.Link, error) { return can.Link{}, fmt.Errorf("can: %w", can.ErrNoInterface) },
		line:   func(string, string) (lineState, error) { return lineState{}, errNoDevice },
		inputs: inputs(nil),
		buses: func(path string) (registry.I2C, error) {
			return rigtest.NewRig().Hardware().OpenI2C(path, 10*time.Millisecond)
		},
		program: func(context.Context, ...string) (string, error) { return "", errNoDevice },
	}
}

// doctorFor returns a doctor for a machine and a configuration; "": none.
func doctorFor(t *testing.T, m machine, config string, set ...string) *doctor {
	t.Helper()
	d, err := newDoctor(Options{Config: config, Set: set, Seconds: 1}, m)
	if err == nil {
		err = d.configErr
	}
	fatal.If(t, err)
	return d
}

// expect checks the status of a finding, and words in its text and fix.
func expect(t *testing.T, name string, f finding, status string, words ...string) {
	t.Helper()
	if f.Status != status {
		t.Errorf("%s: %s, want %s: %s", name, f.Status, status, f.Found)
	}
	for _, word := range words {
		if !strings.Contains(f.Found+" > "+f.Fix, word) {
			t.Errorf("%s: no %q in %q > %q", name, word, f.Found, f.Fix)
		}
	}
	if (f.Status == statusWarn || f.Status == statusFail) && f.Fix == "" {
		t.Errorf("%s: no fix: %s", name, f.Found)
	}
}
