package posterior_test

import (
	"fmt"
	"log"
	"math/rand/v2"

	"optibfm/posterior"
)

// A robot with three features infers a task that rewards the first, slightly the
// second, and punishes the third.
func Example() {
	belief, err := posterior.New(3, 0.01, 1)
	if err != nil {
		log.Fatal(err)
	}
	labels := []struct {
		phi    []float64
		reward float64
	}{
		{[]float64{1, 0, 0}, 1},
		{[]float64{0, 1, 0}, 0.5},
		{[]float64{0, 1, 1}, -0.5},
		{[]float64{1, 1, 0}, 1.5},
	}
	for _, l := range labels {
		gap := posterior.DGap(belief.NormSq(l.phi), 1)
		if err := belief.Update(l.phi, l.reward, 1); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("label %+.1f, D-gap was %.2f\n", l.reward, gap)
	}
	z := make([]float64, 3)
	belief.Mean(z)
	fmt.Printf("z = %.2f\n", z)
	// Output:
	// label +1.0, D-gap was 4.62
	// label +0.5, D-gap was 4.62
	// label -0.5, D-gap was 4.62
	// label +1.5, D-gap was 1.09
	// z = [1.00 0.49 -0.98]
}

// The label gate is a comparison without a logarithm.
func ExampleDGapThreshold() {
	belief, err := posterior.New(2, 1, 1)
	if err != nil {
		log.Fatal(err)
	}
	const kappa, weight = 0.1, 1
	threshold := posterior.DGapThreshold(kappa, weight)
	phi := []float64{1, 0}
	asked := 0
	for range 100 {
		if belief.NormSq(phi) < threshold {
			continue // a label here would teach too little
		}
		asked++
		if err := belief.Update(phi, 1, weight); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("labels asked:", asked)
	// Output: labels asked: 9
}

// The candidates of one optimistic decision.
func ExampleBelief_SampleEllipsoid() {
	belief, err := posterior.New(2, 1, 1)
	if err != nil {
		log.Fatal(err)
	}
	const n, beta = 128, 1.0
	rng := rand.New(rand.NewPCG(1, 2))
	within := 0
	z := make([]float64, 2)
	for range n {
		belief.SampleEllipsoid(z, 2*beta, rng)
		if z[0]*z[0]+z[1]*z[1] <= 4*beta*beta {
			within++
		}
	}
	fmt.Println(within, "of", n, "candidates are in the ellipsoid")
	// Output: 128 of 128 candidates are in the ellipsoid
}

// One period without a label: the weight of the label decays, the prior does not.
func ExampleBelief_Forget() {
	belief, err := posterior.New(1, 1, 0.5)
	if err != nil {
		log.Fatal(err)
	}
	if err := belief.Update([]float64{1}, 1, 8); err != nil {
		log.Fatal(err)
	}
	z := make([]float64, 1)
	for range 4 {
		belief.Mean(z)
		fmt.Printf("weight %.1f, z = %.3f\n", belief.Weight(), z[0])
		belief.Forget()
	}
	// Output:
	// weight 8.0, z = 0.889
	// weight 4.0, z = 0.800
	// weight 2.0, z = 0.667
	// weight 1.0, z = 0.500
}
