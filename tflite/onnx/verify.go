package onnx

import (
	"errors"
	"math/rand/v2"
	"path/filepath"

	"optibfm/internal/npz"
	"optibfm/tflite"
)

// verifyCases is the number of random cases of Verify.
const verifyCases = 16

// Verify compares exported models with the bundle's networks at random inputs, as tflite.Check
// does. Without ONNX Runtime it returns ErrNoRuntime.
func Verify(dir string, b *tflite.Bundle) (tflite.Errors, error) {
	e := tflite.Errors{Cases: verifyCases}
	cases, err := randomCases(b)
	if err != nil {
		return e, err
	}
	for _, m := range []struct {
		name, file string
		into       *float64
	}{{"phi", PhiFile, &e.Phi}, {"action", PolicyFile, &e.Action}, {"psi", PsiFile, &e.Psi}} {
		want, ok := cases[m.name]
		if !ok {
			continue
		}
		results, err := Run(filepath.Join(dir, m.file), cases)
		if err != nil {
			return e, err
		}
		got, err := results.Shaped(m.name, want.Shape()...)
		if err != nil {
			return e, err
		}
		x, failedX := got.Float32s()
		y, failedY := want.Float32s()
		if err := errors.Join(failedX, failedY); err != nil {
			return e, err
		}
		*m.into = tflite.Relative(x, y)
	}
	return e, nil
}

// randomCases are observations and task embeddings with the results of the native networks. Without
// Cov B they have no phi.
func randomCases(b *tflite.Bundle) (npz.Archive, error) {
	n, err := b.NewNetwork()
	if err != nil {
		return nil, err
	}
	d, rng := b.Dims(), rand.New(rand.NewPCG(1, 2))
	random := func(count int) []float32 {
		x := make([]float32, count)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	obs, z := random(verifyCases*d.Obs), random(verifyCases*d.Latent)
	phi, action := make([]float64, verifyCases*d.Latent), make([]float32, verifyCases*d.Action)
	psi := make([]float32, d.Ensemble*verifyCases*d.Latent)
	for i := range verifyCases {
		o, wide, one := obs[i*d.Obs:(i+1)*d.Obs], make([]float64, d.Latent), make([]float32, d.Ensemble*d.Latent)
		for k := range wide {
			wide[k] = float64(z[i*d.Latent+k])
		}
		a := action[i*d.Action : (i+1)*d.Action]
		if err := n.Act(a, o, wide); err != nil {
			return nil, err
		}
		if d.Ensemble > 0 {
			if err := n.Psi(one, o, a, wide); err != nil {
				return nil, err
			}
		}
		for m := range d.Ensemble {
			copy(psi[(m*verifyCases+i)*d.Latent:], one[m*d.Latent:(m+1)*d.Latent])
		}
		if err := n.Phi(phi[i*d.Latent:(i+1)*d.Latent], o); err != nil && !errors.Is(err, tflite.ErrNoCovariance) {
			return nil, err
		}
	}
	cases := npz.Archive{
		"obs": npz.Float32(obs, verifyCases, d.Obs), "z": npz.Float32(z, verifyCases, d.Latent),
		"action": npz.Float32(action, verifyCases, d.Action),
	}
	if d.Ensemble > 0 {
		cases["psi"] = npz.Float32(psi, d.Ensemble, verifyCases, d.Latent)
	}
	if b.HasCovariance() {
		wide := make([]float32, len(phi))
		for i, x := range phi {
			wide[i] = float32(x)
		}
		cases["phi"] = npz.Float32(wide, verifyCases, d.Latent)
	}
	return cases, nil
}
