//go:build tensorflow

package tensorflow_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
	"optibfm/tflite/tflitetest"
)

type callResult struct {
	numbers []float64
	err     error
}

func widened(numbers []float32, err error) callResult {
	a := callResult{err: err}
	for _, x := range numbers {
		a.numbers = append(a.numbers, float64(x))
	}
	return a
}

// evaluate calls every method of a model once. It omits the best index: scores may tie.
func evaluate(m tflite.Evaluator, q searchInput) map[string]callResult {
	d := m.Dims()
	phi, z := make([]float64, d.Latent), slices.Repeat([]float64{1}, d.Latent)
	action, psi := make([]float32, d.Action), make([]float32, d.Ensemble*d.Latent)
	phiErr, actErr := m.Phi(phi, q.obs), m.Act(action, q.obs, z)
	psiErr := m.Psi(psi, q.obs, make([]float32, d.Action), z)
	_, best, searchErr := m.Search(q.obs, q.candidates, q.belief)
	return map[string]callResult{
		"phi": {phi, phiErr}, "act": widened(action, actErr), "psi": widened(psi, psiErr),
		"search": widened([]float32{best}, searchErr),
	}
}

func TestModel_LargeObservationGivesTheNativeResultOrErrNotFinite(t *testing.T) {
	for name, b := range bundles(t) {
		t.Run(name, func(t *testing.T) {
			m, n := open(t, b, onCPU(), 4), native(t, b)
			q := randomInput(b.Dims(), 4)
			rejected := 0
			for exponent := range 39 {
				q.obs[0] = float32(3 * math.Pow10(exponent))
				want := evaluate(n, q)
				for call, got := range evaluate(m, q) {
					if errors.Is(got.err, tflite.ErrNotFinite) {
						rejected++
						continue
					}
					if off := tflite.Relative(got.numbers, want[call].numbers); got.err != nil || !(off <= 1e-4) {
						t.Errorf("%s, obs 3e%d: %+v, natively %+v", call, exponent, got, want[call])
					}
				}
			}
			if rejected == 0 {
				t.Error("no observation overflows")
			}
		})
	}
}

func TestModel_OverflowInsideTheNetworksIsErrNotFinite(t *testing.T) {
	open(t, tflitetest.Bundle(small, 1), onCPU(), 1) // or skip
	// The first three give inf - inf to a ReLU, the last gives infinity to a tanh.
	for _, name := range []string{
		"_backward_map.net.3.weight", "_forward_map.embed_z.3.weight",
		"_actor.embed_z.3.weight", "_actor.policy.2.weight",
	} {
		t.Run(name, func(t *testing.T) {
			manifest := tflitetest.Manifest(small)
			tensors := tflitetest.Tensors(manifest.Architecture, 1)
			weights := tensors[name].F32
			for i, x := range weights {
				weights[i] = float32(math.Copysign(3e38, float64(x)))
			}
			b, err := tflite.New(manifest, tensors)
			fatal.If(t, err)
			q := randomInput(small, 4)
			phi := make([]float64, small.Latent)
			_, _, searchErr := native(t, b).Search(q.obs, q.candidates, q.belief)
			if phiErr := native(t, b).Phi(phi, q.obs); !errors.Is(errors.Join(searchErr, phiErr), tflite.ErrNotFinite) {
				t.Fatalf("natively: %v, %v", searchErr, phiErr)
			}
			m, err := tensorflow.New(b, onCPU(), 4) // New also searches
			if err == nil {
				err = errors.Join(m.Phi(phi, q.obs), m.Close())
			}
			errtest.Is(t, err, tflite.ErrNotFinite)
		})
	}
}
