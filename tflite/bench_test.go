package tflite_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/fatal"
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
	fatal.If(b, err)
	n, err := bundle.NewNetwork(options...)
	fatal.If(b, err)
	return n
}

func benchmark(b *testing.B, call func(n *tflite.Network, rng *rand.Rand) func() error, options ...tflite.Option) {
	for _, hidden := range []int{256, 1024} {
		b.Run(fmt.Sprintf("hidden=%d", hidden), func(b *testing.B) {
			n := network(b, hidden, options...)
			defer n.Close()
			run := call(n, rand.New(rand.NewPCG(1, 1)))
			fatal.If(b, run())
			b.ReportAllocs()
			reportBest(b, run)
		})
	}
}

// reportBest also reports the shortest time and the shortest processor time, of all threads, which
// other programs disturb least.
func reportBest(b *testing.B, run func() error) {
	least, leastUsed := time.Duration(math.MaxInt64), int64(math.MaxInt64)
	for b.Loop() {
		start, used := time.Now(), processorTime(b)
		fatal.If(b, run())
		least, leastUsed = min(least, time.Since(start)), min(leastUsed, processorTime(b)-used)
	}
	b.ReportMetric(float64(least), "best-ns/op")
	b.ReportMetric(float64(leastUsed), "best-cpu-ns/op")
}

// processorTime returns the processor time of the process in nanoseconds.
func processorTime(b *testing.B) int64 {
	var t unix.Timespec
	fatal.If(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t))
	return t.Nano()
}

func BenchmarkPhi(b *testing.B) {
	benchmark(b, func(n *tflite.Network, rng *rand.Rand) func() error {
		obs, phi := tflitetest.Randoms(rng, walker.Obs), make([]float64, walker.Latent)
		return func() error { return n.Phi(phi, obs) }
	})
}

func BenchmarkAct(b *testing.B) {
	benchmark(b, func(n *tflite.Network, rng *rand.Rand) func() error {
		obs, z, action := tflitetest.Randoms(rng, walker.Obs), randoms64(rng, walker.Latent), make([]float32, walker.Action)
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
	d, width := n.Dims().Latent, n.Dims().Obs
	p, err := posterior.New(d, 1, 1)
	fatal.If(b, err)
	phi, mean, invR, z := make([]float64, d), make([]float64, d), make([]float64, d*d), make([]float64, d)
	for range labels {
		fatal.If(b, errors.Join(n.Backward(phi, tflitetest.Randoms(rng, width)), p.Update(phi, rng.NormFloat64(), 1)))
	}
	p.Mean(mean)
	p.InvR(invR)
	var candidates []float32
	for range count {
		p.SampleEllipsoid(z, 2, rng)
		candidates = append(candidates, tflitetest.Narrow(z)...)
	}
	obs := tflitetest.Randoms(rng, width)
	belief := tflite.Belief{Mean: tflitetest.Narrow(mean), InvR: tflitetest.Narrow(invR), Beta: 1}
	return func() error {
		_, _, err := n.Search(obs, candidates, belief)
		return err
	}
}

func BenchmarkGradient(b *testing.B) {
	benchmark(b, func(n *tflite.Network, rng *rand.Rand) func() error {
		obs, z := tflitetest.Randoms(rng, walker.Obs), tflitetest.Randoms(rng, walker.Latent)
		dz, belief := make([]float32, walker.Latent), randomBelief(rng, walker.Latent, 1)
		return func() error {
			_, err := n.Gradient(dz, obs, z, belief)
			return err
		}
	})
}

// publicModels have the sizes of public models: Meta Motivo S-1 and M-1 of HumEnv, BFM-Zero of the
// Unitree G1.
func publicModels() map[string]tflite.Architecture {
	motivo := tflite.Architecture{
		Obs: 358, Action: 69, Latent: 256, NormObs: true, NormZ: true,
		F:     tflite.ForwardArch{Hidden: 1024, HiddenLayers: 2, EmbeddingLayers: 2, NumParallel: 2},
		B:     tflite.BackArch{Hidden: 256, HiddenLayers: 1, Norm: true},
		Actor: tflite.ActorArch{Hidden: 1024, HiddenLayers: 2, EmbeddingLayers: 2},
	}
	medium := motivo
	medium.F.Hidden, medium.F.HiddenLayers, medium.F.Residual = 2048, 12, true
	medium.Actor.Hidden, medium.Actor.HiddenLayers, medium.Actor.Residual = 2048, 12, true
	zero := medium
	zero.Obs, zero.Action, zero.NormObs = 928, 29, false
	zero.Groups = []tflite.Group{
		{Name: "state", Size: 64, NormObs: true}, {Name: "privileged_state", Size: 463, NormObs: true},
		{Name: "last_action", Size: 29, NormObs: true}, {Name: "history_actor", Size: 372, NormObs: true},
	}
	zero.F.HiddenLayers, zero.F.EmbeddingLayers, zero.Actor.HiddenLayers = 6, 6, 6
	zero.F.Inputs = []string{"state", "privileged_state", "last_action", "history_actor"}
	zero.B.Inputs = []string{"state", "privileged_state"}
	zero.Actor.Inputs = []string{"state", "last_action", "history_actor"}
	return map[string]tflite.Architecture{"S-1": motivo, "M-1": medium, "BFM-Zero": zero}
}

// BenchmarkPublicSizes measures a tick's evaluations, φ and π, and a search among 128 candidates
// without labels.
func BenchmarkPublicSizes(b *testing.B) {
	for name, a := range publicModels() {
		m := tflitetest.Manifest(tflite.Dims{Obs: a.Obs, Action: a.Action, Latent: a.Latent, Ensemble: 2})
		m.Architecture = a
		b.Run(name, func(b *testing.B) {
			bundle, err := tflite.New(m, tflitetest.Tensors(a, 1))
			fatal.If(b, err)
			rng := rand.New(rand.NewPCG(1, 1))
			obs, z, phi := tflitetest.Randoms(rng, a.Obs), randoms64(rng, a.Latent), make([]float64, a.Latent)
			action := make([]float32, a.Action)
			for workers := 1; workers <= 2; workers++ {
				n, err := bundle.NewNetwork(tflite.Workers(workers))
				fatal.If(b, err)
				search := searchOf(b, n, 0, 128, rng)
				for what, call := range map[string]func() error{
					"tick":   func() error { return errors.Join(n.Phi(phi, obs), n.Act(action, obs, z)) },
					"search": search,
				} {
					if workers > 1 && what == "tick" {
						continue
					}
					b.Run(fmt.Sprintf("%s/workers=%d", what, workers), func(b *testing.B) {
						reportBest(b, call)
					})
				}
				n.Close()
			}
		})
	}
}
