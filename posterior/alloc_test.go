package posterior

import (
	"math/rand/v2"
	"testing"
)

func TestBelief_TickDoesNotAllocate(t *testing.T) {
	const dim, n = 20, 5
	seed := splitMix(1)
	phi, psi := make([]float64, dim), make([]float64, n*dim)
	seed.fill(phi)
	seed.fill(psi)
	ucb, z, invR := make([]float64, n), make([]float64, dim), make([]float64, dim*dim)
	state := make([]float64, StateLen(dim))
	reward, weight := make([]float64, n), []float64{1, 1, 1, 1, 1}
	rng := rand.New(rand.NewPCG(1, 2))
	var schedule Schedule = Misspecified{Schedule: Theory{1, 1, 0.1}, Zeta: 0.1, L: 1}
	for _, opts := range [][]Option{nil, {WithExactRestore()}} {
		b := mustNew(t, dim, 1, 0.99, opts...)
		copied := b.Clone()
		if n := testing.AllocsPerRun(100, func() {
			b.Forget()
			must(t, b.Update(phi, 1, 1))
			must(t, b.Update(phi, 1, 0.5))
			must(t, b.Downdate(phi, 1, 0.5))
			must(t, b.UpdateBatch(psi, reward, weight))
			b.Mean(z)
			sink = DGap(b.NormSq(phi), 1) + b.LogDet() + schedule.Beta(b) + float64(b.Hash())
			b.UCB(ucb, psi, n, 1)
			b.InvR(invR)
			b.SampleEllipsoid(z, 2, rng)
			b.SampleEllipsoid(psi, 2, rng)
			b.SampleGaussian(z, 1, rng)
			b.State(state)
			must(t, copied.Restore(state))
			copied.CopyFrom(b)
		}); n != 0 {
			t.Errorf("a tick makes %g allocations", n)
		}
	}
}
