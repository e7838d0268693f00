// Package tflitetest makes small random forward-backward models for tests. They have
// the layers and pass the checks of trained models. It also imports reference checkpoints.
package tflitetest

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/tflite"
)

// Hidden is the width of the layers of the models made here.
const Hidden = 32

// Bundle returns a random model of the given sizes, the same for the same seed. It
// normalises z, has two embedding layers and one hidden layer. It panics for invalid
// sizes.
func Bundle(dims tflite.Dims, seed uint64) *tflite.Bundle {
	m := Manifest(dims)
	b, err := tflite.New(m, Tensors(m.Architecture, seed))
	if err != nil {
		panic(fmt.Sprintf("tflitetest: %v", err))
	}
	return b
}

// Network returns an evaluator of Bundle(dims, seed).
func Network(dims tflite.Dims, seed uint64) *tflite.Network {
	n, err := Bundle(dims, seed).NewNetwork()
	if err != nil {
		panic(fmt.Sprintf("tflitetest: %v", err))
	}
	return n
}

// Manifest returns the manifest of Bundle.
func Manifest(dims tflite.Dims) tflite.Manifest {
	return tflite.Manifest{
		Name:         "random",
		LayerNormEps: 1e-5,
		Gamma:        0.98,
		Architecture: tflite.Architecture{
			Obs: dims.Obs, Action: dims.Action, Latent: dims.Latent, NormZ: true,
			F:     tflite.ForwardArch{Hidden: Hidden, HiddenLayers: 1, EmbeddingLayers: 2, NumParallel: dims.Ensemble},
			B:     tflite.BackArch{Hidden: Hidden, HiddenLayers: 2, Norm: true},
			Actor: tflite.ActorArch{Hidden: Hidden, HiddenLayers: 1, EmbeddingLayers: 2},
		},
		Provenance: map[string]string{"source": "random numbers"},
	}
}

// Tensors returns random weights for an architecture, with a positive definite cov_b and,
// if the architecture has an observation normaliser, one that is not the identity. The
// variance of the weights keeps the variance of the signals.
func Tensors(a tflite.Architecture, seed uint64) map[string]tflite.Tensor {
	tensors := make(map[string]tflite.Tensor)
	var drawn sync.WaitGroup // a large model takes seconds
	for name, shape := range a.Tensors() {
		t := tflite.Tensor{Shape: shape, F32: make([]float32, elements(shape))}
		tensors[name] = t
		// Each tensor has its own random stream, independent of the order.
		drawn.Go(func() { draw(t, name, seed) })
	}
	drawn.Wait()
	tensors["cov_b"] = covariance(a.Latent, rand.New(rand.NewPCG(seed, hash("cov_b"))))
	return tensors
}

// draw fills a tensor with random numbers.
func draw(t tflite.Tensor, name string, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, hash(name)))
	mean, spread := moments(name, t.Shape)
	for i := range t.F32 {
		t.F32[i] = float32(mean + spread*rng.NormFloat64())
	}
	if strings.HasSuffix(name, "running_var") {
		for i, x := range t.F32 {
			t.F32[i] = 0.5 + x*x
		}
	}
}

// moments returns the mean and the standard deviation of a tensor's elements.
func moments(name string, shape []int) (mean, spread float64) {
	switch {
	case strings.HasSuffix(name, ".1.weight") && !strings.HasSuffix(name, ".mlp.1.weight"),
		strings.HasSuffix(name, ".mlp.0.weight"): // LayerNorm's gain
		return 1, 0.1
	case strings.HasSuffix(name, ".weight"): // [out, in] or [E, in, out]
		return 0, 1 / math.Sqrt(float64(shape[1]))
	}
	return 0, 0.1
}

// Randoms returns n normally distributed numbers.
func Randoms(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// Narrow converts numbers to float32.
func Narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// covariance returns I + AᵀA/d.
func covariance(d int, rng *rand.Rand) tflite.Tensor {
	a := make([]float64, d*d)
	for i := range a {
		a[i] = rng.NormFloat64()
	}
	t := tflite.Tensor{Shape: []int{d, d}, F64: make([]float64, d*d)}
	for i := range d {
		t.F64[i*d+i] = 1
		for j := range d {
			for k := range d {
				t.F64[i*d+j] += a[k*d+i] * a[k*d+j] / float64(d)
			}
		}
	}
	return t
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func hash(s string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, s)
	return h.Sum64()
}

// Imported returns a reference checkpoint (scripts/reference_checkpoint.py) with the Cov B of its
// observations, and its cases with whole observations.
func Imported(t testing.TB, folder string) (*tflite.Bundle, npz.Archive) {
	t.Helper()
	checkpoint, err := tflite.LoadDir(folder)
	fatal.If(t, err)
	a := checkpoint.Architecture
	read := func(file string) (archive npz.Archive, obs []float32, n int) {
		archive, err := npz.ReadFile(filepath.Join(folder, file))
		fatal.If(t, err)
		if obs, n, err = tflite.Observations(archive, a.Obs, a.Groups); err != nil {
			t.Fatal(err)
		}
		return archive, obs, n
	}
	_, obs, _ := read("obs.npz")
	out := filepath.Join(t.TempDir(), "bundle")
	fatal.If(t, tflite.Import(folder, obs, out, tflite.ImportOptions{}))
	b, err := tflite.LoadDir(out)
	fatal.If(t, err)
	vectors, obs, n := read("vectors.npz")
	vectors["obs"] = npz.Float32(obs, n, a.Obs)
	return b, vectors
}
