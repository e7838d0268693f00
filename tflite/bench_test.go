package tflite_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// The sizes of the paper's walker: 24 observations, 6 actions, d = 50.
var walker = tflite.Dims{Obs: 24, Action: 6, Latent: 50, Ensemble: 2}

func network(b *testing.B, hidden int) *tflite.Network {
	b.Helper()
	m := tflitetest.Manifest(walker)
	m.Architecture.F.Hidden, m.Architecture.Actor.Hidden, m.Architecture.B.Hidden = hidden, hidden, hidden
	bundle, err := tflite.New(m, tflitetest.Tensors(m.Architecture, 1))
	if err != nil {
		b.Fatal(err)
	}
	n, err := bundle.NewNetwork()
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func benchmark(b *testing.B, call func(n *tflite.Network, rng *rand.Rand) func() error) {
	for _, hidden := range []int{256, 1024} {
		b.Run(fmt.Sprintf("hidden=%d", hidden), func(b *testing.B) {
			run := call(network(b, hidden), rand.New(rand.NewPCG(1, 1)))
			if err := run(); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
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

func BenchmarkSearch128(b *testing.B) {
	benchmark(b, func(n *tflite.Network, rng *rand.Rand) func() error {
		obs, candidates, belief := randoms32(rng, walker.Obs), randoms32(rng, 128*walker.Latent), knowing(rng, walker.Latent, 1)
		return func() error {
			_, _, err := n.Search(obs, candidates, belief)
			return err
		}
	})
}
