package taskprior

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"optibfm/tflite"
)

// Near is the probability of nearness.
const Near = 0.4

const (
	maxFactors      = 3  // of a product
	maxNearChannels = 12 // of a nearness
)

// shapes are those of factors.
var shapes = []tflite.Shape{tflite.Sigmoid, tflite.Bump, tflite.Ramp}

// kind is a kind of random rewards.
type kind struct {
	shapes   []tflite.Shape // of factors
	near     float64        // probability of nearness
	channels []int
}

// draw writes a random reward of every state to dst.
func (k kind) draw(dst []float64, s *states, rng *rand.Rand) {
	if len(k.channels) > 1 && rng.Float64() < k.near {
		k.nearness(dst, s, rng)
		return
	}
	s.value(dst, k.term(s, rng))
}

// term returns a random product of factors.
func (k kind) term(s *states, rng *rand.Rand) (t tflite.Term) {
	for range 1 + rng.IntN(maxFactors) {
		c := k.pick(1, s, rng)[0]
		f := tflite.Factor{Channel: c, Shape: k.shapes[rng.IntN(len(k.shapes))], Centre: s.quantile(c, rng.Float64())}
		f.Slope = 1 / (s.spread(c) * (0.05 + 0.25*rng.Float64()))
		if rng.IntN(2) == 0 {
			f.Slope = -f.Slope
		}
		t = append(t, f)
	}
	return t
}

// pick returns count different channels. All groups are equally likely, and so are the channels of a
// group.
func (k kind) pick(count int, s *states, rng *rand.Rand) []int {
	size := make(map[string]float64) // of each group
	for _, c := range k.channels {
		size[s.group(c)]++
	}
	size[""] = 1
	// Exponential times with the channels' probabilities as rates order draws without replacement
	// (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
	at := make([]float64, len(s.columns))
	for _, c := range k.channels {
		at[c] = rng.ExpFloat64() * size[s.group(c)]
	}
	picked := slices.Clone(k.channels)
	slices.SortFunc(picked, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	return picked[:count]
}

// value writes a term of every state to dst.
func (s *states) value(dst []float64, t tflite.Term) {
	for i := range dst {
		dst[i] = 1
	}
	for _, f := range t {
		for i, x := range s.columns[f.Channel] {
			dst[i] *= f.Shape.At((x - f.Centre) * f.Slope)
		}
	}
}

// nearness writes 1/(1+m)² to dst, where m is the mean squared distance to a random state in some
// channels.
func (k kind) nearness(dst []float64, s *states, rng *rand.Rand) {
	count := 2 + rng.IntN(min(len(k.channels), maxNearChannels)-1)
	goal := rng.IntN(len(dst))
	unit := 0.3 + 0.7*rng.Float64()
	clear(dst)
	for _, c := range k.pick(count, s, rng) {
		scale := 1 / (unit * s.deviation[c])
		goal := s.columns[c][goal]
		for i, x := range s.columns[c] {
			distance := (x - goal) * scale
			dst[i] += distance * distance
		}
	}
	for i, x := range dst {
		root := 1 + x/float64(count)
		dst[i] = 1 / (root * root)
	}
}
