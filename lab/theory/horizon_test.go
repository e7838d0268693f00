package theory

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"optibfm/internal/fatal"
)

func TestHorizon_FuturesAreTheMeanOfRollouts(t *testing.T) {
	const policy, state, rollouts = 77, 3, 20_000
	h := horizon{family: FamilyRandom, dim: 3, gamma: 0.7, steps: 4}
	m := h.process(2)
	s := solved(t, m)
	want, rng := make([][]float64, m.Dim), rand.New(rand.NewPCG(2, 2))
	for range rollouts {
		at, factor, sum := state, 1.0, make([]float64, m.Dim)
		for range h.steps {
			at = pick(rng, m.next(at, s.Action(policy, at)))
			for j, x := range m.phi(at) {
				sum[j] += factor * x
			}
			factor *= m.Gamma
		}
		for j, x := range sum {
			want[j] = append(want[j], x)
		}
	}
	psi := h.futures(s)[(policy*m.States+state)*m.Dim:]
	for j := range m.Dim {
		mean, deviation := stat.MeanStdDev(want[j], nil)
		if math.Abs(psi[j]-mean) > 4*deviation/math.Sqrt(rollouts) {
			t.Errorf("feature %d: found %g, want %g", j, psi[j], mean)
		}
	}
	h.steps = 200 // γ^200 is below 1e-30
	for i, x := range h.futures(s) {
		if math.Abs(x-s.psi[i]) > 1e-9 {
			t.Fatalf("a long horizon: number %d is %g, without end %g", i, x, s.psi[i])
		}
	}
}

func TestHorizon_BoundMatchesTheFormula(t *testing.T) {
	h := horizon{dim: 2, gamma: 0.5, steps: 3, episodes: 10}
	const w, c = 1 / 0.09, 1 + 0.25 + 0.0625
	gain := 2 * math.Log(1+w*30/2)
	beta := 1 + math.Sqrt(gain+2*math.Log(10))
	want := 2*beta*0.3*math.Sqrt(c*10*3*w/math.Log(1+3*w)*gain) + 2*1.75
	if got := h.bound(); math.Abs(got-want) > 1e-9*want {
		t.Errorf("found %g, want %g", got, want)
	}
}

func TestHorizon_RegretStopsOnlyWithExactFutures(t *testing.T) {
	const seeds = 8
	exact := horizon{family: FamilyFork, dim: 4, gamma: 0.8, steps: 20, episodes: 300}
	returns, wrong := exact, exact
	returns.returns, wrong.offset = true, 3
	late := func(h horizon) (sum float64) {
		for seed := range uint64(seeds) {
			s := solved(t, h.process(seed))
			curve, err := h.run(s, h.futures(s), seed)
			fatal.If(t, err)
			if !slices.IsSorted(curve) || len(curve) != h.episodes {
				t.Fatalf("seed %d: the regret falls, or has %d episodes", seed, len(curve))
			}
			sum += (curve[299] - curve[199]) / seeds
		}
		return sum
	}
	if all := late(exact); all > exact.bound()/10 {
		t.Errorf("exact ψ: the last 100 episodes lose %g, the bound of all is %g", all, exact.bound())
	}
	if e, r, w := late(exact), late(returns), late(wrong); !(e < w && r < w && w > 20) {
		t.Errorf("the last 100 episodes lose %g, with labels of returns %g, with wrong ψ %g", e, r, w)
	}
}
