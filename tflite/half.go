package tflite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/x448/float16"
)

// maxHalf is the largest finite float16.
const maxHalf = 65504

// isLinear reports whether a tensor is the weights of a linear layer. A LayerNorm of an ensemble is
// [E, 1, h].
func isLinear(name string, shape []int) bool {
	return strings.HasSuffix(name, ".weight") && (len(shape) == 2 || len(shape) == 3 && shape[1] > 1)
}

// roundWeights rounds the weights of the linear layers to float16, in place.
func roundWeights(tensors map[string]Tensor) error {
	for name, t := range tensors {
		if !isLinear(name, t.Shape) || t.F16 != nil {
			continue
		}
		rounded := make([]float16.Float16, t.count())
		for i, x := range t.float32s() {
			if !(x >= -maxHalf && x <= maxHalf) {
				return fmt.Errorf("tensor %q: element %d (%g) is outside float16 (±%d); use --weights float32",
					name, i, x, maxHalf)
			}
			rounded[i] = float16.Fromfloat32(x)
		}
		tensors[name] = Tensor{Shape: t.Shape, F16: rounded}
	}
	return nil
}

// Difference returns the largest relative differences between the results of b and of reference, a
// model of the same sizes. It evaluates both at the first rows, cases in number, of observations
// [n, O], each with a random z. The reference uses Cov B over all observations.
func Difference(b, reference *Bundle, observations []float32, cases int) (Errors, error) {
	cov, err := reference.Covariance(observations)
	if err != nil {
		return Errors{}, err
	}
	d := reference.Dims()
	v := vectors{n: min(cases, len(observations)/d.Obs), obs: observations, cov: cov}
	v.z, v.phi = make([]float64, v.n*d.Latent), make([]float64, v.n*d.Latent)
	v.action, v.psi = make([]float32, v.n*d.Action), make([]float64, d.Ensemble*v.n*d.Latent)
	rng := rand.New(rand.NewPCG(1, 0))
	for i := range v.z {
		v.z[i] = rng.NormFloat64()
	}
	n, err := v.network(reference)
	if err != nil {
		return Errors{}, err
	}
	psi := make([]float32, d.Ensemble*d.Latent)
	for i := range v.n {
		obs, z := v.obs[i*d.Obs:][:d.Obs], v.z[i*d.Latent:][:d.Latent]
		action := v.action[i*d.Action:][:d.Action]
		err := errors.Join(n.Phi(v.phi[i*d.Latent:][:d.Latent], obs), n.Act(action, obs, z), n.Psi(psi, obs, action, z))
		if err != nil {
			return Errors{}, fmt.Errorf("observation %d: %w", i, err)
		}
		for j, x := range psi {
			v.psi[(j/d.Latent*v.n+i)*d.Latent+j%d.Latent] = float64(x)
		}
	}
	other, err := b.NewNetwork()
	if err != nil {
		return Errors{}, err
	}
	return v.compare(other)
}
