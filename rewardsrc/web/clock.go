package web

import (
	"math"
	"time"
)

const (
	clockSamples = 16 // exchanges that are remembered
	clockPending = 8  // exchanges whose answer may still come

	// clockDrift bounds how fast a browser's clock runs away from the
	// robot's: tens of ppm for two crystals, and what a time daemon slews.
	clockDrift = 200e-6

	// timerStep bounds how coarsely a browser rounds performance.now, against
	// fingerprinting: by 1 ms in most, by 100 ms in some.
	timerStep = 100 * time.Millisecond
)

// clock estimates how the clock of a browser (performance.now) reads in the
// robot's CLOCK_MONOTONIC, as NTP does: the server notes when it asks for the
// browser's time and when the answer comes. The browser read its clock
// somewhere between the two, so the middle is wrong by at most half of the
// round trip; of the exchanges that are remembered the one with the least such
// bound counts. The zero value is ready to use.
type clock struct {
	pending [clockPending]exchange
	samples [clockSamples]sample
	n       int // samples that were ever taken since the last jump
}

type exchange struct {
	id     uint64
	sentAt int64
}

// sample is an exchange that was completed.
type sample struct {
	offset int64 // robot's time minus browser's time, ns
	bound  int64 // on its error when it was taken, ns
	at     int64 // robot's time of it
}

func (s sample) boundAt(now int64) int64 {
	return s.bound + int64(clockDrift*float64(max(now-s.at, 0)))
}

// asked notes that the browser's time was asked for.
func (c *clock) asked(id uint64, now int64) {
	c.pending[id%clockPending] = exchange{id, now}
}

// answered takes the browser's time, in ns, and returns the round trip. ok is
// false for an answer to nothing.
func (c *clock) answered(id uint64, browser, now int64) (roundTrip time.Duration, ok bool) {
	e := &c.pending[id%clockPending]
	if id == 0 || e.id != id || now < e.sentAt {
		return 0, false
	}
	took := now - e.sentAt
	s := sample{offset: e.sentAt + took/2 - browser, bound: took/2 + 1, at: now}
	*e = exchange{}
	if best, known := c.best(now); known && jumped(best, s) {
		c.n = 0 // the browser slept: its clock stood still, and older exchanges say nothing
	}
	c.samples[c.n%clockSamples] = s
	c.n++
	return time.Duration(took), true
}

// jumped reports whether no clock can have given both samples.
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

// robotTime returns a browser's time as the robot's, and how wrong it can be.
// ok is false before the first exchange.
func (c *clock) robotTime(browser, now int64) (at, bound int64, ok bool) {
	s, ok := c.best(now)
	if !ok {
		return 0, 0, false
	}
	return browser + s.offset, s.boundAt(now), true
}
