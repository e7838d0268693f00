package tflite_test

import (
	"fmt"

	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// A model of a directory would come from tflite.LoadDir.
func Example() {
	bundle := tflitetest.Bundle(tflite.Dims{Obs: 4, Action: 2, Latent: 3, Ensemble: 2}, 1)
	network, err := bundle.NewNetwork()
	if err != nil {
		fmt.Println(err)
		return
	}
	obs := []float32{0.1, 0.2, 0.3, 0.4}
	phi := make([]float64, 3)
	if err := network.Phi(phi, obs); err != nil {
		fmt.Println(err)
		return
	}
	candidates := []float32{
		1, 0, 0,
		0, 1, 0,
	}
	belief := tflite.Belief{
		Mean: []float32{0, 0, 0},
		InvR: []float32{1, 0, 0, 0, 1, 0, 0, 0, 1},
		Beta: 1,
	}
	best, _, err := network.Search(obs, candidates, belief)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(phi), "features; candidate", best, "is the most promising")
	// Output: 3 features; candidate 1 is the most promising
}
