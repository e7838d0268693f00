package posterior

import "math"

// leastTrust keeps a weight positive however absurd the label.
const leastTrust = 1e-12

// Surprise returns by how much a label contradicts the belief before it,
//
//	u = (r - φᵀẑ) / √(1 + w‖φ‖²)   (norm in V⁻¹)
//
// in the reward's unit: the recursive residual of Brown, Durbin & Evans,
// "Techniques for Testing the Constancy of Regression Relationships over
// Time", 1975. If labels of weight w have the standard deviation τ, so has u,
// at every φ and from the first label on: where little is known yet the root
// is large, and nothing is surprising. phi is [d]; reward and weight are a
// label's, see Update. O(d²), and the same bits on every CPU.
func (b *Belief) Surprise(phi []float64, reward, weight float64) float64 {
	b.checkLen("Surprise", "phi", len(phi), b.dim)
	b.solveMean()
	spread := 1 + float64(weight*b.NormSq(phi))
	return (reward - dot(phi, b.mean)) / math.Sqrt(spread)
}

// Trust returns what is left of the weight of a label of the given surprise:
// all, 1, up to the limit, and limit/|surprise| beyond (Huber, "Robust
// Estimation of a Location Parameter", 1964). However wrong a label is, it
// moves ẑ at most 1 + w‖φ‖² times as far as one at the limit does, and many that
// agree are believed, however surprising the first was. So where φ is new, and w
// large, there is little doubt yet: what is to doubt a label are others. limit
// is above 0. The result is in [1e-12, 1], also where surprise is not finite.
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
