package tflite

import (
	"errors"
	"fmt"
	"math"

	"optibfm/internal/npz"
)

// Errors are the largest relative errors of a Check over all cases. The relative error
// of a case is max|x - y| / max|y|, where y is the expected value and the maxima are
// over the case's elements (for ψ: of all members).
type Errors struct {
	Phi, Action, Psi float64
	Cases            int
}

// Worst returns the largest of the three.
func (e Errors) Worst() float64 { return max(e.Phi, e.Action, e.Psi) }

// Observations returns the observations of an archive, [n, O]: the array obs, or for a model with
// groups the arrays obs/GROUP, [n, size].
func Observations(a npz.Archive, width int, groups []Group) (obs []float32, n int, err error) {
	if _, flat := a["obs"]; flat || len(groups) == 0 {
		array, err := a.Shaped("obs", -1, width)
		if err != nil {
			return nil, 0, err
		}
		obs, err = array.Float32s()
		return obs, array.Shape()[0], err
	}
	n = -1
	parts := make([][]float32, len(groups))
	for k, g := range groups {
		array, err := a.Shaped("obs/"+g.Name, n, g.Size)
		if err != nil {
			return nil, 0, err
		}
		if parts[k], err = array.Float32s(); err != nil {
			return nil, 0, fmt.Errorf("obs/%s: %w", g.Name, err)
		}
		n = array.Shape()[0]
	}
	obs = make([]float32, 0, n*width) // all groups have n rows
	for i := range n {
		for k, g := range groups {
			obs = append(obs, parts[k][i*g.Size:][:g.Size]...)
		}
	}
	return obs, n, nil
}

// Check evaluates the cases of a vectors file and compares the results. The file has obs [n, O] (or
// obs/GROUP, see Observations), z [n, d] and the expected phi [n, d], action [n, A] and psi [E, n,
// d], where psi is at the expected action. An optional cov_b [d, d] replaces the bundle's: it may
// come from other observations.
func Check(b *Bundle, vectors npz.Archive) (Errors, error) {
	v, err := readVectors(b.Dims(), b.Architecture.Groups, vectors)
	if err != nil {
		return Errors{}, err
	}
	n, err := v.network(b)
	if err != nil {
		return Errors{}, err
	}
	return v.compare(n)
}

// CheckEvaluator is Check for any model without groups. It ignores cov_b.
func CheckEvaluator(m Evaluator, vectors npz.Archive) (Errors, error) {
	v, err := readVectors(m.Dims(), nil, vectors)
	if err != nil {
		return Errors{}, err
	}
	return v.compare(m)
}

// compare evaluates the cases.
func (v vectors) compare(n Evaluator) (Errors, error) {
	d := n.Dims()
	phi, action, psi := make([]float64, d.Latent), make([]float32, d.Action), make([]float32, d.Ensemble*d.Latent)
	e := Errors{Cases: v.n}
	for i := range v.n {
		obs, z := v.obs[i*d.Obs:(i+1)*d.Obs], v.z[i*d.Latent:(i+1)*d.Latent]
		wantAction := v.action[i*d.Action : (i+1)*d.Action]
		err := errors.Join(n.Phi(phi, obs), n.Act(action, obs, z))
		if d.Ensemble > 0 {
			err = errors.Join(err, n.Psi(psi, obs, wantAction, z))
		}
		if err != nil {
			return Errors{}, fmt.Errorf("case %d: %w", i, err)
		}
		e.Phi = max(e.Phi, Relative(phi, v.phi[i*d.Latent:(i+1)*d.Latent]))
		e.Action = max(e.Action, Relative(action, wantAction))
		e.Psi = max(e.Psi, Relative(psi, v.psiOf(i, d)))
	}
	return e, nil
}

// vectors are the arrays of a vectors file, with their checked shapes.
type vectors struct {
	n           int
	obs, action []float32
	z, phi      []float64
	psi, cov    []float64
}

func readVectors(d Dims, groups []Group, a npz.Archive) (vectors, error) {
	var v vectors
	var err error
	if v.obs, v.n, err = Observations(a, d.Obs, groups); err != nil {
		return v, err
	}
	if v.n == 0 {
		return v, errors.New("the vectors have no cases")
	}
	var failed error
	shaped := func(name string, shape ...int) npz.Array {
		array, err := a.Shaped(name, shape...)
		failed = errors.Join(failed, err)
		return array
	}
	z, action := shaped("z", v.n, d.Latent), shaped("action", v.n, d.Action)
	phi, psi := shaped("phi", v.n, d.Latent), npz.Array{}
	if d.Ensemble > 0 {
		psi = shaped("psi", d.Ensemble, v.n, d.Latent)
	}
	if _, ok := a["cov_b"]; ok {
		v.cov = shaped("cov_b", d.Latent, d.Latent).Float64s()
	}
	if failed != nil {
		return v, failed
	}
	v.z, v.phi, v.psi = z.Float64s(), phi.Float64s(), psi.Float64s()
	v.action, err = action.Float32s()
	return v, err
}

// network returns an evaluator of b with the vectors' cov_b, if any.
func (v vectors) network(b *Bundle) (*Network, error) {
	n, err := b.NewNetwork()
	if err != nil || v.cov == nil {
		return n, err
	}
	other := *b.weights
	if other.cov, err = newCovariance(v.cov, b.Dims().Latent); err != nil {
		return nil, fmt.Errorf("vectors: %w", err)
	}
	n.weights = &other
	return n, nil
}

// psiOf gathers one case's psi, [E, d], from [E, n, d].
func (v vectors) psiOf(i int, d Dims) []float64 {
	var all []float64
	for m := range d.Ensemble {
		at := (m*v.n + i) * d.Latent
		all = append(all, v.psi[at:at+d.Latent]...)
	}
	return all
}

// Relative is max|x - y| / max|y|, or infinite if that is not a number.
func Relative[X, Y float32 | float64](x []X, y []Y) float64 {
	var difference, size float64
	for i := range y {
		difference = max(difference, math.Abs(float64(x[i])-float64(y[i])))
		size = max(size, math.Abs(float64(y[i])))
	}
	switch {
	case difference == 0:
		return 0
	case !(difference/size < math.Inf(1)):
		return math.Inf(1)
	}
	return difference / size
}
