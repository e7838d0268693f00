package tflite

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/posterior"
)

func TestSearch_SkipsWorkOnTrainedModels(t *testing.T) {
	for _, name := range []string{"cheetah", "walker"} {
		dir := filepath.Join("..", "..", "shared", name)
		if _, err := os.Stat(dir); err != nil {
			t.Skipf("no reference checkpoint %s: %v", name, err)
		}
		b, err := LoadDir(dir)
		fatal.If(t, err)
		states := observations(t, dir, b.Dims().Obs)
		n, err := b.NewNetwork()
		fatal.If(t, err)
		counts, searches, candidates := []int{0, 100, 1000}, 30, 128
		if emulated() {
			counts, searches, candidates = []int{100}, 1, 32
		}
		for _, labels := range counts {
			work := 0
			for seed := range uint64(searches) {
				rng := rand.New(rand.NewPCG(seed, 1))
				belief, zs := afterLabels(t, n, states, labels, candidates, rng)
				obs := states[rng.IntN(len(states))]
				for range 2 { // the first one chooses the second's leading member, as consecutive plans do
					if _, _, err := n.Search(obs, zs, belief); err != nil {
						t.Fatal(err)
					}
				}
				work += n.search.work
			}
			all := searches * candidates * b.Dims().Ensemble
			t.Logf("%s after %d labels: Search skips %.0f %% of the members' evaluations",
				name, labels, 100*(1-float64(work)/float64(all)))
			if work >= all {
				t.Errorf("%s after %d labels: Search skips nothing", name, labels)
			}
		}
	}
}

// emulated reports whether an emulator runs the tests, which is about 1000 times slower.
func emulated() bool { return os.Getenv("OPTIBFM_TEST_EMULATED") != "" }

func observations(t *testing.T, dir string, width int) (states [][]float32) {
	t.Helper()
	archive, err := npz.ReadFile(filepath.Join(dir, "obs.npz"))
	fatal.If(t, err)
	for name := range archive {
		array, err := archive.Get(name)
		fatal.If(t, err)
		all, err := array.Float32s()
		fatal.If(t, err)
		for ; len(all) >= width; all = all[width:] {
			states = append(states, all[:width])
		}
	}
	return states
}

// afterLabels returns the belief after labels of a random linear reward, and the
// candidates that the ucb strategy draws from it at β = 1. It uses B instead of φ, which
// needs a cov_b.
func afterLabels(t *testing.T, n *Network, states [][]float32, labels, count int, rng *rand.Rand) (Belief, []float32) {
	t.Helper()
	d := n.arch.Latent
	belief, err := posterior.New(d, 1, 1)
	fatal.If(t, err)
	task, phi := make([]float64, d), make([]float64, d)
	for i := range task {
		task[i] = rng.NormFloat64()
	}
	for range labels {
		fatal.If(t, n.Backward(phi, states[rng.IntN(len(states))]))
		reward := 0.0
		for i, x := range phi {
			reward += x * task[i]
		}
		fatal.If(t, belief.Update(phi, reward, 1))
	}
	mean, invR, z := make([]float64, d), make([]float64, d*d), make([]float64, d)
	belief.Mean(mean)
	belief.InvR(invR)
	var zs []float32
	for range count {
		belief.SampleEllipsoid(z, 2, rng)
		zs = append(zs, narrow(z)...)
	}
	return Belief{Mean: narrow(mean), InvR: narrow(invR), Beta: 1}, zs
}

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}
