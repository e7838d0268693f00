package rtloop

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Distribution summarises durations. The error of a percentile is at most 0.1 % or
// 64 ns, whichever is larger.
type Distribution struct {
	Count int64         `json:"count"`
	Mean  time.Duration `json:"mean_ns"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p99_9_ns"`
	Max   time.Duration `json:"max_ns"`

	histogram histogram
}

// Report is the result of a run.
type Report struct {
	Period  time.Duration `json:"period_ns"`
	Ticks   uint64        `json:"ticks"`   // periods run
	Skipped uint64        `json:"skipped"` // periods skipped
	// Periods is the number of periods that began, from the first deadline and
	// the last reading of the clock alone.
	Periods uint64 `json:"periods"`
	// Lateness is the time from a deadline to the wake-up, including wake-ups so
	// late that the tick was skipped.
	Lateness Distribution `json:"lateness"`
	// Duration is the time from the wake-up to the end of the body.
	Duration Distribution `json:"duration"`
	GCCycles uint64       `json:"gc_cycles"` // garbage collections during the run
	Demoted  uint64       `json:"demoted"`   // see Live.Demoted
	Granted  Granted      `json:"granted"`
	// NotifyError is the first error of the Notifier; it does not end a run.
	NotifyError error `json:"-"`
}

// Identity reports whether Ticks + Skipped = Periods.
func (r Report) Identity() bool { return r.Ticks+r.Skipped == r.Periods }

// Add adds the ticks of another run with the same period.
func (r *Report) Add(other Report) {
	r.Ticks += other.Ticks
	r.Skipped += other.Skipped
	r.Periods += other.Periods
	r.GCCycles += other.GCCycles
	r.Demoted += other.Demoted
	r.Lateness.add(other.Lateness)
	r.Duration.add(other.Duration)
}

// String returns a summary of three lines.
func (r Report) String() string {
	verdict := "="
	if !r.Identity() {
		verdict = "≠"
	}
	return fmt.Sprintf("%d ticks run + %d skipped %s %d periods of %v\nlateness: %v\nduration: %v",
		r.Ticks, r.Skipped, verdict, r.Periods, r.Period, r.Lateness, r.Duration)
}

// String returns the percentiles on one line.
func (d Distribution) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, p99.9 %v, max %v", d.P50, d.P99, d.P999, d.Max)
}

func (d *Distribution) add(other Distribution) {
	merged := newHistogram()
	for _, h := range []histogram{d.histogram, other.histogram} {
		if h.counts != nil {
			merged.counts.Merge(h.counts)
			merged.max = max(merged.max, h.max)
		}
	}
	*d = merged.distribution()
}

func (l *Loop) report() Report {
	return Report{
		Period:   l.cfg.Period(),
		Ticks:    l.schedule.ticks,
		Skipped:  l.schedule.skipped,
		Periods:  l.schedule.periods(),
		Lateness: l.lateness.distribution(),
		Duration: l.duration.distribution(),
		Granted:  l.granted,
		Demoted:  l.companions.demotions(),
	}
}

// The range of the histograms, in nanoseconds. Longer values are counted at
// the upper end; the maximum is exact.
const (
	histogramUnit  = 64
	histogramUpper = int64(100 * time.Second)
)

// histogram counts durations in nanoseconds, in memory of a fixed size.
type histogram struct {
	counts *hdrhistogram.Histogram
	max    int64
}

func newHistogram() histogram {
	counts := hdrhistogram.New(histogramUnit, histogramUpper, 3)
	counts.Reset() // touches every page
	return histogram{counts: counts}
}

// record counts a value. It allocates nothing.
func (h *histogram) record(ns int64) {
	h.max = max(h.max, ns)
	// It fails only for a value out of range.
	_ = h.counts.RecordValue(min(max(ns, 0), histogramUpper))
}

func (h histogram) distribution() Distribution {
	at := func(percent float64) time.Duration {
		return time.Duration(min(h.counts.ValueAtPercentile(percent), h.max))
	}
	return Distribution{
		Count:     h.counts.TotalCount(),
		Mean:      time.Duration(h.counts.Mean()),
		P50:       at(50),
		P99:       at(99),
		P999:      at(99.9),
		Max:       time.Duration(h.max),
		histogram: h,
	}
}
