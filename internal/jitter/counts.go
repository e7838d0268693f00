package jitter

import (
	"maps"
	"slices"
	"time"
)

// WakeUpCounts are wake-ups by how late they were.
type WakeUpCounts struct {
	Cycles int64         `json:"cycles"`
	P50    time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
	P999   time.Duration `json:"p99_9_ns"`
	Max    time.Duration `json:"max_ns"`
	Missed int64         `json:"missed"` // a period or more late

	counts map[int]int64 // by latency in µs
}

func newWakeUpCounts() WakeUpCounts { return WakeUpCounts{counts: map[int]int64{}} }

// sumUp computes what is printed from the counts.
func (c *WakeUpCounts) sumUp(period time.Duration) {
	c.Cycles, c.Missed, c.Max = 0, 0, 0
	for us, n := range c.counts {
		c.Cycles += n
		latency := time.Duration(us) * time.Microsecond
		c.Max = max(c.Max, latency)
		if latency >= period {
			c.Missed += n
		}
	}
	c.P50, c.P99, c.P999 = c.percentile(0.5), c.percentile(0.99), c.percentile(0.999)
}

// percentile is the smallest latency that a fraction of the wake-ups kept.
func (c *WakeUpCounts) percentile(fraction float64) time.Duration {
	seen := int64(0)
	for _, us := range slices.Sorted(maps.Keys(c.counts)) {
		seen += c.counts[us]
		if float64(seen) >= fraction*float64(c.Cycles) {
			return time.Duration(us) * time.Microsecond
		}
	}
	return c.Max
}
