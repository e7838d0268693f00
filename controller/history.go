package controller

import "fmt"

// history holds the features of the last ticks, so that a label can be
// credited to the moment that it is about. The memory is fixed.
type history struct {
	d       int
	entries []moment  // index: tick modulo len
	phi     []float64 // [len, d]
}

// moment is one tick that the history holds.
type moment struct {
	held  bool
	tick  uint64
	at    int64  // when the state was sensed, ns
	clock uint64 // the learner's clock at that tick
}

func newHistory(capacity, d int) *history {
	return &history{d: d, entries: make([]moment, capacity), phi: make([]float64, capacity*d)}
}

func (h *history) slot(tick uint64) int { return int(tick % uint64(len(h.entries))) }

func (h *history) add(tick uint64, at int64, clock uint64, phi []float64) {
	if len(phi) != h.d {
		panic(fmt.Sprintf("controller: history: %d features, want %d", len(phi), h.d))
	}
	i := h.slot(tick)
	h.entries[i] = moment{held: true, tick: tick, at: at, clock: clock}
	copy(h.phi[i*h.d:(i+1)*h.d], phi)
}

// find returns the moment of a tick, or ok = false where it is not held.
func (h *history) find(tick uint64) (m moment, phi []float64, ok bool) {
	i := h.slot(tick)
	m = h.entries[i]
	if !m.held || m.tick != tick {
		return moment{}, nil, false
	}
	return m, h.phi[i*h.d : (i+1)*h.d], true
}

// window returns the first and last tick held whose states were sensed within
// [since, until], looking back from newest. Where none was, it is the last
// tick before until; ok is false if that is not held either.
func (h *history) window(newest uint64, since, until int64) (from, to uint64, ok bool) {
	for back := uint64(0); back < uint64(len(h.entries)) && back <= newest; back++ {
		m, _, held := h.find(newest - back)
		if !held || m.at > until {
			continue
		}
		if m.at < since {
			if !ok { // nothing within the window: the last state before it
				return m.tick, m.tick, true
			}
			return from, to, true
		}
		if !ok {
			to, ok = m.tick, true
		}
		from = m.tick
	}
	return from, to, ok
}

// mean writes φ̄ of the ticks from..to to dst: a triangular weighting, greatest
// in the middle, over those that are held. It returns how many were.
func (h *history) mean(dst []float64, from, to uint64) (held int) {
	clear(dst)
	total := 0.0
	for t := from; t <= to; t++ {
		_, phi, ok := h.find(t)
		if !ok {
			continue
		}
		held++
		w := float64(1 + min(t-from, to-t))
		total += w
		for i, x := range phi {
			dst[i] += float64(w * x)
		}
	}
	if held == 0 {
		return 0
	}
	for i := range dst {
		dst[i] /= total
	}
	return held
}
