package tflite_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"optibfm/posterior"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// The sizes of the paper's walker: 24 observations, 6 actions, d = 50.
var walker = tflite.Dims{Obs: 24, Action: 6, Latent: 50, Ensemble: 2}

func network(b *testing.B, hidden int, options ...tflite.Option) *tflite.Network {
	b.Helper()
	m := tflitetest.Manifest(walker)
	m.Architecture.F.Hidden, m.Architecture.Actor.Hidden, m.Architecture.B.Hidden = hidden, hidden, hidden
	bundle, err := tflite.New(m, tflitetest.Tensors(m.Architecture, 1))
	if err != nil {
		b.Fatal(err)
	}
	n, err := bundle.NewNetwork(options...)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func benchmark(b *testing.B, call func(n *tflite.Network, rng *rand.Rand) func() error, options ...tflite.Option) {
	for _, hidden := range []int{256, 1024} {
		b.Run(fmt.Sprintf("hidden=%d", hidden), func(b *testing.B) {
			n := network(b, hidden, options...)
			defer n.Close()
			run := call(n, rand.New(rand.NewPCG(1, 1)))
			if err := run(); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			// The shortest time is the least disturbed by other programs.
			least := time.Duration(math.MaxInt64)
			for b.Loop() {
				start := time.Now()
				if err := run(); err != nil {
					b.Fatal(err)
				}
				least = min(least, time.Since(start))
			}
			b.ReportMetric(float64(least), "best-ns/op")
		})
	}
}

func BenchmarkPhi(b *testing.B) {
	benchmark(b, func(n *tflite.Network, rng *rand.Rand) func() error {
		obs, phi := randoms32(rng, walker.Obs), make([]float64, walker.Latent)
		return func() error { return n.Phi(phi, obs) }
	})
}

func BenchmarkAct(b *testing.B) {
	benchmark(b, func(n *tflite.Network, rng *rand.Rand) func() error {
		obs, z, action := randoms32(rng, walker.Obs), randoms64(rng, walker.Latent), make([]float32, walker.Action)
		return func() error { return n.Act(action, obs, z) }
	})
}

// BenchmarkSearch has the candidates that the ucb strategy draws without labels and after 100.
// More labels make the candidates more similar, so they share more inactive units.
func BenchmarkSearch(b *testing.B) {
	for _, labels := range []int{0, 100} {
		for _, n := range []int{128, 512} {
			for _, workers := range []int{1, 2} {
				b.Run(fmt.Sprintf("labels=%d/n=%d/workers=%d", labels, n, workers), func(b *testing.B) {
					search := func(m *tflite.Network, rng *rand.Rand) func() error {
						return searchOf(b, m, labels, n, rng)
					}
					benchmark(b, search, tflite.Workers(workers))
				})
			}
		}
	}
}

func searchOf(b *testing.B, n *tflite.Network, labels, count int, rng *rand.Rand) func() error {
	d := walker.Latent
	p, err := posterior.New(d, 1, 1)
	if err != nil {
		b.Fatal(err)
	}
	phi, mean, invR, z := make([]float64, d), make([]float64, d), make([]float64, d*d), make([]float64, d)
	for range labels {
		err := errors.Join(n.Backward(phi, randoms32(rng, walker.Obs)), p.Update(phi, rng.NormFloat64(), 1))
		if err != nil {
			b.Fatal(err)
		}
	}
	p.Mean(mean)
	p.InvR(invR)
	var candidates []float32
	for range count {
		p.SampleEllipsoid(z, 2, rng)
		candidates = append(candidates, narrow(z)...)
	}
	obs, belief := randoms32(rng, walker.Obs), tflite.Belief{Mean: narrow(mean), InvR: narrow(invR), Beta: 1}
	return func() error {
		_, _, err := n.Search(obs, candidates, belief)
		return err
	}
}

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func BenchmarkGradient(b *testing.B) {
	benchmark(b, func(n *tflite.Network, rng *rand.Rand) func() error {
		obs, z := randoms32(rng, walker.Obs), randoms32(rng, walker.Latent)
		dz, belief := make([]float32, walker.Latent), randomBelief(rng, walker.Latent, 1)
		return func() error {
			_, err := n.Gradient(dz, obs, z, belief)
			return err
		}
	})
}
