package terminal

import (
	"math"
	"time"
)

// The history covers one minute.
const (
	numBuckets = 120
	bucketTime = 500 * time.Millisecond
)

// bucket sums up half a second.
type bucket struct {
	gap    float64 // the largest D-gap
	asked  bool
	labels int // that entered the belief
}

// history is a ring of the newest buckets.
type history struct {
	buckets [numBuckets]bucket
	newest  int64 // number of the newest bucket since the start
}

// add counts one tick. at is the time since the start of the run.
func (h *history) add(at time.Duration, gap float64, asked bool, labels int) {
	n := int64(at / bucketTime)
	h.newest = max(h.newest, n-numBuckets)
	for h.newest < n {
		h.newest++
		h.buckets[h.newest%numBuckets] = bucket{}
	}
	b := &h.buckets[n%numBuckets]
	b.merge(bucket{gap, asked, labels})
}

// merge adds the content of other, without a D-gap that is not a number.
func (b *bucket) merge(other bucket) {
	if other.gap > b.gap {
		b.gap = other.gap
	}
	b.asked = b.asked || other.asked
	b.labels += other.labels
}

// column merges the buckets of column x of w, the newest at the right. Column 0 of 1 is the whole
// minute.
func (h *history) column(x, w int) (b bucket, ok bool) {
	from, to := x*numBuckets/w, max((x+1)*numBuckets/w, x*numBuckets/w+1)
	for i := from; i < to; i++ {
		if n := h.newest - int64(numBuckets-1-i); n >= 0 {
			b.merge(h.buckets[n%numBuckets])
			ok = true
		}
	}
	return b, ok
}

// drawGap draws the D-gap of the last minute on a logarithmic scale, over a multiple of three rows.
// The lowest third is the decade below kappa, where the robot does not ask; the others reach from
// kappa to the largest D-gap. A kappa of 0 draws no such level.
func (h *history) drawGap(c *canvas, x, y, w, rows int, kappa float64) {
	reference := kappa
	if !(kappa > 0) {
		reference = 0.01
	}
	third := rows / 3
	minute, _ := h.column(0, 1)
	decades := max(math.Log10(minute.gap/reference), 1)
	for column := range w {
		if kappa > 0 {
			c.set(x+column, y+rows-1-third, inkDim, c.glyphs.kappa)
		}
		b, ok := h.column(column, w)
		if !ok {
			continue
		}
		level := math.Log10(b.gap / reference) // decades
		if level > 0 {
			level *= 2 / decades
		}
		c.bar(x+column, y, rows, (level+1)*float64(third), third, b.asked)
	}
}
