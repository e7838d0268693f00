package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"optibfm/internal/jitter"
	"optibfm/internal/plaintext"
	"optibfm/rtloop"
)

// checkPosture reports each privilege that the loop requests. A run under posture strict does not
// start without all of them.
func (d *doctor) checkPosture(context.Context) (found []finding) {
	granted, err := d.prepare(d.file.Loop)
	if err != nil {
		return []finding{fail("correct the section loop of the configuration", "%v", err)}
	}
	for _, g := range granted.Grants {
		f := pass("granted (%s)", g.Asked)
		if !g.Granted {
			f = warnStrict(g.Fix, "not granted: %s (requested: %s, present: %s)", g.Why, g.Asked, g.Got)
		}
		found = append(found, f.about("loop."+g.Request))
	}
	if len(found) == 0 {
		return []finding{skip("the section loop requests no privileges")}
	}
	return found
}

// checkKernel reports the kernel settings that add latency: preemption, the processor time of
// real-time threads, and the frequency governor.
func (d *doctor) checkKernel(context.Context) []finding {
	return []finding{
		d.checkPreemption().about("preemption"), d.checkThrottling().about("sched_rt_runtime_us"),
		d.checkGovernor().about("governor"),
	}
}

// checkPreemption requires PREEMPT_RT for short periods.
func (d *doctor) checkPreemption() finding {
	const needsRT = 2.0 // ms
	period := d.file.Loop.PeriodMS
	switch {
	case rtloop.RealTimeKernel(d.files):
		return pass("PREEMPT_RT")
	case period < needsRT:
		return warnStrict("boot a PREEMPT_RT kernel (Debian: linux-image-rt; Jetson: the rt-kernel packages), "+
			"or raise loop.period_ms", "no PREEMPT_RT, for a period of %v ms", period)
	}
	return pass("no PREEMPT_RT; rt.latency shows whether it is needed")
}

// checkThrottling reads the processor time of real-time threads, sched(7).
func (d *doctor) checkThrottling() finding {
	const least = 50 // percent
	runtime, ok := d.number("/proc/sys/kernel/sched_rt_runtime_us")
	period, _ := d.number("/proc/sys/kernel/sched_rt_period_us")
	if !ok {
		return skip("not readable")
	}
	if runtime < 0 {
		return pass("no limit")
	}
	share := 100 * runtime / max(period, 1)
	text := fmt.Sprintf("real-time threads get %d %% of the time", share)
	const fix = "`sudo sysctl kernel.sched_rt_runtime_us=950000`"
	switch {
	case share == 0:
		return warnStrict(fix, "%s", text)
	case share < least:
		return warn(fix, "%s", text)
	}
	return pass("%s", text)
}

// checkGovernor reads the frequency governors of the loop's processors, or of all.
func (d *doctor) checkGovernor() finding {
	paths := d.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	if len(d.file.Loop.CPUs) > 0 {
		paths = nil
		for _, cpu := range d.file.Loop.CPUs {
			paths = append(paths, fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu))
		}
	}
	governors := map[string]bool{}
	for _, p := range paths {
		if name, ok := d.read(p); ok {
			governors[plaintext.Clean(name)] = true
		}
	}
	text := strings.Join(slices.Sorted(maps.Keys(governors)), ", ")
	switch {
	case len(governors) == 0:
		return pass("none")
	case len(governors) > 1 || !governors["performance"]:
		return warn("`sudo cpupower frequency-set -g performance` (Jetson: `sudo jetson_clocks`), at every boot",
			"%s", text)
	}
	return pass("%s", text)
}

// latencyCheck measures the lateness of the loop's wake-ups.
func (d *doctor) latencyCheck() check {
	const margin = 15 * time.Second
	limit := time.Duration(d.seconds*float64(time.Second)) + margin
	c := bounded("rt.latency", limit, func(ctx context.Context) finding {
		if d.seconds == 0 {
			return skip("--seconds is 0")
		}
		r, err := d.measure(ctx, latencyOptions(d.file.Loop, d.seconds))
		if err != nil {
			return fail("see `optibfm jitter`", "%v", err)
		}
		return gradeLatency(r, d.file.Loop.Period())
	})
	if d.seconds > 0 {
		c.announce = fmt.Sprintf("measuring latency for %.0f s ...", d.seconds)
	}
	return c
}

// latencyOptions requests the loop's posture. It shortens long periods, so that the sample is large
// enough for a 99th percentile.
func latencyOptions(loop rtloop.Config, seconds float64) jitter.Options {
	const longest = 10 // ms
	return jitter.Options{
		PeriodMS: min(loop.PeriodMS, longest), Seconds: seconds, Slice: min(seconds, 1),
		Priority: loop.Priority, CPUs: loop.CPUs,
	}
}

// gradeLatency compares lateness with the period of the loop.
func gradeLatency(r jitter.Result, period time.Duration) finding {
	l := r.Loop.Lateness
	text := fmt.Sprintf("%d wake-ups: p50 %s, p99 %s, max %s late; period %s",
		l.Count, short(l.P50), short(l.P99), short(l.Max), short(period))
	values := map[string]float64{
		"wakeups": float64(l.Count),
		"p50_us":  us(l.P50), "p99_us": us(l.P99), "p99_9_us": us(l.P999), "max_us": us(l.Max),
	}
	fix := "use a PREEMPT_RT kernel, the performance governor, an isolated processor (loop.cpus) and less load; " +
		"compare with `optibfm jitter`"
	var f finding
	switch {
	case l.Count == 0:
		f = fail(fix, "no wake-ups")
	case l.Max >= period:
		f = warnStrict(fix, "%s: the loop would miss ticks", text)
	case l.P99 > period/10:
		f = warnStrict(fix, "%s: p99 is above a tenth of the period", text)
	case l.Max > period/4:
		f = warn(fix, "%s: the maximum is above a quarter of the period", text)
	default:
		f = pass("%s", text)
	}
	return f.with(values)
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// short formats a duration below a second with two or three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", ms(d))
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", ms(d))
	}
	return fmt.Sprintf("%.0f µs", us(d))
}
