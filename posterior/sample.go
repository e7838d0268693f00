package posterior

import (
	"math"
	"math/rand/v2"
)

// SampleEllipsoid writes samples of the ellipsoid ‖z - ẑ‖ ≤ radius (norm in V),
// uniform in its volume, into dst [n, d], n ≥ 1: ẑ + R⁻¹(radius·ξ), ξ uniform in the
// unit ball. The radius of the paper is 2β. One call for n samples is faster than n calls
// and gives the same numbers.
func (b *Belief) SampleEllipsoid(dst []float64, radius float64, rng *rand.Rand) {
	d := b.TaskDim()
	b.checkLen("SampleEllipsoid", "dst", len(dst), max(len(dst)/d, 1)*d)
	for i := 0; i < len(dst); i += d {
		sampleBall(dst[i:i+d], radius, rng)
	}
	b.aroundMean(dst)
}

// sampleBall fills dst with a uniform sample of the ball.
func sampleBall(dst []float64, radius float64, rng *rand.Rand) {
	normSq := 0.0
	for i := range dst {
		v := rng.NormFloat64()
		dst[i] = v
		normSq += float64(v * v)
	}
	// A uniform direction, and the radius of the ball with a uniform fraction of the volume.
	share := math.Pow(rng.Float64(), 1/float64(len(dst)))
	scale(dst, radius*share/math.Sqrt(normSq))
}

// SampleGaussian writes a sample of N(ẑ, scale²·V⁻¹) into dst [d]: ẑ + R⁻¹(scale·ε).
func (b *Belief) SampleGaussian(dst []float64, scale float64, rng *rand.Rand) {
	b.checkLen("SampleGaussian", "dst", len(dst), b.TaskDim())
	for i := range dst {
		dst[i] = float64(scale * rng.NormFloat64())
	}
	b.aroundMean(dst)
}

// aroundMean computes x ← ẑ + R⁻¹x for each row of x [n, d]. R⁻ᵀ would be wrong: the
// covariance of R⁻¹ε is (RᵀR)⁻¹ = V⁻¹, that of R⁻ᵀε is (RRᵀ)⁻¹.
func (b *Belief) aroundMean(x []float64) {
	b.solveMean()
	mean := b.mean[b.nuisance:]
	solveRows(b.task, x, b.block[:len(mean)])
	for ; len(x) > 0; x = x[len(mean):] {
		for i, v := range mean {
			x[i] += v
		}
	}
}
