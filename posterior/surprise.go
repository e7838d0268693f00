package posterior

import "math"

// Surprise returns the degree to which a label contradicts the belief before it,
//
//	u = (r - φᵀẑ) / √(1 + w‖φ‖²)   (norm in V⁻¹)
//
// in the unit of the reward: the recursive residual of Brown, Durbin & Evans,
// "Techniques for Testing the Constancy of Regression Relationships over Time",
// 1975. If labels with weight w have the standard deviation τ, then u has it too,
// at every φ and from the first label on: with few labels the root is large and
// the surprise small. phi is [d]; for reward and weight see Update. O(d²), with the
// same bits on every CPU.
func (b *Belief) Surprise(phi []float64, reward, weight float64) float64 {
	b.checkLen("Surprise", "phi", len(phi), b.dim)
	b.solveMean()
	spread := 1 + float64(weight*b.NormSq(phi))
	return (reward - dot(phi, b.mean)) / math.Sqrt(spread)
}
