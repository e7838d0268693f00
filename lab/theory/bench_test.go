package theory

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkOptimal measures what a candidate costs: the optimal policy of a z
// near the one before it.
func BenchmarkOptimal(b *testing.B) {
	s := solved(b, Random(1))
	rng := rand.New(rand.NewPCG(1, 1))
	tasks := make([][]float64, 128)
	for i := range tasks {
		tasks[i] = direction(rng, s.mdp.Dim)
	}
	b.ReportAllocs()
	policy := 0
	for i := range b.N {
		policy = s.Optimal(tasks[i%len(tasks)], policy)
	}
}
