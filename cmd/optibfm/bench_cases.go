package main

import (
	"math/rand/v2"
	"slices"

	"optibfm/posterior"
	"optibfm/tflite"
)

// benchLabels is how many labels the belief of the searches has: the more it
// knows, the more alike are the candidates, and the less there is to evaluate.
const benchLabels = 100

// benchCases are what the networks and the belief are timed with: random
// observations, and a belief that knows some of their rewards.
type benchCases struct {
	obs    [][]float32
	phi    []float64 // of one of them
	belief *posterior.Belief
	turn   int
}

func newBenchCases(b *benchmark) (*benchCases, error) {
	network, err := b.network(1)
	if err != nil {
		return nil, err
	}
	d := b.model.Dims()
	c := &benchCases{phi: make([]float64, d.Latent)}
	if c.belief, err = posterior.New(d.Latent, 1, 1); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range benchLabels {
		obs := make([]float32, d.Obs)
		for i := range obs {
			obs[i] = float32(rng.NormFloat64())
		}
		if err := network.Phi(c.phi, obs); err != nil {
			return nil, err
		}
		if err := c.belief.Update(c.phi, rng.NormFloat64(), 1); err != nil {
			return nil, err
		}
		c.obs = append(c.obs, obs)
	}
	return c, nil
}

// next returns another observation than the last time.
func (c *benchCases) next() []float32 {
	c.turn++
	return c.obs[c.turn%len(c.obs)]
}

// benchQuery is a search.
type benchQuery struct {
	candidates []float32 // [n, d]
	belief     tflite.Belief
}

// query draws n candidates as ucb does.
func (c *benchCases) query(n int, beta float64) benchQuery {
	d := c.belief.Dim()
	rng := rand.New(rand.NewPCG(3, 4))
	drawn, mean, invR := make([]float64, n*d), make([]float64, d), make([]float64, d*d)
	for z := range slices.Chunk(drawn, d) {
		c.belief.SampleEllipsoid(z, 2*beta, rng)
	}
	c.belief.Mean(mean)
	c.belief.InvR(invR)
	q := benchQuery{
		candidates: make([]float32, n*d),
		belief:     tflite.Belief{Mean: make([]float32, d), InvR: make([]float32, d*d), Beta: float32(beta)},
	}
	narrow(q.candidates, drawn)
	narrow(q.belief.Mean, mean)
	narrow(q.belief.InvR, invR)
	return q
}
