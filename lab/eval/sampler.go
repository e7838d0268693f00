package eval

import (
	"math/rand/v2"

	"optibfm/posterior"
)

// transposed draws z with R⁻ᵀ instead of R⁻¹, a mistake of another implementation. Experiments
// measure its cost.
type transposed struct {
	invR  []float64 // of the belief with the hash, [d, d]
	mean  []float64
	hash  uint64
	valid bool // hash is that of a belief
	noise []float64
	unit  *posterior.Belief // of the standard normal distribution and the unit ball
}

func newTransposed(d int) (*transposed, error) {
	unit, err := posterior.New(d, 1, 1)
	if err != nil {
		return nil, err
	}
	return &transposed{
		invR: make([]float64, d*d), mean: make([]float64, d), noise: make([]float64, d), unit: unit,
	}, nil
}

func (t *transposed) Ellipsoid(dst []float64, b *posterior.Belief, radius float64, rng *rand.Rand) {
	for d := len(t.noise); len(dst) > 0; dst = dst[d:] {
		t.unit.SampleEllipsoid(t.noise, radius, rng)
		t.transform(dst[:d], b)
	}
}

func (t *transposed) Gaussian(dst []float64, b *posterior.Belief, scale float64, rng *rand.Rand) {
	t.unit.SampleGaussian(t.noise, scale, rng)
	t.transform(dst, b)
}

// transform writes ẑ + R⁻ᵀ noise.
func (t *transposed) transform(dst []float64, b *posterior.Belief) {
	if hash := b.Hash(); !t.valid || hash != t.hash { // all candidates of a plan share a belief
		b.Mean(t.mean)
		b.InvR(t.invR)
		t.valid, t.hash = true, hash
	}
	d := len(dst)
	copy(dst, t.mean)
	for i := range d {
		for k := range i + 1 { // R⁻¹ is upper triangular
			dst[i] += t.invR[k*d+i] * t.noise[k]
		}
	}
}
