// Package posterior implements the robot's belief about its task: a
// linear-Gaussian posterior over the task embedding z, stored as a Cholesky factor.
//
// # The belief
//
// Rewards are modelled as linear in the features of a state, r ≈ φᵀz (Rupf et
// al., "Optimistic Task Inference for Behavior Foundation Models", 2025). After
// labels (φ_i, r_i) of weights w_i, regularised least squares gives
//
//	V = λI + Σ w_i φ_i φ_iᵀ,   b = Σ w_i φ_i r_i,   ẑ = V⁻¹b
//
// A Belief stores the upper triangular R with V = RᵀR, and b. That is sufficient:
// log det V is twice the sum of the logarithms of R's diagonal, and the uncertainty
// in a direction x is
//
//	‖x‖ in V⁻¹ = √(xᵀV⁻¹x) = ‖R⁻ᵀx‖
//
// Update adds a label with one rotation of R for each row. Downdate removes a
// label with the inverse rotations. Each costs O(d²). Neither forms V, whose
// condition number is the square of R's. A label with noise σ has the weight w/σ².
//
// # Nuisance
//
// WithNuisance gives the first dimensions to effects on the labels that are not of the
// task: the zero of the operator's scale, whose feature is a constant, or what the model's
// features cannot express. Because they come first, the trailing block of R is the
// Cholesky factor of the task's marginal precision. Mean, samples, bounds, InvR and LogDet
// are those of the task. Gain measures the information of a label about it.
//
// # Unknown noise
//
// If the noise σ of labels is estimated, labels enter with the weight 1: V⁻¹ times σ²
// is the covariance of z, and the precision of the prior is λσ². SetPrior and
// TrackPrior let the prior follow an estimate of σ, one direction a call.
//
// # Asking and acting
//
// The D-gap of a state is the gain in log det V from a label there,
//
//	Δ(φ) = log(1 + w‖φ‖²)   (norm in V⁻¹)
//
// DGapThreshold converts its limit κ into a limit of NormSq, so that the label gate
// needs no logarithm. UCB computes ψᵀẑ + β‖ψ‖ for successor features ψ.
// SampleEllipsoid draws the candidates z = ẑ + R⁻¹(2βξ), ξ uniform in the unit
// ball. SampleGaussian draws from N(ẑ, V⁻¹) for Thompson sampling. Samples use
// R⁻¹, norms use R⁻ᵀ. Samples drawn with R⁻ᵀ have plausible norms but the wrong
// covariance (RRᵀ)⁻¹.
//
// A Schedule computes β: Constant, Theory for a confidence of 1-δ, Misspecified for
// rewards that are only approximately linear.
//
// # Forgetting
//
// Forget applies the decay of one period. Labels decay, the prior does not:
//
//	V = D + Σ ρ^k w φφᵀ,   λρ^(d-1) ≤ D_ii ≤ λ
//
// where k is the age of a label in periods. Scaling R also scales the prior, so that
// each call restores one basis direction of D to λ, in turn. This costs O(d²). For
// a small ρ the direction that waits longest would lose too much of its prior:
// where ρ^(d-1) < 0.5, New requires WithExactRestore, which restores the whole
// prior in every call for O(d³). Without a restore, R would decay to zero.
//
// # Reproducibility
//
// R, b, and the results of Mean, NormSq, InvR and Surprise depend only on the calls,
// bit for bit, on every CPU that Go supports. The code uses float64, a fixed order
// of operations, no function except the square root (which IEEE 754 rounds
// correctly) and no BLAS. It wraps every product in a conversion, which prevents
// the compiler from fusing it with an addition. Hash compares two beliefs cheaply.
// Samples, LogDet and schedules use logarithms and powers, whose last bits may
// differ between CPUs.
//
// On amd64 with AVX2, assembly computes the loops of loops.go (loops_amd64.s, from
// tflite/internal/kernel/generate/posterior). It does not fuse products with sums, and each
// partial sum has its own lane: the bits are the same. The build tag noasm omits it.
//
// # Storage
//
// State and Restore copy the belief as float64s, for shared memory and files. Restore
// refuses impossible beliefs. Merge adds the labels of another belief, Unmerge
// removes them.
//
// # Errors, panics, memory
//
// Methods check numbers from outside (labels, states); a refused number
// changes nothing. A slice of a wrong length that only the programmer chooses, as
// in Mean, causes a panic. Only New, Clone, Merge, Unmerge and errors allocate.
//
// One goroutine at a time may use a Belief, including its reading methods: they
// share scratch memory.
package posterior

//go:generate -command generate go -C ../tflite/internal/kernel/generate run ./posterior -pkg posterior
//go:generate generate -out ../../../../posterior/loops_amd64.s -stubs ../../../../posterior/stubs_amd64.go
