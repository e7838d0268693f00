package tflite_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

var small = tflite.Dims{Obs: 5, Action: 3, Latent: 8, Ensemble: 2}

func randoms64(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// newNetwork returns the network of a bundle in memory.
func newNetwork(t testing.TB, m tflite.Manifest, tensors map[string]tflite.Tensor) *tflite.Network {
	t.Helper()
	b, err := tflite.New(m, tensors)
	fatal.If(t, err)
	n, err := b.NewNetwork()
	fatal.If(t, err)
	return n
}

// architectures vary each parameter of an architecture.
func architectures() map[string]tflite.Manifest {
	vary := func(change func(a *tflite.Architecture)) tflite.Manifest {
		m := tflitetest.Manifest(small)
		change(&m.Architecture)
		return m
	}
	flax := tflitetest.Manifest(small)
	flax.LayerNormEps = 1e-6
	type arch = *tflite.Architecture
	return map[string]tflite.Manifest{
		"default":         tflitetest.Manifest(small),
		"one member":      vary(func(a arch) { a.F.NumParallel = 1 }),
		"three members":   vary(func(a arch) { a.F.NumParallel = 3 }),
		"deep embeddings": vary(func(a arch) { a.F.EmbeddingLayers, a.Actor.EmbeddingLayers = 4, 3 }),
		"deep trunks":     vary(func(a arch) { a.F.HiddenLayers, a.Actor.HiddenLayers = 3, 2 }),
		"linear trunks":   vary(func(a arch) { a.F.HiddenLayers, a.Actor.HiddenLayers = 0, 0 }),
		"shallow B":       vary(func(a arch) { a.B.HiddenLayers = 1 }),
		"deep B":          vary(func(a arch) { a.B.HiddenLayers = 5 }),
		"unscaled B":      vary(func(a arch) { a.B.Norm = false }),
		"unscaled z":      vary(func(a arch) { a.NormZ = false }),
		"normalised obs":  vary(func(a arch) { a.NormObs = true }),
		"flax's eps":      flax,
		"narrow layers":   vary(func(a arch) { a.F.Hidden, a.B.Hidden = 2, 1 }),
		"partial tiles":   vary(func(a arch) { a.F.Hidden, a.Actor.Hidden = 146, 210 }),
		"one element":     vary(func(a arch) { a.Obs, a.Action, a.Latent = 1, 1, 1 }),
		"residual":        vary(func(a arch) { a.F.Residual, a.Actor.Residual, a.NormObs = true, true, true }),
		"residual F":      vary(func(a arch) { a.F.Residual, a.F.Hidden = true, 36 }),
		"residual actor":  vary(func(a arch) { a.Actor.Residual, a.Actor.Hidden = true, 70 }),
		"deep residual": vary(func(a arch) {
			a.F.Residual, a.F.HiddenLayers, a.F.EmbeddingLayers, a.F.NumParallel = true, 6, 5, 3
			a.Actor.Residual, a.Actor.HiddenLayers, a.Actor.EmbeddingLayers = true, 4, 3
		}),
		"linear residual": vary(func(a arch) {
			a.F.Residual, a.F.HiddenLayers, a.Actor.Residual, a.Actor.HiddenLayers = true, 0, true, 0
		}),
		"groups": vary(func(a arch) {
			a.Groups = []tflite.Group{
				{Name: "state", Size: 3, NormObs: true}, {Name: "extra", Size: 1}, {Name: "action", Size: 1},
			}
			a.F.Inputs, a.B.Inputs = []string{"action", "state", "extra"}, []string{"extra", "state"}
			a.Actor.Inputs, a.Actor.Residual = []string{"state", "action"}, true
		}),
	}
}

func TestNetwork_EveryArchitectureAgreesWithFloat64(t *testing.T) {
	for name, m := range architectures() {
		t.Run(name, func(t *testing.T) {
			a := m.Architecture
			tensors := tflitetest.Tensors(a, 7)
			n, r := newNetwork(t, m, tensors), reference{m, tensors}
			rng := rand.New(rand.NewPCG(1, 2))
			phi, back := make([]float64, a.Latent), make([]float64, a.Latent)
			action, psi := make([]float32, a.Action), make([]float32, a.F.NumParallel*a.Latent)
			for range 5 {
				obs, z := tflitetest.Randoms(rng, a.Obs), randoms64(rng, a.Latent)
				err := errors.Join(n.Phi(phi, obs), n.Backward(back, obs), n.Act(action, obs, z),
					n.Psi(psi, obs, action, z))
				fatal.If(t, err)
				wantB := r.backward(obs)
				var wantPhi mat.VecDense
				cov := mat.NewSymDense(a.Latent, tensors["cov_b"].F64)
				fatal.If(t, wantPhi.SolveVec(cov, mat.NewVecDense(a.Latent, wantB)))
				for what, e := range map[string]float64{
					"B": tflite.Relative(back, wantB), "φ": tflite.Relative(phi, wantPhi.RawVector().Data),
					"π": tflite.Relative(action, r.act(obs, z)), "ψ": tflite.Relative(psi, r.psi(obs, action, z)),
				} {
					if !(e < 1e-4) {
						t.Errorf("%s: relative error %g", what, e)
					}
				}
			}
		})
	}
}

func TestNetwork_NormZMakesActionScaleFree(t *testing.T) {
	n := tflitetest.Network(small, 1)
	rng := rand.New(rand.NewPCG(3, 4))
	obs, z := tflitetest.Randoms(rng, small.Obs), randoms64(rng, small.Latent)
	want := make([]float32, small.Action)
	fatal.If(t, n.Act(want, obs, z))
	for _, factor := range []float64{1e-8, 1e-3, 1e6, 1e200} {
		scaled := make([]float64, len(z))
		for i, x := range z {
			scaled[i] = factor * x
		}
		got := make([]float32, small.Action)
		if err := n.Act(got, obs, scaled); err != nil {
			t.Fatalf("times %g: %v", factor, err)
		}
		if e := tflite.Relative(got, want); !(e < 1e-5) {
			t.Errorf("times %g: relative difference %g", factor, e)
		}
	}
}

func TestNetwork_ZeroZIsErrNoDirection(t *testing.T) {
	n := tflitetest.Network(small, 1)
	obs, action := make([]float32, small.Obs), make([]float32, small.Action)
	z := make([]float64, small.Latent)
	z[2] = 1e-10
	errtest.Is(t, n.Act(action, obs, z), tflite.ErrNoDirection, "Act")
	psi := make([]float32, small.Ensemble*small.Latent)
	errtest.Is(t, n.Psi(psi, obs, action, z), tflite.ErrNoDirection, "Psi")
	_, _, err := n.Search(obs, make([]float32, 3*small.Latent), flatBelief(small.Latent))
	errtest.Is(t, err, tflite.ErrNoDirection, "Search")
}

// flatBelief is a belief without labels.
func flatBelief(d int) tflite.Belief {
	b := tflite.Belief{Mean: make([]float32, d), InvR: make([]float32, d*d), Beta: 1}
	for i := range d {
		b.InvR[i*d+i] = 1
	}
	return b
}

func TestNetwork_NonFiniteInputIsErrNotFinite(t *testing.T) {
	n := tflitetest.Network(small, 1)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		rng := rand.New(rand.NewPCG(5, 6))
		obs, badObs := tflitetest.Randoms(rng, small.Obs), tflitetest.Randoms(rng, small.Obs)
		z, badZ := randoms64(rng, small.Latent), randoms64(rng, small.Latent)
		action, badAction := make([]float32, small.Action), make([]float32, small.Action)
		candidates, badCandidates := tflitetest.Randoms(rng, 4*small.Latent), tflitetest.Randoms(rng, 4*small.Latent)
		badObs[1], badZ[2], badAction[0], badCandidates[9] = float32(bad), bad, float32(bad), float32(bad)
		badMean, badInvR, badBeta := flatBelief(small.Latent), flatBelief(small.Latent), flatBelief(small.Latent)
		badMean.Mean[1], badInvR.InvR[2], badBeta.Beta = float32(bad), float32(bad), float32(bad)
		phi, psi := make([]float64, small.Latent), make([]float32, small.Ensemble*small.Latent)
		search := func(obs, candidates []float32, b tflite.Belief) error {
			_, _, err := n.Search(obs, candidates, b)
			return err
		}
		for what, err := range map[string]error{
			"Phi obs": n.Phi(phi, badObs), "Act obs": n.Act(action, badObs, z), "Act z": n.Act(action, obs, badZ),
			"Psi obs": n.Psi(psi, badObs, action, z), "Psi z": n.Psi(psi, obs, action, badZ),
			"Psi action":        n.Psi(psi, obs, badAction, z),
			"Search obs":        search(badObs, candidates, flatBelief(small.Latent)),
			"Search candidates": search(obs, badCandidates, flatBelief(small.Latent)),
			"Search mean":       search(obs, candidates, badMean),
			"Search R⁻¹":        search(obs, candidates, badInvR),
			"Search β":          search(obs, candidates, badBeta),
		} {
			errtest.Is(t, err, tflite.ErrNotFinite, what, " with ", bad)
		}
	}
}

func TestNetwork_NonFiniteResultIsErrNotFinite(t *testing.T) {
	m := tflitetest.Manifest(small)
	tensors := tflitetest.Tensors(m.Architecture, 1)
	for _, name := range []string{
		"_actor.policy.0.weight", "_actor.policy.2.weight", "_forward_map.Fs.0.weight", "_forward_map.Fs.2.weight",
	} {
		for i := range tensors[name].F32 {
			tensors[name].F32[i] *= 1e37
		}
	}
	n := newNetwork(t, m, tensors)
	obs, z := make([]float32, small.Obs), randoms64(rand.New(rand.NewPCG(1, 1)), small.Latent)
	action, psi := make([]float32, small.Action), make([]float32, small.Ensemble*small.Latent)
	errtest.Is(t, n.Act(action, obs, z), tflite.ErrNotFinite, "Act")
	errtest.Is(t, n.Psi(psi, obs, make([]float32, small.Action), z), tflite.ErrNotFinite, "Psi")
}

func TestNetwork_WrongLengthIsAnError(t *testing.T) {
	n := tflitetest.Network(small, 1)
	obs, z, action := make([]float32, small.Obs), make([]float64, small.Latent), make([]float32, small.Action)
	psi := make([]float32, small.Ensemble*small.Latent)
	search := func(obs, candidates []float32, b tflite.Belief) error {
		_, _, err := n.Search(obs, candidates, b)
		return err
	}
	candidates := make([]float32, 2*small.Latent)
	for what, err := range map[string]error{
		"Phi dst": n.Phi(z[1:], obs), "Phi obs": n.Phi(z, obs[1:]),
		"Act dst": n.Act(action[1:], obs, z), "Act obs": n.Act(action, nil, z), "Act z": n.Act(action, obs, z[1:]),
		"Psi dst": n.Psi(psi[1:], obs, action, z), "Psi action": n.Psi(psi, obs, action[1:], z),
		"no candidates":       search(obs, nil, flatBelief(small.Latent)),
		"part of a candidate": search(obs, candidates[1:], flatBelief(small.Latent)),
		"short belief":        search(obs, candidates, tflite.Belief{}),
		"long belief":         search(obs, candidates, flatBelief(small.Latent+1)),
	} {
		errtest.NotNil(t, err, what)
	}
}

func TestNetwork_ConcurrentNetworksOfOneBundleAgree(t *testing.T) {
	b := tflitetest.Bundle(small, 3)
	obs, z := make([]float32, small.Obs), randoms64(rand.New(rand.NewPCG(1, 1)), small.Latent)
	var wait sync.WaitGroup
	actions := make([][]float32, 4)
	for i := range actions {
		wait.Go(func() {
			n, err := b.NewNetwork()
			actions[i] = make([]float32, small.Action)
			for range 20 {
				err = errors.Join(err, n.Act(actions[i], obs, z))
			}
			errtest.Nil(t, err)
		})
	}
	wait.Wait()
	for _, action := range actions[1:] {
		if tflite.Relative(action, actions[0]) != 0 {
			t.Errorf("%v and %v", action, actions[0])
		}
	}
}

func TestNetwork_PhiActPsiDoNotAllocate(t *testing.T) {
	for _, name := range []string{"default", "deep residual", "groups"} {
		t.Run(name, func(t *testing.T) { checkAllocations(t, architectures()[name]) })
	}
}

func checkAllocations(t *testing.T, m tflite.Manifest) {
	t.Helper()
	n := newNetwork(t, m, tflitetest.Tensors(m.Architecture, 1))
	obs, z := make([]float32, small.Obs), randoms64(rand.New(rand.NewPCG(1, 1)), small.Latent)
	bad := []float32{0, 0, float32(math.NaN()), 0, 0}
	phi, action := make([]float64, small.Latent), make([]float32, small.Action)
	psi := make([]float32, n.Dims().Ensemble*small.Latent)
	for what, call := range map[string]func() error{
		"Phi": func() error { return n.Phi(phi, obs) },
		"Act": func() error { return n.Act(action, obs, z) },
		"Psi": func() error { return n.Psi(psi, obs, action, z) },
	} {
		if allocs := testing.AllocsPerRun(100, func() { fatal.If(t, call()) }); allocs != 0 {
			t.Errorf("%s: %g allocations", what, allocs)
		}
	}
	if allocs := testing.AllocsPerRun(100, func() {
		if err := n.Act(action, bad, z); err == nil {
			t.Fatal("Act accepts NaN")
		}
	}); allocs != 0 {
		t.Errorf("rejecting an observation: %g allocations", allocs)
	}
}

func TestNetwork_ResultsDoNotDependOnAlignment(t *testing.T) {
	d := tflite.Dims{Obs: 21, Action: 6, Latent: 19, Ensemble: 2}
	rng := rand.New(rand.NewPCG(7, 7))
	obs, z, action := tflitetest.Randoms(rng, d.Obs), randoms64(rng, d.Latent), tflitetest.Randoms(rng, d.Action)
	belief, candidates := randomBelief(rng, d.Latent, 1), tflitetest.Randoms(rng, 9*d.Latent)
	type results struct {
		phi         [19]float64
		act         [6]float32
		psi         [38]float32
		best, score float32
	}
	var first results
	for offset := range 5 {
		n := tflitetest.Network(d, 2)
		shifted := tflite.Belief{Mean: shift(belief.Mean, offset), InvR: shift(belief.InvR, offset), Beta: 1}
		var r results
		best, score, err := n.Search(shift(obs, offset), shift(candidates, offset), shifted)
		o := shift(obs, offset)
		err = errors.Join(err, n.Phi(r.phi[:], o), n.Act(r.act[:], o, shift(z, offset)),
			n.Psi(r.psi[:], o, shift(action, offset), shift(z, offset)))
		fatal.If(t, err)
		r.best, r.score = float32(best), score
		if offset == 0 {
			first = r
		}
		if r != first {
			t.Errorf("shifted by %d elements the results differ", offset)
		}
	}
}

// shift copies x to an address that is offset elements higher.
func shift[T any](x []T, offset int) []T {
	return append(make([]T, offset, offset+len(x)), x...)[offset:]
}
