package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"optibfm/internal/jitter"
	"optibfm/rtloop"
)

// wakeUps measures how late the loop wakes, in turns with cyclictest.
func (d *doctor) wakeUps() check {
	const margin = 15 * time.Second
	return check{
		id: "rt.latency", limit: time.Duration(2*d.seconds*float64(time.Second)) + margin,
		run: func(ctx context.Context) []finding {
			if d.seconds == 0 {
				return []finding{skipped("--seconds is 0")}
			}
			o := wakeUpOptions(d.file.Loop, d.seconds)
			r, err := d.measure(ctx, o)
			if err != nil { // of cyclictest, which needs the rights that the loop does without
				o.Alone = true
				if r, err = d.measure(ctx, o); err != nil {
					return []finding{broken("see `optibfm jitter`", "%v", err)}
				}
				r.Note = "cyclictest may not run"
			}
			return []finding{judgeWakeUps(r, d.file.Loop.Period())}
		},
	}
}

// wakeUpOptions asks for the loop's own posture. Long periods are shortened, for
// a sample large enough to have a 99th percentile.
func wakeUpOptions(loop rtloop.Config, seconds float64) jitter.Options {
	const longest = 10 // ms
	return jitter.Options{
		PeriodMS: min(loop.PeriodMS, longest), Seconds: seconds, Slice: min(seconds, 1),
		Fifo: loop.Priority, Cpus: loop.CPUs,
	}
}

// judgeWakeUps compares lateness with the period of the loop. A machine whose
// cyclictest is as late is slow itself; otherwise it is the program's company.
func judgeWakeUps(r jitter.Result, period time.Duration) finding {
	l := r.Loop.Lateness
	found := fmt.Sprintf("%d wake-ups: p50 %s, p99 %s, max %s late, of %s", l.Count, shortTime(l.P50), shortTime(l.P99), shortTime(l.Max), shortTime(period))
	values := map[string]float64{"wakeups": float64(l.Count), "p50_us": us(l.P50), "p99_us": us(l.P99), "p99_9_us": us(l.P999), "max_us": us(l.Max)}
	mend := "`optibfm jitter --hog 4` tells more; begin with the warnings of this list, and load less beside it"
	switch c := r.Cyclictest; {
	case c != nil && c.Cycles > 0:
		found += fmt.Sprintf("; cyclictest: %s, %s, %s", shortTime(c.P50), shortTime(c.P99), shortTime(c.Max))
		values["cyclictest_p50_us"], values["cyclictest_p99_us"], values["cyclictest_max_us"] = us(c.P50), us(c.P99), us(c.Max)
		if c.P99 < l.P99/4 {
			mend = "cyclictest is much better: see that nothing limits this process (`LimitRTPRIO`, CPUQuota=, cpuset)"
		}
	case r.Note != "":
		short, _, _ := strings.Cut(r.Note, " (")
		found += "; " + short
	}
	var f finding
	switch {
	case l.Count == 0:
		f = broken(mend, "the loop never woke")
	case l.Max >= period:
		f = lacking(mend, "%s: ticks would be missed", found)
	case l.P99 > period/10:
		f = lacking(mend, "%s: p99 is more than a tenth of the period", found)
	case l.Max > period/4:
		f = doubtful(mend, "%s: the worst is more than a quarter of the period", found)
	default:
		f = fine("%s", found)
	}
	return f.with(values)
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// shortTime writes a short time with the unit that suits it.
func shortTime(d time.Duration) string {
	if d >= 10*time.Millisecond {
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	if d >= time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.0f µs", us(d))
}
