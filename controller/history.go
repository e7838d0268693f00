package controller

import "fmt"

// history holds the features of the newest ticks for the credit of labels. It
// is a ring in the order of ticks. Queries come from untrusted labels: every
// search is logarithmic, every sum is bounded by the ring, and the memory is
// fixed.
type history struct {
	d       int
	moments []moment  // index: sequence number modulo len
	phi     []float64 // [len, d]
	n       uint64    // moments added; the newest has sequence number n-1
}

// moment is one tick in the history.
type moment struct {
	tick  uint64
	at    int64  // when the state was sensed, ns
	clock uint64 // the learner's clock at that tick
}

func newHistory(capacity, d int) *history {
	return &history{d: d, moments: make([]moment, capacity), phi: make([]float64, capacity*d)}
}

// add appends a tick. A tick that is not newer than the newest clears the
// history first.
func (h *history) add(tick uint64, at int64, clock uint64, phi []float64) {
	if len(phi) != h.d {
		panic(fmt.Sprintf("controller: history: %d features, want %d", len(phi), h.d))
	}
	if h.n > 0 && tick <= h.moment(h.n-1).tick {
		h.n = 0
	}
	*h.moment(h.n) = moment{tick: tick, at: at, clock: clock}
	copy(h.features(h.n), phi)
	h.n++
}

func (h *history) moment(seq uint64) *moment { return &h.moments[seq%uint64(len(h.moments))] }

func (h *history) features(seq uint64) []float64 {
	i := int(seq%uint64(len(h.moments))) * h.d
	return h.phi[i : i+h.d]
}

// oldest returns the sequence number of the oldest moment in the ring.
func (h *history) oldest() uint64 { return h.n - min(h.n, uint64(len(h.moments))) }

// search returns the sequence number of the first moment for which beyond is
// true, or n. If beyond is true for a moment, it must be for all later ones.
func (h *history) search(beyond func(m *moment) bool) uint64 {
	lo, hi := h.oldest(), h.n
	for lo < hi {
		middle := lo + (hi-lo)/2
		if beyond(h.moment(middle)) {
			hi = middle
		} else {
			lo = middle + 1
		}
	}
	return lo
}

// span returns the sequence numbers [lo, hi) of the ticks [from, to].
func (h *history) span(from, to uint64) (lo, hi uint64) {
	lo = h.search(func(m *moment) bool { return m.tick >= from })
	hi = h.search(func(m *moment) bool { return m.tick > to })
	return lo, hi
}

// has reports whether one of the ticks [from, to] is in the ring.
func (h *history) has(from, to uint64) bool {
	lo, hi := h.span(from, to)
	return lo < hi
}

// window returns the first and last of the newest limit ticks whose states were
// sensed within [since, until]. If there are none, it returns the last tick
// before the window, provided the gap is at most maxGap.
//
// Sample times should not decrease. If they do, the window may be wrong, but it
// still contains only ticks in the ring.
func (h *history) window(since, until, maxGap int64, limit uint64) (from, to uint64, ok bool) {
	lo := h.search(func(m *moment) bool { return m.at >= since })
	hi := h.search(func(m *moment) bool { return m.at > until })
	if lo < hi {
		lo = max(lo, hi-min(hi, limit))
		return h.moment(lo).tick, h.moment(hi - 1).tick, true
	}
	if hi == h.oldest() {
		return 0, 0, false
	}
	before := h.moment(hi - 1)
	if before.at > until || before.at < since-maxGap {
		return 0, 0, false
	}
	return before.tick, before.tick, true
}

// mean writes to dst the mean φ̄ of the ticks [from, to] that are in the ring,
// with triangular weights, largest in the middle. It returns their number.
func (h *history) mean(dst []float64, from, to uint64) (held int) {
	clear(dst)
	total := 0.0
	lo, hi := h.span(from, to)
	for seq := lo; seq < hi; seq++ {
		tick := h.moment(seq).tick
		w := float64(1 + min(tick-from, to-tick))
		total += w
		for i, x := range h.features(seq) {
			dst[i] += float64(w * x)
		}
		held++
	}
	if held == 0 {
		return 0
	}
	for i := range dst {
		dst[i] /= total
	}
	return held
}

// middle returns the moment that determines the age of a label about the ticks
// [from, to]: the middle one, else the nearest before it in the ring, else the
// nearest after it. ok is false if the ring has none.
func (h *history) middle(from, to uint64) (m moment, ok bool) {
	lo, hi := h.span(from, to)
	if lo >= hi {
		return moment{}, false
	}
	tick := from + (to-from)/2
	after := h.search(func(m *moment) bool { return m.tick > tick })
	return *h.moment(max(after, lo+1) - 1), true
}
