// Package posterior is the robot's belief about its task: a linear-Gaussian
// posterior over the task embedding z, kept as a Cholesky factor.
//
// # The belief
//
// Rewards are modelled as linear in the features of a state, r ≈ φᵀz (Rupf et
// al., "Optimistic Task Inference for Behavior Foundation Models", 2025). After
// labels (φ_i, r_i) of weights w_i, regularised least squares gives
//
//	V = λI + Σ w_i φ_i φ_iᵀ,   b = Σ w_i φ_i r_i,   ẑ = V⁻¹b
//
// A Belief holds the upper triangular R with V = RᵀR, and b. Nothing else is
// needed: log det V is twice the sum of the logarithms of R's diagonal, and the
// uncertainty about the value of a direction x is
//
//	‖x‖ in V⁻¹ = √(xᵀV⁻¹x) = ‖R⁻ᵀx‖
//
// A label turns R by one rotation a row (Update), and taking it out turns it
// back (Downdate). Each costs O(d²), and neither forms V, whose condition is
// the square of R's. A label of noise σ enters with weight w/σ².
//
// # Doubtful labels
//
// Least squares believes a mistaken label as much as any other. Surprise says
// how much a label contradicts the belief before it, Trust what share of its
// weight it then deserves; a caller multiplies the weight of Update by it.
//
// # Asking and acting
//
// The D-gap of a state is what log det V would gain by a label there,
//
//	Δ(φ) = log(1 + w‖φ‖²)   (norm in V⁻¹)
//
// DGapThreshold turns the limit κ on it into one on NormSq, so that the label
// gate takes no logarithm. UCB gives ψᵀẑ + β‖ψ‖ for successor features ψ;
// SampleEllipsoid draws the candidates z = ẑ + R⁻¹(2βξ), ξ uniform in the unit
// ball; SampleGaussian draws from N(ẑ, V⁻¹) for Thompson sampling. Samples go
// through R⁻¹, norms through R⁻ᵀ. Drawing with R⁻ᵀ gives norms that look right
// and samples of covariance (RRᵀ)⁻¹, which is another matrix.
//
// β comes from a Schedule: Constant, Theory for the width that holds with
// probability 1-δ, Misspecified for rewards that are only nearly linear.
//
// # Forgetting
//
// Forget lets one period elapse. Labels decay, the prior does not:
//
//	V = D + Σ ρ^k w φφᵀ,   λρ^(d-1) ≤ D_ii ≤ λ
//
// where k is a label's age in periods. Scaling R takes the prior along, so each
// call brings one basis direction of D back to λ, in turn. This is O(d²), but
// for a small ρ the direction that waits longest would lose too much of its
// prior: where ρ^(d-1) < 0.5 New asks for WithExactRestore, which brings all of
// it back in every call, for O(d³). If the prior decayed as labels do, R would
// go to zero with them.
//
// # The same bits everywhere
//
// R, b, and what Mean, NormSq, InvR and Surprise compute from them are a function of the
// calls alone, bit for bit, on every CPU that Go runs on: float64, a fixed order
// of operations, no function but the square root (which IEEE 754 rounds
// correctly), no BLAS, and every product wrapped in a conversion, which
// forbids the compiler to fuse it with an addition. Hash makes this cheap to
// compare. Samples, LogDet and schedules use logarithms and powers, whose last
// bits may differ between CPUs.
//
// # Moving a belief
//
// State and Restore copy the belief as float64s, for shared memory.
// MarshalBinary and UnmarshalBinary are the same with λ, ρ and a checksum, for
// files. Both readers refuse whatever no belief can be. Merge adds what another
// belief has learnt.
//
// # Errors, panics, memory
//
// Numbers that come from outside (labels, states, snapshots) are checked, and
// what is refused changes nothing. A slice of a wrong length where only the
// programmer chooses it, as in Mean, is a panic. Beyond New, Clone, Merge and
// reading or writing a snapshot no method allocates, errors excepted.
//
// A Belief is for one goroutine at a time; its reading methods share scratch
// memory, so they count too.
package posterior
