package posterior

import (
	"math"
	"math/rand/v2"
)

// SampleEllipsoid writes a sample of the ellipsoid ‖z - ẑ‖ ≤ radius (norm in V),
// uniform in its volume, into dst [d]: ẑ + R⁻¹(radius·ξ), ξ uniform in the unit
// ball. The radius of the paper is 2β.
func (b *Belief) SampleEllipsoid(dst []float64, radius float64, rng *rand.Rand) {
	b.checkLen("SampleEllipsoid", "dst", len(dst), b.TaskDim())
	normSq := 0.0
	for i := range dst {
		v := rng.NormFloat64()
		dst[i] = v
		normSq += float64(v * v)
	}
	// A uniform direction, and the radius of the ball with a uniform fraction of the volume.
	share := math.Pow(rng.Float64(), 1/float64(len(dst)))
	scale(dst, radius*share/math.Sqrt(normSq))
	b.aroundMean(dst)
}

// SampleGaussian writes a sample of N(ẑ, scale²·V⁻¹) into dst [d]: ẑ + R⁻¹(scale·ε).
func (b *Belief) SampleGaussian(dst []float64, scale float64, rng *rand.Rand) {
	b.checkLen("SampleGaussian", "dst", len(dst), b.TaskDim())
	for i := range dst {
		dst[i] = float64(scale * rng.NormFloat64())
	}
	b.aroundMean(dst)
}

// aroundMean computes x ← ẑ + R⁻¹x. R⁻ᵀ would be wrong: the covariance of R⁻¹ε is
// (RᵀR)⁻¹ = V⁻¹, that of R⁻ᵀε is (RRᵀ)⁻¹.
func (b *Belief) aroundMean(x []float64) {
	b.solveMean()
	solve(b.task, x)
	for i, v := range b.mean[b.nuisance:] {
		x[i] += v
	}
}
