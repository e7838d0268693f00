package setup

import (
	"errors"
	"math/rand/v2"

	"optibfm/configs"
	"optibfm/internal/npz"
	"optibfm/tflite"
)

// RandomNormals returns a function that draws vectors of n standard normals, the same ones in each
// run.
func RandomNormals() func(n int) []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	return func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
}

// CheckModel compares a model with recorded inputs and outputs (see tflite.Check).
func CheckModel(m Model, vectors npz.Archive) (e tflite.Errors, err error) {
	if native, ok := m.(NativeModel); ok {
		return tflite.Check(native.Bundle, vectors)
	}
	n, err := m.Evaluator(configs.Default())
	if err != nil {
		return tflite.Errors{}, err
	}
	defer func() { err = errors.Join(err, CloseModels(n)) }()
	return tflite.CheckEvaluator(n, vectors)
}
