package tflite_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

func TestScorer_AgreesWithSearch(t *testing.T) {
	dims := tflite.Dims{Obs: 5, Action: 2, Latent: 19, Ensemble: 3}
	network, scorer := tflitetest.Network(dims, 1), tflite.NewScorer(dims.Latent)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 31} {
		obs, candidates := tflitetest.Randoms(rng, dims.Obs), tflitetest.Randoms(rng, n*dims.Latent)
		belief := randomBelief(rng, dims.Latent, 0.7)
		psi := psiOfAll(t, network, obs, candidates)
		best, score, err := scorer.Best(psi, dims.Ensemble, belief)
		fatal.If(t, err)
		wantBest, wantScore, err := network.Search(obs, candidates, belief)
		fatal.If(t, err)
		if best != wantBest || math.Abs(float64(score-wantScore)) > 1e-5*math.Abs(float64(wantScore)) {
			t.Errorf("%d candidates: %d with %g, want %d with %g", n, best, score, wantBest, wantScore)
		}
	}
}

// psiOfAll evaluates ψ of every candidate at its action, [E, n, d].
func psiOfAll(t *testing.T, m tflite.Evaluator, obs, candidates []float32) []float32 {
	t.Helper()
	dims := m.Dims()
	d := dims.Latent
	n := len(candidates) / d
	all, one := make([]float32, dims.Ensemble*n*d), make([]float32, dims.Ensemble*d)
	action, z := make([]float32, dims.Action), make([]float64, d)
	for i := range n {
		for k := range z {
			z[k] = float64(candidates[i*d+k])
		}
		fatal.If(t, m.Act(action, obs, z))
		fatal.If(t, m.Psi(one, obs, action, z))
		for e := range dims.Ensemble {
			copy(all[(e*n+i)*d:][:d], one[e*d:])
		}
	}
	return all
}

func TestScorer_RejectsBadInputsAndDoesNotAllocate(t *testing.T) {
	scorer := tflite.NewScorer(2)
	belief := tflite.Belief{Mean: []float32{1, 0}, InvR: []float32{1, 0, 0, 1}, Beta: 1}
	infinite := []float32{1, 2, float32(math.Inf(1)), 0}
	for name, call := range map[string]func() error{
		"no ψ":         func() error { _, _, err := scorer.Best(nil, 1, belief); return err },
		"part of ψ":    func() error { _, _, err := scorer.Best(infinite[:1], 1, belief); return err },
		"no member":    func() error { _, _, err := scorer.Best(infinite[:2], 0, belief); return err },
		"infinite ψ":   func() error { _, _, err := scorer.Best(infinite, 2, belief); return err },
		"short belief": func() error { _, _, err := scorer.Best(infinite[:2], 1, tflite.Belief{}); return err },
	} {
		errtest.NotNil(t, call(), name)
	}
	psi := []float32{1, 2, 2, 1, 0, 0}
	if allocs := testing.AllocsPerRun(20, func() {
		if best, _, err := scorer.Best(psi, 1, belief); err != nil || best != 1 {
			t.Fatal(best, err)
		}
	}); allocs != 0 {
		t.Errorf("%g allocations", allocs)
	}
}
