package eval

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"optibfm/tflite"
)

// errorUnits is the width of the hidden layer of the error network.
const errorUnits = 64

// inaccurate is a model with wrong successor features: ψ + α·MLP(z), where the MLP is random, has
// one hidden layer and is the same for every member of the ensemble. Its units are ReLUs and its
// output is scaled to the norm 1, as in the paper; or they are tanh and the output is not scaled.
// Policies and features are those of the model.
type inaccurate struct {
	tflite.Evaluator
	alpha  float64
	tanh   bool
	in     []float64 // [units, d]
	out    []float64 // [d, units]
	hidden []float64

	action []float32
	psi    []float32 // [E, d]
	z      []float64
	wrong  []float64 // MLP(z)
	sum    []float64 // ψ of a member with the error
}

func newInaccurate(m tflite.Evaluator, alpha float64, network string, random *rand.Rand) *inaccurate {
	d := m.Dims()
	return &inaccurate{
		Evaluator: m, alpha: alpha, tanh: network == errorTanh,
		in:     gaussian(errorUnits*d.Latent, 1/math.Sqrt(float64(d.Latent)), random),
		out:    gaussian(d.Latent*errorUnits, 1/math.Sqrt(errorUnits), random),
		hidden: make([]float64, errorUnits), action: make([]float32, d.Action),
		psi: make([]float32, d.Ensemble*d.Latent), z: make([]float64, d.Latent),
		wrong: make([]float64, d.Latent), sum: make([]float64, d.Latent),
	}
}

// sampled is a model whose actions are samples about the policy's mean: N(π_z(s), std²), clipped
// to [-1, 1].
type sampled struct {
	tflite.Evaluator
	std    float64
	random *rand.Rand
}

// Act implements tflite.Model.
func (m sampled) Act(dst, obs []float32, z []float64) error {
	if err := m.Evaluator.Act(dst, obs, z); err != nil {
		return err
	}
	for i, x := range dst {
		dst[i] = float32(max(-1, min(float64(x)+m.std*m.random.NormFloat64(), 1)))
	}
	return nil
}

func gaussian(n int, std float64, random *rand.Rand) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = std * random.NormFloat64()
	}
	return x
}

// Search implements tflite.Model with the wrong successor features.
func (n *inaccurate) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	d := len(n.z)
	if len(candidates) == 0 || len(candidates)%d != 0 {
		return 0, 0, fmt.Errorf("eval: search: %d numbers do not divide into candidates of %d", len(candidates), d)
	}
	highest := math.Inf(-1)
	for i := range len(candidates) / d {
		for k := range n.z {
			n.z[k] = float64(candidates[i*d+k])
		}
		s, err := n.score(obs, belief)
		if err != nil {
			return 0, 0, err
		}
		if s > highest {
			best, highest = i, s
		}
	}
	return best, float32(highest), nil
}

// score returns the minimum over the ensemble of ψᵀẑ + β‖R⁻ᵀψ‖ for n.z.
func (n *inaccurate) score(obs []float32, belief tflite.Belief) (float64, error) {
	if err := n.Act(n.action, obs, n.z); err != nil {
		return 0, err
	}
	if err := n.Psi(n.psi, obs, n.action, n.z); err != nil {
		return 0, err
	}
	n.computeError()
	d, least := len(n.z), math.Inf(1)
	for m := 0; m < len(n.psi); m += d {
		for k := range n.sum {
			n.sum[k] = float64(n.psi[m+k]) + n.alpha*n.wrong[k]
		}
		least = min(least, bound(n.sum, belief))
	}
	return least, nil
}

// computeError writes MLP(√d·z/‖z‖) to n.wrong.
func (n *inaccurate) computeError() {
	d := len(n.z)
	scale := math.Sqrt(float64(d)) / floats.Norm(n.z, 2)
	for u := range n.hidden {
		sum := 0.0
		for k, x := range n.z {
			sum += n.in[u*d+k] * x
		}
		if n.tanh {
			n.hidden[u] = math.Tanh(sum * scale)
		} else {
			n.hidden[u] = max(sum, 0)
		}
	}
	for k := range n.wrong {
		sum := 0.0
		for u, h := range n.hidden {
			sum += n.out[k*errorUnits+u] * h
		}
		n.wrong[k] = sum
	}
	if !n.tanh {
		normalise(n.wrong)
	}
}

// bound returns ψᵀẑ + β‖R⁻ᵀψ‖.
func bound(psi []float64, belief tflite.Belief) float64 {
	d, mean, square := len(psi), 0.0, 0.0
	for i, x := range psi {
		mean += x * float64(belief.Mean[i])
		y := 0.0
		for k := range i + 1 { // R⁻¹ is upper triangular
			y += float64(belief.InvR[k*d+i]) * psi[k]
		}
		square += y * y
	}
	return mean + float64(belief.Beta)*math.Sqrt(square)
}
