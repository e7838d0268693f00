// Belief uses package posterior as a library: a linear-Gaussian belief about the reward of a task,
// without a robot, a model or a clock.
//
//	go run ./examples/belief
//
// Rewards are linear in features, r = φᵀz. Labels come from a hidden z with noise. The program
// shows how the mean approaches z, how little a further label teaches (the D-gap), and that an undo
// removes a label exactly.
package main

import (
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"optibfm/posterior"
)

const (
	dim    = 4
	sigma  = 0.1 // standard deviation of a label
	weight = 1 / (sigma * sigma)
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	belief, err := posterior.New(dim, 1, 1) // prior λ = 1, ρ = 1: labels keep their weight
	if err != nil {
		return err
	}
	truth := []float64{0.5, -1, 0.25, 0}
	random := rand.New(rand.NewPCG(1, 2))
	features := func() []float64 {
		phi := make([]float64, dim)
		for i := range phi {
			phi[i] = random.NormFloat64()
		}
		return phi
	}

	fmt.Println("labels  D-gap of the next, nats  distance of the mean from z")
	for n := range 33 {
		phi := features()
		if n&(n-1) == 0 { // 0, 1, 2, 4, 8, ...
			fmt.Printf("%6d  %23.3f  %27.3f\n", n, posterior.DGap(belief.NormSq(phi), weight), distance(belief, truth))
		}
		if err := belief.Update(phi, dot(phi, truth)+sigma*random.NormFloat64(), weight); err != nil {
			return err
		}
	}

	before, phi := distance(belief, truth), features()
	mistake := dot(phi, truth) + 5 // the operator pressed the wrong button
	if err := belief.Update(phi, mistake, weight); err != nil {
		return err
	}
	fmt.Printf("\na wrong label moves the mean: %.3f -> %.3f\n", before, distance(belief, truth))
	if err := belief.Downdate(phi, mistake, weight); err != nil {
		return err
	}
	after := distance(belief, truth)
	fmt.Printf("undo restores it:             %.3f\n", after)
	if math.Abs(after-before) > 1e-9 {
		return fmt.Errorf("belief: undo: the mean is off by %g", after-before)
	}
	return nil
}

// distance is ‖ẑ - z‖.
func distance(belief *posterior.Belief, z []float64) float64 {
	mean := make([]float64, dim)
	belief.Mean(mean)
	for i := range mean {
		mean[i] -= z[i]
	}
	return math.Sqrt(dot(mean, mean))
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
