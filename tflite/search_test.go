package tflite_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// randomBelief is a belief of random numbers, also below R⁻¹'s diagonal.
func randomBelief(rng *rand.Rand, d int, beta float32) tflite.Belief {
	return tflite.Belief{Mean: tflitetest.Randoms(rng, d), InvR: tflitetest.Randoms(rng, d*d), Beta: beta}
}

// bruteForce scores each candidate by Act and Psi, with bounds in float64.
func bruteForce(t *testing.T, n *tflite.Network, obs, candidates []float32, b tflite.Belief) []float64 {
	t.Helper()
	dims := n.Dims()
	d := dims.Latent
	var scores []float64
	for at := 0; at < len(candidates); at += d {
		z := make([]float64, d)
		for i := range z {
			z[i] = float64(candidates[at+i])
		}
		action, psi := make([]float32, dims.Action), make([]float32, dims.Ensemble*d)
		fatal.If(t, n.Act(action, obs, z))
		fatal.If(t, n.Psi(psi, obs, action, z))
		least := math.Inf(1)
		for m := range dims.Ensemble {
			least = min(least, upperBound(psi[m*d:(m+1)*d], b))
		}
		scores = append(scores, least)
	}
	return scores
}

// upperBound is ψᵀẑ + β‖R⁻ᵀψ‖.
func upperBound(psi []float32, b tflite.Belief) float64 {
	var mean, squares float64
	for j := range psi {
		mean += float64(psi[j]) * float64(b.Mean[j])
		x := 0.0
		for i := range j + 1 {
			x += float64(b.InvR[i*len(psi)+j]) * float64(psi[i])
		}
		squares += x * x
	}
	return mean + float64(b.Beta)*math.Sqrt(squares)
}

func TestSearch_AgreesWithBruteForce(t *testing.T) {
	counts := []int{1, 2, 63, 64, 65, 130}
	if testing.Short() {
		counts = []int{1, 65}
	}
	for name, m := range architectures() {
		n := newNetwork(t, m, tflitetest.Tensors(m.Architecture, 11))
		rng := rand.New(rand.NewPCG(8, 9))
		for _, count := range counts {
			for _, beta := range []float32{0, 0.7} {
				a := m.Architecture
				obs, candidates := tflitetest.Randoms(rng, a.Obs), tflitetest.Randoms(rng, count*a.Latent)
				belief := randomBelief(rng, a.Latent, beta)
				best, score, err := n.Search(obs, candidates, belief)
				fatal.If(t, err)
				scores := bruteForce(t, n, obs, candidates, belief)
				size := 0.0
				for _, s := range scores {
					size = max(size, math.Abs(s))
				}
				if !(math.Abs(float64(score)-scores[best]) < 1e-4*size) {
					t.Errorf("%s, n %d, β %g: score %g, want %g", name, count, beta, score, scores[best])
				}
				for i, s := range scores {
					if s > scores[best]+1e-4*size {
						t.Errorf("%s, n %d, β %g: candidate %d has %g, the best one %g",
							name, count, beta, i, s, scores[best])
					}
				}
			}
		}
	}
}

func TestSearch_TieGivesLowestIndex(t *testing.T) {
	n := tflitetest.Network(small, 1)
	rng := rand.New(rand.NewPCG(2, 2))
	one := tflitetest.Randoms(rng, small.Latent)
	var candidates []float32
	for range 70 {
		candidates = append(candidates, one...)
	}
	best, _, err := n.Search(tflitetest.Randoms(rng, small.Obs), candidates, randomBelief(rng, small.Latent, 1))
	if err != nil || best != 0 {
		t.Errorf("best %d, %v: want 0", best, err)
	}
}

func TestSearch_RepeatedGivesTheSameResult(t *testing.T) {
	n := tflitetest.Network(small, 1)
	rng := rand.New(rand.NewPCG(2, 2))
	obs, candidates := tflitetest.Randoms(rng, small.Obs), tflitetest.Randoms(rng, 5*small.Latent)
	belief := randomBelief(rng, small.Latent, 1)
	first, score, err := n.Search(obs, candidates, belief)
	fatal.If(t, err)
	again, scoreAgain, err := n.Search(obs, candidates, belief)
	if err != nil || first != again || score != scoreAgain {
		t.Errorf("%d with %g, then %d with %g (%v)", first, score, again, scoreAgain, err)
	}
}

func TestSearch_DoesNotAllocateForFewerCandidates(t *testing.T) {
	dims := tflite.Dims{Obs: 24, Action: 6, Latent: 50, Ensemble: 2}
	m := tflitetest.Manifest(dims)
	m.Architecture.F.Hidden, m.Architecture.Actor.Hidden = 512, 512
	n := newNetwork(t, m, tflitetest.Tensors(m.Architecture, 1))
	rng := rand.New(rand.NewPCG(2, 2))
	obs, candidates := tflitetest.Randoms(rng, dims.Obs), tflitetest.Randoms(rng, 128*dims.Latent)
	belief := randomBelief(rng, dims.Latent, 1)
	for _, count := range []int{128, 40} {
		if allocs := testing.AllocsPerRun(2, func() {
			if _, _, err := n.Search(obs, candidates[:count*dims.Latent], belief); err != nil {
				t.Fatal(err)
			}
		}); allocs != 0 {
			t.Errorf("n %d: %g allocations", count, allocs)
		}
	}
}
