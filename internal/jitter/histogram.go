package jitter

import (
	"maps"
	"slices"
	"time"
)

// Histogram counts wake-ups by lateness, in steps of 1 µs.
type Histogram struct {
	Cycles int64         `json:"cycles"` // wake-ups
	P50    time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
	P999   time.Duration `json:"p99_9_ns"`
	Max    time.Duration `json:"max_ns"`
	Missed int64         `json:"missed"` // a period or more late; of the program: skipped ticks

	counts map[int]int64 // by lateness in µs
}

// add counts n wake-ups.
func (h *Histogram) add(us int, n int64) {
	if h.counts == nil {
		h.counts = map[int]int64{}
	}
	h.counts[us] += n
}

// summarize computes the exported fields.
func (h *Histogram) summarize(period time.Duration) {
	h.Cycles, h.Missed, h.Max = 0, 0, 0
	for us, n := range h.counts {
		h.Cycles += n
		lateness := time.Duration(us) * time.Microsecond
		h.Max = max(h.Max, lateness)
		if lateness >= period {
			h.Missed += n
		}
	}
	h.P50, h.P99, h.P999 = h.percentile(0.5), h.percentile(0.99), h.percentile(0.999)
}

// percentile returns the smallest lateness that a fraction of the wake-ups does not exceed.
func (h *Histogram) percentile(fraction float64) time.Duration {
	sum := int64(0)
	for _, us := range slices.Sorted(maps.Keys(h.counts)) {
		sum += h.counts[us]
		if float64(sum) >= fraction*float64(h.Cycles) {
			return time.Duration(us) * time.Microsecond
		}
	}
	return h.Max
}
