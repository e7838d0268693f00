package setup

import (
	"errors"
	"math/rand/v2"

	"optibfm/configs"
	"optibfm/internal/npz"
	"optibfm/tflite"
)

// RandomNormals draws vectors, the same ones in the same order.
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
