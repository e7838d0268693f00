package doctor

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/plaintext"
)

// fastSources are the clock sources that a program reads without a system call. Reading another one
// takes a microsecond or more.
var fastSources = []string{
	"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "riscv_clocksource",
}

func (d *doctor) checkClockSource() finding {
	name, ok := d.read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	switch {
	case !ok:
		return skip("the kernel does not report its clock source")
	case !slices.Contains(fastSources, name):
		return warn("see `dmesg` for why the kernel rejected the processor's counter (tsc, arch_sys_counter)",
			"%s: slow to read", plaintext.Clean(name))
	}
	return pass("%s", name)
}

// checkWallClock checks the clock that dates logs. The loop uses CLOCK_MONOTONIC.
func (d *doctor) checkWallClock() finding {
	const fix = "set up chrony or systemd-timesyncd (`timedatectl`)"
	oldest := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).Unix() // a computer without a battery starts earlier
	t, state, err := d.wallClock()
	switch {
	case err != nil:
		return skip("adjtimex: %v", err)
	case t.Time.Sec < oldest:
		return warn(fix, "the date is %s: logs get wrong names and times",
			time.Unix(t.Time.Unix()).UTC().Format(time.DateOnly))
	case state == unix.TIME_ERROR, t.Status&unix.STA_UNSYNC != 0:
		return warn(fix, "not synchronised: times in logs may be wrong; the loop is not affected")
	}
	return pass("synchronised within %s", short(time.Duration(t.Maxerror)*time.Microsecond))
}
