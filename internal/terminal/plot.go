package terminal

import (
	"math"
	"time"
)

// The belief's recent past: a minute in buckets.
const (
	numBuckets = 120
	bucketTime = 500 * time.Millisecond
)

// bucket is what happened in half a second.
type bucket struct {
	gap    float64 // the largest
	asked  bool
	labels int // that entered the belief
}

// history is a ring of the newest buckets.
type history struct {
	buckets [numBuckets]bucket
	newest  int64 // number of the newest bucket since the start
}

// Add counts what happened at a time since the start of the run.
func (h *history) Add(at time.Duration, gap float64, asked bool, labels int) {
	n := int64(at / bucketTime)
	if n-h.newest > numBuckets {
		h.newest = n - numBuckets
	}
	for h.newest < n {
		h.newest++
		h.buckets[h.newest%numBuckets] = bucket{}
	}
	b := &h.buckets[n%numBuckets]
	if gap > b.gap {
		b.gap = gap
	}
	b.asked = b.asked || asked
	b.labels += labels
}

// span merges the buckets of column x of w, the newest at the right.
func (h *history) span(x, w int) (b bucket, ok bool) {
	from, to := x*numBuckets/w, max((x+1)*numBuckets/w, x*numBuckets/w+1)
	for i := from; i < to; i++ {
		n := h.newest - int64(numBuckets-1-i)
		if n < 0 {
			continue
		}
		one := h.buckets[n%numBuckets]
		b.gap, b.asked, b.labels, ok = max(b.gap, one.gap), b.asked || one.asked, b.labels+one.labels, true
	}
	return b, ok
}

// labels of the last minute.
func (h *history) labels() int {
	n := 0
	for _, b := range h.buckets {
		n += b.labels
	}
	return n
}

// top is the largest gap.
func (h *history) top() float64 {
	top := 0.0
	for _, b := range h.buckets {
		top = max(top, b.gap)
	}
	return top
}

// plotGap draws the D-gap of the last minute on a logarithmic scale, over rows
// rows, a multiple of three. Their lowest third is the decade below kappa, from
// which on the robot asks, and the others reach from there to the largest gap.
// Where kappa is 0 there is no such level.
func (c *canvas) plotGap(x, y, w, rows int, h *history, kappa float64) {
	reference := kappa
	if !(kappa > 0) {
		reference = 0.01
	}
	third := rows / 3
	decades := max(math.Log10(h.top()/reference), 1)
	for col := range w {
		if kappa > 0 {
			c.set(x+col, y+rows-1-third, inkDim, c.glyphs.kappa)
		}
		b, ok := h.span(col, w)
		if !ok {
			continue
		}
		level := math.Log10(b.gap / reference) // decades
		if level > 0 {
			level *= 2 / decades
		}
		c.bar(x+col, y, rows, (level+1)*float64(third), third, b.asked)
	}
}

// bar draws a vertical bar of level rows; what is above the lowest rows has
// another colour, and so has the tip where a label was asked for.
func (c *canvas) bar(x, y, rows int, level float64, below int, asked bool) {
	if math.IsNaN(level) {
		return
	}
	eighths := int(math.Round(min(max(level, 0), float64(rows)) * 8))
	for i := range rows {
		part := min(max(eighths-8*i, 0), 8)
		if part == 0 {
			return
		}
		k := inkBelow
		switch top := eighths <= 8*(i+1); {
		case asked && top:
			k = inkAsk
		case i >= below:
			k = inkAbove
		}
		c.set(x, y+rows-1-i, k, c.glyphs.blocks[part])
	}
}

// progress draws a horizontal bar of w columns filled to part, in [0, 1].
func (c *canvas) progress(x, y, w int, part float64) {
	c.repeat(x, y, w, inkDim, c.glyphs.rule)
	halves := int(math.Round(min(max(part, 0), 1) * float64(2*w)))
	end := c.repeat(x, y, halves/2, inkAccent, c.glyphs.fill)
	if halves%2 == 1 {
		c.set(end, y, inkAccent, c.glyphs.fillHalf)
	}
}

// balance draws a bar of w columns from the middle to v, in [-1, 1].
func (c *canvas) balance(x, y, w int, v float64, minus, plus ink) {
	c.repeat(x, y, w, inkDim, c.glyphs.rule)
	middle := w / 2
	n := int(math.Round(min(max(v, -1), 1) * float64(middle)))
	if v == v && n < 0 {
		c.repeat(x+middle+n, y, -n, minus, c.glyphs.fill)
	}
	if v == v && n > 0 {
		c.repeat(x+middle+1, y, min(n, w-middle-1), plus, c.glyphs.fill)
	}
	c.set(x+middle, y, inkDim, c.glyphs.zero)
}

// number is what barcode draws.
type number interface{ ~float32 | ~float64 }

// barcode draws one bar a value, its height the size against limit and its
// colour the sign, and returns the column after it. Where w is too small the
// last column says so.
func barcode[T number](c *canvas, x, y, w int, values []T, limit float64) int {
	for i, value := range values {
		if i == w-1 && len(values) > w {
			return c.Text(x, y, inkDim, "…")
		}
		v := float64(value)
		k := inkAccent
		if v < 0 {
			k = inkMinus
		}
		part := 0
		if limit > 0 && v == v {
			part = int(math.Round(min(math.Abs(v)/limit, 1) * 8))
		}
		if part == 0 {
			k, part = inkDim, 1
		}
		c.set(x, y, k, c.glyphs.blocks[part])
		x++
	}
	return x
}

// largest absolute value of finite ones.
func largest[T number](values []T) float64 {
	top := 0.0
	for _, v := range values {
		if a := math.Abs(float64(v)); a > top && !math.IsInf(a, 0) {
			top = a
		}
	}
	return top
}
