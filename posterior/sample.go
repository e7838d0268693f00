package posterior

import (
	"math"
	"math/rand/v2"
)

// SampleEllipsoid writes a draw from the ellipsoid ‖z - ẑ‖ ≤ radius (norm in
// V), uniform over its volume, into dst [d]: ẑ + R⁻¹(radius·ξ), ξ uniform in
// the unit ball. The paper's radius is 2β.
func (b *Belief) SampleEllipsoid(dst []float64, radius float64, rng *rand.Rand) {
	b.checkLen("SampleEllipsoid", "dst", len(dst), b.dim)
	normSq := 0.0
	for i := range dst {
		v := rng.NormFloat64()
		dst[i] = v
		normSq += float64(v * v)
	}
	// A uniform direction, and the radius below which the share u of the ball lies.
	share := math.Pow(rng.Float64(), 1/float64(b.dim))
	scale(dst, radius*share/math.Sqrt(normSq))
	b.aroundMean(dst)
}

// SampleGaussian writes a draw from N(ẑ, V⁻¹) into dst [d]: ẑ + R⁻¹ε.
func (b *Belief) SampleGaussian(dst []float64, rng *rand.Rand) {
	b.checkLen("SampleGaussian", "dst", len(dst), b.dim)
	for i := range dst {
		dst[i] = rng.NormFloat64()
	}
	b.aroundMean(dst)
}

// aroundMean does x ← ẑ + R⁻¹x. It is R⁻¹ and not R⁻ᵀ: the covariance of
// R⁻¹ε is (RᵀR)⁻¹ = V⁻¹, that of R⁻ᵀε would be (RRᵀ)⁻¹.
func (b *Belief) aroundMean(x []float64) {
	b.solveMean()
	solve(b.r, x)
	for i, v := range b.mean {
		x[i] += v
	}
}
