package web

import (
	"math"
	"time"
)

const (
	clockSamples = 16 // exchanges that are remembered
	clockPending = 8  // exchanges without an answer yet

	// clockDrift bounds the drift of a browser's clock against the robot's:
	// tens of ppm for two crystals, plus the slew of a time daemon.
	clockDrift = 200e-6

	// timerStep bounds the rounding of performance.now, which browsers do
	// against fingerprinting: 1 ms in most, 100 ms in some.
	timerStep = 100 * time.Millisecond
)

// clock estimates the offset from a browser's clock (performance.now) to the
// robot's CLOCK_MONOTONIC, like NTP: the server records when it asks for the
// browser's time and when the answer arrives. The browser read its clock between
// the two, so the error of the midpoint is at most half the round trip. Of the
// recent exchanges the one with the smallest bound counts. The zero value is
// ready to use.
type clock struct {
	pending [clockPending]exchange
	samples [clockSamples]sample
	n       int // samples since the last jump
}

type exchange struct {
	id     uint64
	sentAt int64 // robot's time, ns
}

// sample is a completed exchange.
type sample struct {
	offset int64 // robot's time minus browser's time, ns
	bound  int64 // on its error when it was taken, ns
	at     int64 // robot's time of it, ns
}

// boundAt returns the bound on the error of the offset at a later time, ns.
func (s sample) boundAt(now int64) int64 {
	return s.bound + int64(clockDrift*float64(max(now-s.at, 0)))
}

// begin records the start of an exchange. Times are in ns.
func (c *clock) begin(id uint64, now int64) {
	c.pending[id%clockPending] = exchange{id, now}
}

// finish records the browser's time, in ns, and returns the round trip. ok is
// false for an unknown exchange.
func (c *clock) finish(id uint64, browser, now int64) (roundTrip time.Duration, ok bool) {
	e := &c.pending[id%clockPending]
	if id == 0 || e.id != id || now < e.sentAt {
		return 0, false
	}
	took := now - e.sentAt
	s := sample{offset: e.sentAt + took/2 - browser, bound: took/2 + 1, at: now}
	*e = exchange{}
	if best, known := c.best(now); known && jumped(best, s) {
		c.n = 0 // the browser slept and its clock stopped: older exchanges are void
	}
	c.samples[c.n%clockSamples] = s
	c.n++
	return time.Duration(took), true
}

// jumped reports whether two samples contradict each other.
func jumped(old, fresh sample) bool {
	apart := old.offset - fresh.offset
	return max(apart, -apart) > old.boundAt(fresh.at)+fresh.bound
}

func (c *clock) best(now int64) (best sample, ok bool) {
	least := int64(math.MaxInt64)
	for _, s := range c.samples[:min(c.n, clockSamples)] {
		if b := s.boundAt(now); b < least {
			least, best = b, s
		}
	}
	return best, c.n > 0
}

// robotTime converts a browser's time to the robot's, and bounds the error, all in ns. ok is
// false before the first exchange.
func (c *clock) robotTime(browser, now int64) (at, bound int64, ok bool) {
	s, ok := c.best(now)
	if !ok {
		return 0, 0, false
	}
	return browser + s.offset, s.boundAt(now), true
}
