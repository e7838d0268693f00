package posterior

import (
	"math/rand/v2"
	"testing"
)

const benchDim = 50

// benchBelief returns a belief of 50 dimensions after 500 labels.
func benchBelief(b *testing.B) (*Belief, []float64) {
	b.Helper()
	return benchBeliefOf(b, benchDim)
}

// benchBeliefOf returns a belief after 500 labels, and 1000 features.
func benchBeliefOf(b *testing.B, dim int) (*Belief, []float64) {
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
	b.ReportAllocs()
	b.ResetTimer()
	return belief, phi
}

func BenchmarkUpdate(b *testing.B) {
	belief, phi := benchBelief(b)
	for b.Loop() {
		_ = belief.Update(phi[:benchDim], 1, 0.5)
	}
}

func BenchmarkUpdateAndMean(b *testing.B) {
	belief, phi := benchBelief(b)
	z := make([]float64, benchDim)
	for b.Loop() {
		_ = belief.Update(phi[:benchDim], 1, 0.5)
		belief.Mean(z)
	}
}

// Each downdate needs an update before it.
func BenchmarkUpdateAndDowndate(b *testing.B) {
	belief, phi := benchBelief(b)
	for b.Loop() {
		_ = belief.Update(phi[:benchDim], 1, 0.5)
		_ = belief.Downdate(phi[:benchDim], 1, 0.5)
	}
}

func BenchmarkForget(b *testing.B) {
	belief, _ := benchBelief(b)
	for b.Loop() {
		belief.Forget()
	}
}

func BenchmarkForgetExactly(b *testing.B) {
	cyclic, _ := benchBelief(b)
	belief := cyclic.Clone()
	belief.exact = true
	for b.Loop() {
		belief.Forget()
	}
}

func BenchmarkMean(b *testing.B) {
	belief, _ := benchBelief(b)
	z := make([]float64, benchDim)
	for b.Loop() {
		belief.meanKnown = false
		belief.Mean(z)
	}
}

var sink float64

func BenchmarkDGap(b *testing.B) {
	belief, phi := benchBelief(b)
	for b.Loop() {
		sink = DGap(belief.NormSq(phi[:benchDim]), 0.5)
	}
}

func BenchmarkLogDet(b *testing.B) {
	belief, _ := benchBelief(b)
	for b.Loop() {
		sink = belief.LogDet()
	}
}

func BenchmarkUCBOf256(b *testing.B) {
	belief, phi := benchBelief(b)
	dst := make([]float64, 256)
	for b.Loop() {
		belief.UCB(dst, phi[:256*benchDim], 256, 1)
	}
}

func BenchmarkInvR(b *testing.B) {
	belief, _ := benchBelief(b)
	dst := make([]float64, benchDim*benchDim)
	for b.Loop() {
		belief.InvR(dst)
	}
}

func BenchmarkSampleEllipsoid(b *testing.B) {
	belief, _ := benchBelief(b)
	z, rng := make([]float64, benchDim), rand.New(rand.NewPCG(3, 4))
	for b.Loop() {
		belief.SampleEllipsoid(z, 2, rng)
	}
}

func BenchmarkSampleEllipsoidOf128(b *testing.B) {
	belief, _ := benchBelief(b)
	z, rng := make([]float64, 128*benchDim), rand.New(rand.NewPCG(3, 4))
	for b.Loop() {
		belief.SampleEllipsoid(z, 2, rng)
	}
}

func BenchmarkSampleGaussian(b *testing.B) {
	belief, _ := benchBelief(b)
	z, rng := make([]float64, benchDim), rand.New(rand.NewPCG(3, 4))
	for b.Loop() {
		belief.SampleGaussian(z, 1, rng)
	}
}

func BenchmarkHash(b *testing.B) {
	belief, _ := benchBelief(b)
	var h uint64
	for b.Loop() {
		h ^= belief.Hash()
	}
	sink = float64(h)
}

func BenchmarkBatchOf1000(b *testing.B) {
	belief, phi := benchBelief(b)
	reward := make([]float64, 1000)
	for b.Loop() {
		_ = belief.UpdateBatch(phi, reward, nil)
	}
}

func BenchmarkBatchOf1000OneByOne(b *testing.B) {
	belief, phi := benchBelief(b)
	for b.Loop() {
		for i := range 1000 {
			_ = belief.Update(phi[i*benchDim:(i+1)*benchDim], 0, 1)
		}
	}
}

// BenchmarkWide measures a belief of 256 dimensions.
func BenchmarkWide(b *testing.B) {
	const dim = 256
	belief, phi := benchBeliefOf(b, dim)
	z, invR, samples := make([]float64, dim), make([]float64, dim*dim), make([]float64, 128*dim)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"Update", func() { _ = belief.Update(phi[:dim], 1, 0.5) }},
		{"UpdateAndDowndate", func() {
			_ = belief.Update(phi[:dim], 1, 0.5)
			_ = belief.Downdate(phi[:dim], 1, 0.5)
		}},
		{"Solve", func() {
			copy(z, phi)
			solve(belief.r, z)
		}},
		{"NormSq", func() { sink = belief.NormSq(phi[:dim]) }},
		{"InvR", func() { belief.InvR(invR) }},
		{"SampleEllipsoid", func() { belief.SampleEllipsoid(z, 2, rng) }},
		{"SampleEllipsoidOf128", func() { belief.SampleEllipsoid(samples, 2, rng) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.run()
			}
		})
	}
}

func BenchmarkSolve(b *testing.B) {
	belief, phi := benchBelief(b)
	z := make([]float64, benchDim)
	for b.Loop() {
		copy(z, phi)
		solve(belief.r, z)
	}
}
