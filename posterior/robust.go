package posterior

import "math"

// leastTrust keeps the weight of any label positive.
const leastTrust = 1e-12

// Surprise returns how much a label contradicts the belief before it,
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

// Trust returns the factor of the weight of a label with the given surprise: 1 up
// to the limit, and limit/|surprise| beyond (Huber, "Robust Estimation of a
// Location Parameter", 1964). A wrong label moves ẑ at most 1 + w‖φ‖² times as far
// as a label at the limit. Many labels that agree prevail, even if the first one
// was surprising. For a new φ and a large w the factor reduces little: only other
// labels can contradict a label. limit is above 0. The result is in [1e-12, 1],
// also for a surprise that is not finite.
func Trust(surprise, limit float64) float64 {
	size := math.Abs(surprise)
	if size <= limit {
		return 1
	}
	if trust := limit / size; trust >= leastTrust {
		return trust
	}
	return leastTrust
}
