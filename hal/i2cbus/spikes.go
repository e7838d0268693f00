package i2cbus

import (
	"math"
	"time"
)

// Spikes finds readings that jump and return. I²C has no checksum, so a flipped high
// bit is a wrong number. A jump that the next reading confirms is true.
type Spikes struct {
	limit  float64 // of a change between two readings
	last   []float64
	jumped []float64 // the reading that awaits its confirmation
	at     int64     // time of last; 0: no reading yet
	waits  bool      // jumped is valid
}

// spikeAge is the age of the last reading after which any value is plausible.
const spikeAge = 250 * time.Millisecond

// NewSpikes returns a filter for readings of n values. fullScale is the largest value of
// the sensor; a change of nearly half of it, as of a flipped high bit, is a jump.
func NewSpikes(n int, fullScale float64) *Spikes {
	return &Spikes{limit: 0.45 * fullScale, last: make([]float64, n), jumped: make([]float64, n)}
}

// Reject reports whether a reading [n] at a time in ns jumps from the last accepted
// one and is not near the rejected one before.
func (s *Spikes) Reject(values []float64, at int64) bool {
	old := s.at == 0 || at-s.at > int64(spikeAge)
	if old || s.near(s.last, values) || s.waits && s.near(s.jumped, values) {
		copy(s.last, values)
		s.at, s.waits = at, false
		return false
	}
	copy(s.jumped, values)
	s.waits = true
	return true
}

func (s *Spikes) near(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > s.limit {
			return false
		}
	}
	return true
}
