package posterior

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchBelief returns a belief after 500 labels, and 1000 features.
func benchBelief(b *testing.B, dim int) (*Belief, []float64) {
	b.Helper()
	// ρ is close to one, or the labels would be gone after some thousand rounds
	// and R be diagonal, which is less work.
	belief, err := New(dim, 1, 1-1e-9)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	phi := make([]float64, 1000*dim)
	for i := range phi {
		phi[i] = rng.NormFloat64()
	}
	for i := range 500 {
		if err := belief.Update(phi[i*dim:(i+1)*dim], rng.NormFloat64(), 1); err != nil {
			b.Fatal(err)
		}
	}
	return belief, phi
}

var sink float64

func BenchmarkBelief(b *testing.B) {
	for _, dim := range []int{50, 256} {
		belief, phi := benchBelief(b, dim)
		exact := belief.Clone()
		exact.exact = true
		z, invR, samples := make([]float64, dim), make([]float64, dim*dim), make([]float64, 128*dim)
		bounds, rewards, one := make([]float64, 256), make([]float64, 1000), phi[:dim]
		rng := rand.New(rand.NewPCG(3, 4))
		for _, c := range []struct {
			name string
			run  func()
		}{
			{"Update", func() { _ = belief.Update(one, 1, 0.5) }},
			{"UpdateAndDowndate", func() { _ = belief.Update(one, 1, 0.5); _ = belief.Downdate(one, 1, 0.5) }},
			{"UpdateBatchOf1000", func() { _ = belief.UpdateBatch(phi, rewards, nil) }},
			{"Forget", belief.Forget},
			{"ForgetExactly", exact.Forget},
			{"Mean", func() { belief.meanKnown = false; belief.Mean(z) }},
			{"DGap", func() { sink = DGap(belief.NormSq(one), 0.5) }},
			{"LogDet", func() { sink = belief.LogDet() }},
			{"UCBOf256", func() { belief.UCB(bounds, phi[:256*dim], 256, 1) }},
			{"Solve", func() { copy(z, phi); solve(belief.r, z) }},
			{"InvR", func() { belief.InvR(invR) }},
			{"SampleEllipsoid", func() { belief.SampleEllipsoid(z, 2, rng) }},
			{"SampleEllipsoidOf128", func() { belief.SampleEllipsoid(samples, 2, rng) }},
			{"SampleGaussian", func() { belief.SampleGaussian(z, 1, rng) }},
			{"Hash", func() { sink = float64(belief.Hash()) }},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, dim), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.run()
				}
			})
		}
	}
}
