package controller

import "fmt"

// history holds the features of the newest ticks, so that a label can be
// credited to the moment that it is about. It is a ring in order of ticks; what
// is asked of it comes from outside, so every search is logarithmic and every
// sum bounded by what is held. The memory is fixed.
type history struct {
	d       int
	moments []moment  // index: sequence number modulo len
	phi     []float64 // [len, d]
	n       uint64    // moments added; the newest has sequence number n-1
}

// moment is one tick that the history holds.
type moment struct {
	tick  uint64
	at    int64  // when the state was sensed, ns
	clock uint64 // the learner's clock at that tick
}

func newHistory(capacity, d int) *history {
	return &history{d: d, moments: make([]moment, capacity), phi: make([]float64, capacity*d)}
}

// add appends a tick. One that does not come after the newest starts the
// history anew.
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

// oldest is the sequence number of the first moment that is still held.
func (h *history) oldest() uint64 { return h.n - min(h.n, uint64(len(h.moments))) }

// search returns the sequence number of the first moment held that is beyond,
// or n where none is. Once beyond, all later ones must be.
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

// span returns the sequence numbers [lo, hi) of the ticks from..to.
func (h *history) span(from, to uint64) (lo, hi uint64) {
	lo = h.search(func(m *moment) bool { return m.tick >= from })
	hi = h.search(func(m *moment) bool { return m.tick > to })
	return lo, hi
}

// window returns the first and last tick whose states were sensed within
// [since, until], at most limit of them, the newest. Where none was, it is the
// last one before the window, if that is no further than reach from it.
//
// Sample times should not run backwards. Where a driver's do, the window may
// be off, but it is still one of ticks that are held.
func (h *history) window(since, until, reach int64, limit uint64) (from, to uint64, ok bool) {
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
	if before.at > until || before.at < since-reach {
		return 0, 0, false
	}
	return before.tick, before.tick, true
}

// mean writes φ̄ of the ticks from..to to dst: a triangular weighting, greatest
// in the middle, over those that are held. It returns how many were.
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

// about returns the moment that sets the age of a label about the ticks
// from..to: the one in the middle, or the next before it that is held, or else
// the next after it. ok is false where none is held.
func (h *history) about(from, to uint64) (m moment, ok bool) {
	lo, hi := h.span(from, to)
	if lo >= hi {
		return moment{}, false
	}
	middle := from + (to-from)/2
	after := h.search(func(m *moment) bool { return m.tick > middle })
	return *h.moment(max(after, lo+1) - 1), true
}
