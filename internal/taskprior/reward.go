package taskprior

import (
	"math"
	"math/rand/v2"
)

// family is the shape of a random reward.
type family int

const (
	sigmoid family = iota
	bump
	ramp
	nearness
)

// Near is the probability of a reward for nearness to a recorded state.
const Near = 0.4

const (
	maxFactors      = 3  // of a product
	maxNearChannels = 12 // of a nearness
)

// kind is a set of random rewards.
type kind struct {
	shapes   []family // of factors: sigmoid, bump, ramp
	near     float64  // probability of nearness
	channels []int
}

// draw writes a random reward of each state, in [0, 1].
func (k kind) draw(dst []float64, s *states, rng *rand.Rand) {
	if len(k.channels) > 1 && rng.Float64() < k.near {
		k.nearness(dst, s, rng)
		return
	}
	for i := range dst {
		dst[i] = 1
	}
	for range 1 + rng.IntN(maxFactors) {
		k.factor(dst, s, rng)
	}
}

// factor multiplies dst by a function of one channel.
func (k kind) factor(dst []float64, s *states, rng *rand.Rand) {
	c := k.channels[rng.IntN(len(k.channels))]
	shape := k.shapes[rng.IntN(len(k.shapes))]
	centre := s.quantile(c, rng.Float64())
	width := s.spread(c) * (0.05 + 0.25*rng.Float64())
	if rng.IntN(2) == 0 {
		width = -width
	}
	for i, x := range s.columns[c] {
		dst[i] *= shape.at((x - centre) / width)
	}
}

// at returns the value of a factor at x widths from its centre.
func (f family) at(x float64) float64 {
	switch f {
	case sigmoid:
		return 1 / (1 + math.Exp(-2*x))
	case bump:
		return math.Exp(-x * x / 2)
	}
	return min(max(0.5+x/4, 0), 1)
}

// nearness writes the nearness of each state to a random one of them.
func (k kind) nearness(dst []float64, s *states, rng *rand.Rand) {
	count := 2 + rng.IntN(min(len(k.channels), maxNearChannels)-1)
	goal := rng.IntN(len(dst))
	unit := 0.3 + 0.7*rng.Float64()
	clear(dst)
	for _, at := range rng.Perm(len(k.channels))[:count] {
		c := k.channels[at]
		scale := 1 / (unit * s.deviation[c])
		goal := s.columns[c][goal]
		for i, x := range s.columns[c] {
			distance := (x - goal) * scale
			dst[i] += distance * distance
		}
	}
	for i, x := range dst {
		dst[i] = math.Exp(-x / float64(count))
	}
}
