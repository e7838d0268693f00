package posterior

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// skewed returns a belief with very different V⁻¹ and (RRᵀ)⁻¹.
func skewed(t testing.TB) *Belief {
	b := mustNew(t, 3, 0.5, 1)
	must(t, b.Update([]float64{3, 2, -1}, 1, 1))
	must(t, b.Update([]float64{0.1, 1, 2}, -2, 1))
	return b
}

// spread returns the mean of n draws and their covariance times factor.
func spread(n, dim int, factor float64, draw func(z []float64)) (*mat.VecDense, *mat.SymDense) {
	mean, second := mat.NewVecDense(dim, nil), mat.NewSymDense(dim, nil)
	z := make([]float64, dim)
	for range n {
		draw(z)
		x := mat.NewVecDense(dim, z)
		mean.AddVec(mean, x)
		second.SymRankOne(second, 1, x)
	}
	mean.ScaleVec(1/float64(n), mean)
	second.ScaleSym(1/float64(n), second)
	second.SymRankOne(second, -1, mean)
	second.ScaleSym(factor, second)
	return mean, second
}

func TestSample_HasTheCovarianceOfTheBelief(t *testing.T) {
	const n, tolerance = 200_000, 0.02
	b := skewed(t)
	var want mat.Dense
	must(t, want.Inverse(dense(b)))
	center := make([]float64, 3)
	b.Mean(center)
	rng := rand.New(rand.NewPCG(1, 2))
	// The covariance of a uniform draw from the unit ball is I/(d+2).
	const radius = 1.7
	for name, c := range map[string]struct {
		factor float64
		draw   func([]float64)
	}{
		"Gaussian":  {1, func(z []float64) { b.SampleGaussian(z, 1, rng) }},
		"ellipsoid": {(3 + 2) / (radius * radius), func(z []float64) { b.SampleEllipsoid(z, radius, rng) }},
	} {
		mean, cov := spread(n, 3, c.factor, c.draw)
		if e := relative(mean, mat.NewVecDense(3, center)); e > tolerance {
			t.Errorf("%s: the mean is off by %g", name, e)
		}
		if e := relative(cov, &want); e > tolerance {
			t.Errorf("%s: the covariance is off by %g", name, e)
		}
	}
	// The tempting mistake must fail the same test by far, or it tests nothing.
	_, wrong := spread(n, 3, 1, func(z []float64) {
		for i := range z {
			z[i] = rng.NormFloat64()
		}
		solveTransposed(b.r, z)
	})
	if e := relative(wrong, &want); e < 10*tolerance {
		t.Errorf("samples by R⁻ᵀ would pass (off by %g only)", e)
	}
}

func TestSampleEllipsoid_IsUniform(t *testing.T) {
	const n, radius = 50_000, 2.0
	b := skewed(t)
	v := dense(b)
	mean, z := make([]float64, 3), make([]float64, 3)
	b.Mean(mean)
	rng := rand.New(rand.NewPCG(5, 6))
	inner := 0
	for range n {
		b.SampleEllipsoid(z, radius, rng)
		diff := mat.NewVecDense(3, nil)
		diff.SubVec(mat.NewVecDense(3, z), mat.NewVecDense(3, mean))
		norm := math.Sqrt(mat.Inner(diff, v, diff))
		if norm > radius*(1+1e-12) {
			t.Fatalf("a sample is %g away, beyond the radius %g", norm, radius)
		}
		if norm < radius/2 {
			inner++
		}
	}
	if share := float64(inner) / n; math.Abs(share-0.125) > 0.01 {
		t.Fatalf("half the radius contains %.3f of the samples, want 1/8", share)
	}
}

func TestSample_SameSeedSameSamples(t *testing.T) {
	b := skewed(t)
	one, two := make([]float64, 3), make([]float64, 3)
	b.SampleEllipsoid(one, 1, rand.New(rand.NewPCG(7, 8)))
	b.SampleEllipsoid(two, 1, rand.New(rand.NewPCG(7, 8)))
	if !sameBits(one, two) {
		t.Fatal("the samples differ")
	}
}

// checkSamples compares samples of one call with those of single calls, bit for bit.
func checkSamples(t *testing.T, b *Belief, n int) {
	t.Helper()
	d, seed := b.TaskDim(), uint64(n)
	together, single := make([]float64, n*d), make([]float64, n*d)
	one, other := rand.New(rand.NewPCG(seed, 8)), rand.New(rand.NewPCG(seed, 8))
	b.SampleEllipsoid(together, 2, one)
	for i := range n {
		b.SampleEllipsoid(single[i*d:(i+1)*d], 2, other)
	}
	if !sameBits(together, single) || one.Uint64() != other.Uint64() {
		t.Errorf("%d samples of %d dimensions differ from single samples", n, d)
	}
}

func TestSampleEllipsoid_HasTheBitsOfSingleSamples(t *testing.T) {
	for d := range 257 {
		if d == 0 || d > 20 && d != 50 && d < 255 {
			continue
		}
		b := trained(t, d, 3)
		nuisance, _, _ := withNuisance(t, min(d, 50)+3, 3, 5)
		for n := range 9 {
			checkSamples(t, b, n+1)
			checkSamples(t, nuisance, n+1)
		}
	}
}
