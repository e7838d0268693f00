package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"optibfm/internal/plaintext"
)

func (d *doctor) processorChecks() []check {
	return []check{
		single("cpu.governor", d.governor),
		single("cpu.idle", d.idleStates),
		single("cpu.temperature", d.temperature),
		single("cpu.throttled", d.throttled),
		single("cpu.power_mode", d.powerMode),
	}
}

// loopCPUs are the processors that matter to the loop: loop.cpus, or all.
func (d *doctor) loopCPUs() []int {
	if len(d.file.Loop.CPUs) > 0 {
		return d.file.Loop.CPUs
	}
	online, _ := d.cpuList("/sys/devices/system/cpu/online")
	return online
}

func (d *doctor) governor() finding {
	by := map[string][]int{}
	for _, cpu := range d.loopCPUs() {
		if name, ok := d.read(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu)); ok {
			by[name] = append(by[name], cpu)
		}
	}
	if len(by) == 0 {
		return fine("the kernel does not change the frequency")
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s on %s", name, showCPUs(by[name])))
	}
	found := strings.Join(parts, ", ")
	if len(by) == 1 && by["performance"] != nil {
		return fine("%s", found)
	}
	mend := "`sudo cpupower frequency-set -g performance`, at every boot"
	if d.isJetson() {
		mend = "`sudo jetson_clocks`, at every boot"
	}
	return doubtful(mend, "%s: a tick after a pause runs at a low frequency", found)
}

func (m machine) isJetson() bool {
	_, release := m.read("/etc/nv_tegra_release")
	return release || strings.Contains(m.Title(), "Jetson")
}

// idleStates finds the longest way out of sleep that the kernel may choose:
// Documentation/admin-guide/pm/cpuidle.rst.
func (d *doctor) idleStates() finding {
	const share = 20 // of the period
	worst, name, states := int64(-1), "", 0
	for _, cpu := range d.loopCPUs() {
		for _, state := range d.glob(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cpuidle/state*", cpu)) {
			states++
			latency, ok := d.number(state + "/latency")
			if off, _ := d.number(state + "/disable"); !ok || off != 0 || latency <= worst {
				continue
			}
			worst = latency
			name, _ = d.read(state + "/name")
		}
	}
	if states == 0 || worst < 0 {
		return fine("the kernel puts no processor to deep sleep")
	}
	exit := time.Duration(worst) * time.Microsecond
	found := fmt.Sprintf("the deepest sleep, %s, takes %s to leave", plaintext.Clean(name), shortTime(exit))
	if exit > d.file.Loop.Period()/share {
		return doubtful("forbid deep sleep for the loop's processors: `cpupower idle-set -D 100`, at every boot", "%s: long for a period of %s", found, shortTime(d.file.Loop.Period()))
	}
	return fine("%s", found)
}

// temperature compares every thermal zone with its own trip points:
// Documentation/driver-api/thermal/sysfs-api.rst. Zones of parts that are
// switched off refuse to be read.
func (d *doctor) temperature() finding {
	const near = 5.0 // °C
	hottest, zone, left := 0.0, "", math.Inf(1)
	critical := false
	for _, dir := range d.glob("/sys/class/thermal/thermal_zone*") {
		milli, ok := d.number(dir + "/temp")
		celsius := float64(milli) / 1000
		if !ok || celsius < -50 || celsius > 200 {
			continue
		}
		slow, stop := d.trips(dir)
		critical = critical || celsius >= stop-near
		if margin := slow - celsius; margin < left {
			kind, _ := d.read(dir + "/type")
			left, hottest, zone = margin, celsius, cmp.Or(kind, path.Base(dir))
		}
	}
	if zone == "" {
		return skipped("the kernel shows no thermal zone")
	}
	found := fmt.Sprintf("nearest to its limit: %s, %.0f °C of %.0f", plaintext.Clean(zone), hottest, hottest+left)
	values := map[string]float64{"celsius": hottest, "margin_celsius": left}
	const mend = "cool it: fan, heat sink, free air; or choose a smaller power mode"
	switch {
	case critical:
		return broken(mend, "%s; a zone is about to switch the computer off", found).with(values)
	case left < near:
		return doubtful(mend, "%s: it is about to be slowed down", found).with(values)
	}
	return fine("%s", found).with(values)
}

// trips are the temperatures at which a zone slows the computer and switches it
// off.
func (m machine) trips(zone string) (slow, stop float64) {
	const usual = 85 // °C, where a zone has no trip points
	slow, stop = math.Inf(1), math.Inf(1)
	for _, p := range m.glob(zone + "/trip_point_*_type") {
		kind, _ := m.read(p)
		milli, ok := m.number(strings.TrimSuffix(p, "_type") + "_temp")
		celsius := float64(milli) / 1000
		if !ok || celsius <= 0 {
			continue
		}
		switch kind {
		case "passive", "hot":
			slow = min(slow, celsius)
		case "critical":
			stop = min(stop, celsius)
		}
	}
	if slow = min(slow, stop); math.IsInf(slow, 1) {
		slow = usual
	}
	return slow, stop
}

// throttled looks for traces of slowing down: now (cooling devices), and since
// the boot (x86 counters, the Raspberry Pi's firmware).
func (d *doctor) throttled() finding {
	const mend = "cool it, and see that the supply is strong enough"
	var now, before []string
	for _, dir := range d.glob("/sys/class/thermal/cooling_device*") {
		kind, _ := d.read(dir + "/type")
		state, _ := d.number(dir + "/cur_state")
		if state > 0 && slowsDown(kind) {
			now = append(now, plaintext.Clean(kind))
		}
	}
	events := int64(0)
	for _, p := range d.glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count") {
		n, _ := d.number(p)
		events += n
	}
	if events > 0 {
		before = append(before, fmt.Sprintf("%d times by heat", events))
	}
	text, firmware := d.read("/sys/devices/platform/soc/soc:firmware/get_throttled")
	if bits, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32); firmware && err == nil {
		// vcgencmd get_throttled: the low half is now, the high half since boot.
		if bits&0xF != 0 {
			now = append(now, "the Raspberry Pi's firmware")
		}
		if bits>>16&0xF != 0 {
			before = append(before, "by the Raspberry Pi's firmware (heat or under-voltage)")
		}
	}
	switch {
	case len(now) > 0:
		return lacking(mend, "slowed down now by %s", strings.Join(slices.Compact(now), ", "))
	case len(before) > 0:
		return doubtful(mend, "slowed down since the boot: %s", strings.Join(before, ", "))
	}
	return fine("not slowed down")
}

// slowsDown tells cooling devices that slow the computer from fans.
func slowsDown(kind string) bool {
	kind = strings.ToLower(kind)
	return strings.Contains(kind, "cpu") || strings.Contains(kind, "processor") || strings.Contains(kind, "powerclamp") || strings.Contains(kind, "gpu")
}

// powerMode tells which processors are there; on a Jetson also nvpmodel's mode.
func (d *doctor) powerMode() finding {
	online, _ := d.cpuList("/sys/devices/system/cpu/online")
	present, ok := d.cpuList("/sys/devices/system/cpu/present")
	if !ok {
		return skipped("the kernel does not list processors")
	}
	found := fmt.Sprintf("%d of %d processors on", len(online), len(present))
	if mode := d.jetsonMode(); mode != "" {
		found += ", nvpmodel " + mode
	}
	for _, cpu := range d.file.Loop.CPUs {
		if !slices.Contains(online, cpu) {
			return lacking("choose another loop.cpus, or a power mode with this processor", "%s; processor %d of loop.cpus is off", found, cpu)
		}
	}
	if len(online) < len(present) && d.isJetson() {
		return doubtful("`sudo nvpmodel -m 0` for all of them, if supply and cooling allow it", "%s", found)
	}
	return fine("%s", found)
}

// jetsonMode is the number and name of the power mode, where it can be read.
func (m machine) jetsonMode() string {
	status, ok := m.read("/var/lib/nvpmodel/status")
	_, rest, found := strings.Cut(status, "pmode:")
	if !ok || !found {
		return ""
	}
	number, _, _ := strings.Cut(rest, " ")
	id, err := strconv.Atoi(number)
	if err != nil {
		return ""
	}
	table, _ := m.read("/etc/nvpmodel.conf")
	for line := range strings.Lines(table) {
		_, after, ok := strings.Cut(line, fmt.Sprintf("POWER_MODEL ID=%d NAME=", id))
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(after, ">")
		return fmt.Sprintf("%d (%s)", id, plaintext.Clean(strings.TrimSpace(name)))
	}
	return strconv.Itoa(id)
}
