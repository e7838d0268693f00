package tflite

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"optibfm/internal/fatal"
)

// randomBundle has layers of widths that fill no panel or tile. Odd seeds make residual networks.
func randomBundle(t testing.TB, members int, seed uint64) *Bundle {
	t.Helper()
	m, _ := tiny()
	a := &m.Architecture
	a.F.Residual, a.Actor.Residual = seed%2 == 1, seed%2 == 1
	a.Obs, a.Action, a.Latent, a.NormZ = 3, 2, 5, true
	a.F.Hidden, a.F.NumParallel, a.Actor.Hidden, a.B.Hidden = 22, members, 38, 17
	rng := rand.New(rand.NewPCG(seed, 1))
	tensors := map[string]Tensor{covName: {Shape: []int{5, 5}, F64: make([]float64, 25)}}
	for i := range 5 {
		tensors[covName].F64[i*5+i] = 1
	}
	for name, shape := range a.Tensors() {
		values := make([]float32, elements(shape))
		for i := range values {
			values[i] = float32(rng.NormFloat64()) / 3
			if name == varName {
				values[i] = 1
			}
		}
		tensors[name] = Tensor{Shape: shape, F32: values}
	}
	m.Observation, m.Action = nil, nil
	b, err := New(m, tensors)
	fatal.If(t, err)
	return b
}

// fullSearch evaluates every member for every candidate, one at a time.
func fullSearch(t testing.TB, n *Network, obs, candidates []float32, belief Belief) (best int, score float32) {
	t.Helper()
	d, members := n.arch.Latent, len(n.weights.f)
	n.growSearch(1)
	n.search.bounds.set(belief)
	action, psi := make([]float32, n.arch.Action), make([]float32, members*d)
	z, bound := make([]float64, d), make([]float32, 1)
	for i := range len(candidates) / d {
		for k := range z {
			z[k] = float64(candidates[i*d+k])
		}
		fatal.If(t, n.Act(action, obs, z))
		fatal.If(t, n.Psi(psi, obs, action, z))
		least := float32(math.Inf(1))
		for m := range members {
			s := &n.search
			copy(s.psi.Row(0, d), psi[m*d:])
			fatal.If(t, s.bounds.apply(bound, s.psi, s.whitened, &s.scratch))
			least = min(least, bound[0])
		}
		if i == 0 || least > score {
			best, score = i, least
		}
	}
	return best, score
}

func TestSearch_EqualsFullEvaluationBitForBit(t *testing.T) {
	searches, rounds := 0, 120
	if testing.Short() {
		rounds = 20
	}
	for members := 1; members <= 3; members++ {
		for seed := range uint64(4) {
			b := randomBundle(t, members, seed)
			alone, err := b.NewNetwork()
			fatal.If(t, err)
			var nets []*Network
			for workers := 1; workers <= 3; workers++ {
				n, err := b.NewNetwork(Workers(workers))
				fatal.If(t, err)
				defer n.Close()
				nets = append(nets, n)
			}
			rng := rand.New(rand.NewPCG(seed, 2))
			for range rounds {
				count := []int{1, 2, 7, 13, 40, 61}[rng.IntN(6)]
				obs, candidates := gaussians(rng, 3), gaussians(rng, count*5)
				for range rng.IntN(4) * count / 4 { // candidates that tie
					copy(candidates[rng.IntN(count)*5:][:5], candidates[rng.IntN(count)*5:])
				}
				beta := []float32{0, 0.3, 1, 1e4}[rng.IntN(4)]
				belief := Belief{Mean: gaussians(rng, 5), InvR: gaussians(rng, 25), Beta: beta}
				if rng.IntN(10) == 0 {
					clear(belief.Mean) // with β = 0 all scores tie
				}
				best, score := fullSearch(t, alone, obs, candidates, belief)
				for i, n := range nets {
					got, gotScore, err := n.Search(obs, candidates, belief)
					fatal.If(t, err)
					if got != best || gotScore != score {
						t.Fatalf("%d members, %d candidates, β %g, %d workers: candidate %d with %v, want %d with %v",
							members, count, belief.Beta, i+1, got, gotScore, best, score)
					}
					if n.search.work != nets[0].search.work {
						t.Fatalf("%d workers: %d evaluations, want %d", i+1, n.search.work, nets[0].search.work)
					}
				}
				searches += len(nets)
			}
		}
	}
	t.Logf("%d searches", searches)
}

func gaussians(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func TestNetwork_SearchesAfterClose(t *testing.T) {
	n, err := randomBundle(t, 2, 1).NewNetwork(Workers(3))
	fatal.If(t, err)
	rng := rand.New(rand.NewPCG(3, 3))
	obs, candidates := gaussians(rng, 3), gaussians(rng, 50*5)
	belief := Belief{Mean: gaussians(rng, 5), InvR: gaussians(rng, 25), Beta: 1}
	var seen []string
	for range 3 {
		best, score, err := n.Search(obs, candidates, belief)
		fatal.If(t, err)
		seen = append(seen, fmt.Sprint(best, score))
		n.Close()
		n.Close()
	}
	if seen[0] != seen[1] || seen[1] != seen[2] {
		t.Error(seen)
	}
}
