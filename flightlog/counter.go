package flightlog

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"optibfm/controller"
	"optibfm/rewardsrc"
)

// Counts are the counts that a live run shows and that its log gives again.
type Counts struct {
	Ticks    uint64 // records of ticks
	Skipped  uint64 // periods that the loop skipped because it was late
	Dropped  uint64 // periods without a record that the loop did not skip
	Asked    uint64 // requests opened
	Answered uint64
	Expired  uint64
	Undone   uint64 // applied undos
}

// Counter counts the ticks and requests of a run, and measures its loop. It keeps no tick, and its
// memory is constant.
type Counter struct {
	Counts
	Lateness *hdrhistogram.Histogram // of the wake-up, ns
	Duration *hdrhistogram.Histogram // of a tick, ns

	index uint64 // of the last tick
}

// longestDuration is the largest value of the histograms, ns.
const longestDuration = int64(time.Hour)

// NewHistogram returns an empty histogram of durations from 1 ns to 1 h.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longestDuration, 3) }

// RecordDuration adds a duration in ns, limited to the range of the histogram.
func RecordDuration(h *hdrhistogram.Histogram, ns int64) {
	_ = h.RecordValue(min(max(ns, 0), longestDuration)) // min and max keep it in range
}

// NewCounter returns a Counter that has counted nothing.
func NewCounter() Counter { return Counter{Lateness: NewHistogram(), Duration: NewHistogram()} }

// AddTick counts a tick. It counts no period before the first one.
func (c *Counter) AddTick(t *controller.Tick) {
	if c.Ticks > 0 {
		c.Dropped += missingBefore(t, c.index, true)
		c.Skipped += max(t.Elapsed, 1) - 1
	}
	c.index = t.Index
	c.Ticks++
	RecordDuration(c.Lateness, t.Wake-t.Deadline)
	RecordDuration(c.Duration, t.Done-t.Wake)
}

// AddLabel counts what a tick did with a label. It reports whether the belief learnt from it.
func (c *Counter) AddLabel(l *controller.AppliedLabel) (learnt bool) {
	if l.Outcome != controller.Applied {
		return false
	}
	if l.Kind == rewardsrc.Undo {
		c.Undone++
		return false
	}
	return l.Kind.Teaches()
}

// AddRequest counts a request or its end.
func (c *Counter) AddRequest(r rewardsrc.Request) {
	switch r.State {
	case rewardsrc.Open:
		c.Asked++
	case rewardsrc.Answered:
		c.Answered++
	case rewardsrc.Expired:
		c.Expired++
	}
}

// Late returns percentiles of the lateness.
func (c *Counter) Late() Percentiles { return percentiles(c.Lateness) }

// Busy returns percentiles of the duration of a tick.
func (c *Counter) Busy() Percentiles { return percentiles(c.Duration) }

func percentiles(h *hdrhistogram.Histogram) Percentiles {
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) }
	return Percentiles{P50: at(50), P99: at(99), P999: at(99.9), Max: time.Duration(h.Max())}
}
