package tflite_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// score is Search's score of z in float64.
func (r reference) score(obs []float32, z []float64, b tflite.Belief) float64 {
	d := len(z)
	psi := r.psiWide(obs, r.act(obs, z), z)
	least := math.Inf(1)
	for ; len(psi) > 0; psi = psi[d:] {
		var mean, squares float64
		for j := range d {
			mean += psi[j] * float64(b.Mean[j])
			x := 0.0
			for i := range j + 1 {
				x += float64(b.InvR[i*d+j]) * psi[i]
			}
			squares += x * x
		}
		least = min(least, mean+float64(b.Beta)*math.Sqrt(squares))
	}
	return least
}

func TestNetwork_GradientAgreesWithFiniteDifferences(t *testing.T) {
	for name, m := range architectures() {
		t.Run(name, func(t *testing.T) {
			tensors := tflitetest.Tensors(m.Architecture, 5)
			n, r, a := newNetwork(t, m, tensors), reference{m, tensors}, m.Architecture
			rng := rand.New(rand.NewPCG(4, 4))
			for range 8 {
				obs, z := tflitetest.Randoms(rng, a.Obs), tflitetest.Randoms(rng, a.Latent)
				belief := randomBelief(rng, a.Latent, []float32{0, 1, 3}[rng.IntN(3)])
				dz, wide := make([]float32, a.Latent), make([]float64, a.Latent)
				for i, x := range z {
					wide[i] = float64(x)
				}
				score, err := n.Gradient(dz, obs, z, belief)
				fatal.If(t, err)
				if want := r.score(obs, wide, belief); !(math.Abs(float64(score)-want) < 1e-4*(1+math.Abs(want))) {
					t.Errorf("score %g, want %g", score, want)
				}
				_, searched, err := n.Search(obs, z, belief)
				off := math.Abs(float64(score - searched))
				if err != nil || !(off < 1e-4*(1+math.Abs(float64(searched)))) {
					t.Errorf("score %g, Search has %g (%v)", score, searched, err)
				}
				want := r.slope(obs, wide, belief)
				largest := max(slices.Max(want), -slices.Min(want))
				for i, w := range want {
					if !(math.Abs(float64(dz[i])-w) <= 2e-4*largest) {
						t.Errorf("element %d is %g, want %g (the largest is %g)", i, dz[i], w, largest)
					}
				}
			}
		})
	}
}

// slope is the gradient of score by finite differences.
func (r reference) slope(obs []float32, z []float64, b tflite.Belief) []float64 {
	const h = 1e-6
	dz := make([]float64, len(z))
	for i, at := range z {
		z[i] = at + h
		up := r.score(obs, z, b)
		z[i] = at - h
		dz[i] = (up - r.score(obs, z, b)) / (2 * h)
		z[i] = at
	}
	return dz
}

func TestNetwork_GradientRejectsBadInputsAndDoesNotAllocate(t *testing.T) {
	n := tflitetest.Network(small, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	obs, z := tflitetest.Randoms(rng, small.Obs), tflitetest.Randoms(rng, small.Latent)
	dz, belief := make([]float32, small.Latent), randomBelief(rng, small.Latent, 1)
	if allocs := testing.AllocsPerRun(10, func() {
		fatal.If(t, errtest.Of(n.Gradient(dz, obs, z, belief)))
	}); allocs != 0 {
		t.Errorf("%g allocations", allocs)
	}
	bad := append([]float32{float32(math.NaN())}, obs[1:]...)
	errtest.Is(t, errtest.Of(n.Gradient(dz, bad, z, belief)), tflite.ErrNotFinite, "a NaN in the observation")
	if _, err := n.Gradient(dz, obs, make([]float32, small.Latent), belief); !errors.Is(err, tflite.ErrNoDirection) {
		t.Errorf("z = 0: %v", err)
	}
	for what, call := range map[string]func() error{
		"dz": func() error { _, err := n.Gradient(dz[1:], obs, z, belief); return err },
		"z":  func() error { _, err := n.Gradient(dz, obs, z[1:], belief); return err },
	} {
		errtest.NotNil(t, call(), what, " of a wrong length passed")
	}
}
