package posterior

import (
	"fmt"
	"math"
)

// A Schedule gives β, the width of the confidence ellipsoid
// ‖z - ẑ‖ ≤ β (norm in V), for a belief as it is.
type Schedule interface {
	// Beta returns β ≥ 0 for the belief's present state. It allocates nothing.
	Beta(b *Belief) float64
	// Validate says what is wrong with the schedule's parameters.
	Validate() error
}

// Constant is the same β always.
type Constant float64

// Beta returns the constant.
func (c Constant) Beta(*Belief) float64 { return float64(c) }

// Validate refuses what is not a finite number ≥ 0.
func (c Constant) Validate() error { return notNegative("Constant", "beta", float64(c)) }

// Theory is the width for which the ellipsoid holds the true z with
// probability 1-Delta (Abbasi-Yadkori, Pál and Szepesvári 2011, theorem 2):
//
//	β = √λ·S + σ√(log(det V/det D) + 2 log 1/δ)
//
// where r = φᵀz + noise, ‖z‖ ≤ S, and the noise of a label of weight w, times
// √w, is σ-sub-Gaussian: σ = 1 where labels enter with weight w/σ². Without
// forgetting det D is λ^d. With it D ≤ λI, and det D is what keeps the bound
// true; then it holds for each tick rather than for all of them at once.
type Theory struct {
	S     float64 // bound on ‖z‖, ≥ 0
	Sigma float64 // noise of a label of weight 1, ≥ 0
	Delta float64 // probability that the ellipsoid misses z, in (0, 1)
}

// Beta returns the width for b.
func (t Theory) Beta(b *Belief) float64 {
	// V ≥ D, so the first term is negative by rounding only.
	gain := max(b.LogDet()-b.LogDetPrior(), 0)
	return math.Sqrt(b.lambda)*t.S + t.Sigma*math.Sqrt(gain-2*math.Log(t.Delta))
}

// Validate checks the ranges.
func (t Theory) Validate() error {
	if err := notNegative("Theory", "S", t.S); err != nil {
		return err
	}
	if err := notNegative("Theory", "Sigma", t.Sigma); err != nil {
		return err
	}
	if !(t.Delta > 0 && t.Delta < 1) {
		return fmt.Errorf("posterior.Theory: Delta is not a probability (%g): give one in (0, 1)", t.Delta)
	}
	return nil
}

// Misspecified inflates the β of a schedule for rewards that are only nearly
// linear: r = φᵀz + m + noise with |m| ≤ Zeta and ‖φ‖ ≤ L.
//
//	β′ = β + ζ W L / √(D_min + W L²),   W = Σ ρ^k w
//
// which is never more than β + ζ√W, the familiar β + ζ√n of n labels of
// weight one, and less while W L² is small beside the prior. The errors m move
// ẑ by V⁻¹ Σ w φ m. With A the rows √w φ and u the numbers √w m, the V-norm of
// that move squared is
//
//	uᵀ A (D + AᵀA)⁻¹ Aᵀ u  ≤  ‖u‖² μ/(D_min + μ)
//
// where μ, the largest eigenvalue of AᵀA, is at most its trace, Σ w‖φ‖² ≤ W L²,
// and ‖u‖² ≤ ζ²W. The triangle inequality adds it to β. L may be +Inf.
type Misspecified struct {
	Schedule         // what β would be if the rewards were linear
	Zeta     float64 // bound on |m|, ≥ 0
	L        float64 // bound on ‖φ‖ of the labels, > 0
}

// Beta returns the inflated width for b.
func (m Misspecified) Beta(b *Belief) float64 {
	return m.Schedule.Beta(b) + m.bias(b)
}

// bias bounds how far the errors m can have moved ẑ, in the norm of V.
func (m Misspecified) bias(b *Belief) float64 {
	least := b.lambda
	for _, v := range b.prior {
		least = min(least, v)
	}
	weight := b.Weight()
	if weight == 0 {
		return 0
	}
	// Divided through by W L, which may be infinite.
	return m.Zeta * math.Sqrt(weight) / math.Sqrt(1+least/weight/m.L/m.L)
}

// Validate checks the ranges and the schedule inside.
func (m Misspecified) Validate() error {
	if m.Schedule == nil {
		return fmt.Errorf("posterior.Misspecified: no schedule inside (nil): give Constant or Theory")
	}
	if err := notNegative("Misspecified", "Zeta", m.Zeta); err != nil {
		return err
	}
	if !(m.L > 0) {
		return fmt.Errorf("posterior.Misspecified: L is not positive (%g): give a bound on the norm of phi", m.L)
	}
	return m.Schedule.Validate()
}

func notNegative(schedule, name string, v float64) error {
	if v >= 0 && !math.IsInf(v, 1) {
		return nil
	}
	return fmt.Errorf("posterior.%s: %s is negative or not finite (%g): give a finite number ≥ 0", schedule, name, v)
}
