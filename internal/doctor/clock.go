package doctor

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/plaintext"
	"optibfm/rtloop"
)

func (d *doctor) clockChecks() []check {
	return []check{single("clock.source", d.clockSource), single("clock.wall", d.synchronised)}
}

// quickClocks are the sources that a program reads without a system call. The
// others cost a microsecond and more a look, and some of them lose time.
var quickClocks = []string{"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "riscv_clocksource"}

func (d *doctor) clockSource() finding {
	const folder, slow = "/sys/devices/system/clocksource/clocksource0/", time.Microsecond
	name, ok := d.read(folder + "current_clocksource")
	if !ok {
		return skipped("the kernel does not name its clock source")
	}
	look := d.clockLook()
	values := map[string]float64{"read_ns": float64(look)}
	if !slices.Contains(quickClocks, name) {
		others, _ := d.read(folder + "available_clocksource")
		return doubtful("see `dmesg` for why the processor's own counter is not trusted (tsc, arch_sys_counter)",
			"%s, of %s: slow to read, or coarse", plaintext.Clean(name), plaintext.Clean(others)).with(values)
	}
	if look > slow {
		return doubtful("look for a virtual machine or a tracer that catches clock reads", "%s, but a look at it takes %v", name, look).with(values)
	}
	return fine("%s", name).with(values)
}

// lookAtClock is how long a look at CLOCK_MONOTONIC takes: the best of several
// rows of looks, so that being interrupted does not count.
func lookAtClock() time.Duration {
	const rows, looks = 20, 100
	best := time.Hour
	for range rows {
		start := rtloop.Now()
		for range looks {
			rtloop.Now()
		}
		best = min(best, time.Duration(rtloop.Now()-start)/looks)
	}
	return best
}

// synchronised looks at the wall clock, which only the log needs. The loop runs
// on CLOCK_MONOTONIC and does not care.
func (d *doctor) synchronised() finding {
	const mend = "set up chrony or systemd-timesyncd (`timedatectl`)"
	t, state, err := d.wallClock()
	switch {
	case err != nil:
		return skipped("adjtimex: %v", err)
	case t.Time.Sec < 1735689600: // 2025-01-01: a computer without a clock of its own
		return doubtful(mend, "it says %s: log names and times will be wrong", time.Unix(t.Time.Unix()).UTC().Format(time.DateOnly))
	case state == unix.TIME_ERROR, t.Status&unix.STA_UNSYNC != 0:
		return doubtful(mend, "not synchronised: times of logs may be wrong; the loop has its own clock")
	}
	return fine("synchronised, to %s", shortTime(time.Duration(t.Maxerror)*time.Microsecond))
}
