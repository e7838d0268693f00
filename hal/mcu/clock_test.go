package mcu

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestClock_KeepsBoundsOverDriftDelayAndWraps(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, ppm := range []float64{-50, 0, 50} {
		var c clock
		const period, least, spread = 5_000_000, 300_000, 4_000_000 // ns
		start := int64(math.MaxUint32)*1000 - 2e9                   // wraps after 2 s
		var before, worstLate, worstEarly int64
		for k := range int64(200 * 60) {
			truth := 1e12 + k*period
			device := start + int64(float64(k*period)*(1+ppm*1e-6))
			arrival := truth + least + random.Int64N(spread)
			at := c.at(uint32(device/1000), arrival)
			if at > arrival || at < before {
				t.Fatalf("%v ppm: sample %d: %d after %d, arrived %d", ppm, k, at, before, arrival)
			}
			before = at
			if k > 200 { // one window
				worstLate, worstEarly = max(worstLate, at-truth), max(worstEarly, truth-at)
			}
		}
		// The smallest of some 200 delays is near `least`; the resolution is a microsecond.
		if worstLate > least+spread/10 || worstEarly > 2*50_000+1000 {
			t.Errorf("%v ppm: up to %d ns late, %d ns early", ppm, worstLate, worstEarly)
		}
	}
}

func TestClock_ResetsOffsetAfterRestart(t *testing.T) {
	var c clock
	c.at(1_000_000_000, 5e12)
	at := c.at(10, 5e12+1e9)
	if at != 5e12+1e9 {
		t.Errorf("%d", at)
	}
}
