package posterior

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// double is a number hi + lo with twice the precision of float64.
type double struct{ hi, lo float64 }

// add adds a·b·c to the sum without the rounding error of float64.
func (s *double) add(a, b, c float64) {
	p := a * b
	e := math.FMA(a, b, -p)
	q := p * c
	f := math.FMA(p, c, -q) + e*c
	t := s.hi + q
	u := t - s.hi
	s.lo += (s.hi - (t - u)) + (q - u) + f
	s.hi = t
}

// streamed returns the n-th label of a stream. Its features have very different
// sizes, so that V is ill-conditioned.
func streamed(n int, phi []float64) (reward, weight float64) {
	seed := splitMix(uint64(n) << 20)
	seed.fill(phi)
	for i := range phi {
		if i%3 == 1 {
			phi[i] *= 1e-2
		}
	}
	phi[0] += 3
	return seed.float(), seed.weight()
}

// recompute computes V from the labels with a weight after n ticks, and D from the
// order of the restores.
func recompute(n, dim int, lambda, rho float64) *mat.SymDense {
	sums := make([]double, dim*dim)
	phi := make([]float64, dim)
	decay := 1.0
	for age := 1; age <= n && decay > 1e-22; age++ {
		decay *= rho
		_, weight := streamed(n-age, phi)
		for i := range dim {
			for j := i; j < dim; j++ {
				sums[i*dim+j].add(phi[i]*phi[j], weight, decay)
			}
		}
	}
	v := mat.NewSymDense(dim, nil)
	for i := range dim {
		for j := i; j < dim; j++ {
			v.SetSym(i, j, sums[i*dim+j].hi+sums[i*dim+j].lo)
		}
	}
	for i := range dim {
		age := (n - 1 - i) % dim // ticks since direction i was restored
		v.SetSym(i, i, v.At(i, i)+lambda*math.Pow(rho, float64(age)))
	}
	return v
}

func TestBelief_MatchesRecomputationAfterTenMillionUpdates(t *testing.T) {
	t.Parallel()
	cases := []struct {
		dim, updates int
		rho          float64
	}{
		{8, 10_000_000, 0.999},
		{16, 300_000, 0.9999},
		{50, 100_000, 0.9995},
	}
	for _, c := range cases {
		updates := c.updates
		if testing.Short() {
			updates = min(updates, 20_000)
		}
		const lambda = 0.01
		b := mustNew(t, c.dim, lambda, c.rho)
		phi := make([]float64, c.dim)
		for n := range updates {
			reward, weight := streamed(n, phi)
			must(t, b.Update(phi, reward, weight))
			b.Forget()
		}
		v := recompute(updates, c.dim, lambda, c.rho)
		var factor mat.Cholesky
		if !factor.Factorize(v) {
			t.Fatal("the recomputation is not positive definite")
		}
		var want mat.TriDense
		factor.UTo(&want)
		got := mat.NewTriDense(c.dim, mat.Upper, nil)
		worst := 0.0
		for k, off := 0, 0; k < c.dim; k++ {
			for j := k; j < c.dim; j++ {
				got.SetTri(k, j, b.r[off])
				off++
			}
			worst = max(worst, math.Abs(got.At(k, k)/want.At(k, k)-1))
		}
		e := relative(got, &want)
		t.Logf("d %d, %d updates: R is off by %.2g, its diagonal entries by %.2g at most", c.dim, updates, e, worst)
		if e > 1e-8 || worst > 1e-8 {
			t.Errorf("d %d, %d updates: R is off by %g, its diagonal entries by up to %g", c.dim, updates, e, worst)
		}
	}
}

// Without forgetting, rounding errors of updates accumulate undamped.
func TestBelief_IsAccurateAfterAMillionUpdatesWithoutForgetting(t *testing.T) {
	const dim = 6
	updates := 1_000_000
	if testing.Short() {
		updates = 20_000
	}
	b := mustNew(t, dim, 1, 1)
	phi := make([]float64, dim)
	for n := range updates {
		reward, weight := streamed(n, phi)
		must(t, b.Update(phi, reward, weight))
	}
	if e := relative(dense(b), recompute(updates, dim, 1, 1)); e > 1e-11 {
		t.Fatalf("V is off by %g", e)
	}
}
