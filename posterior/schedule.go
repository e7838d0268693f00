package posterior

import (
	"fmt"
	"math"
)

// A Schedule computes β, the width of the confidence ellipsoid ‖z - ẑ‖ ≤ β (norm in
// V), for the current belief.
type Schedule interface {
	// Beta returns β ≥ 0. It does not allocate.
	Beta(b *Belief) float64
	// Validate checks the parameters of the schedule.
	Validate() error
}

// Constant is a constant β.
type Constant float64

// Beta returns the constant.
func (c Constant) Beta(*Belief) float64 { return float64(c) }

// Validate refuses negative and non-finite numbers.
func (c Constant) Validate() error { return notNegative("Constant", "beta", float64(c)) }

// Theory is the width of an ellipsoid that contains the true z with probability
// 1-Delta (Abbasi-Yadkori, Pál and Szepesvári 2011, theorem 2):
//
//	β = √λ·S + σ√(log(det V/det D) + 2 log 1/δ)
//
// where r = φᵀz + noise, ‖z‖ ≤ S, and the noise of a label of weight w, times
// √w, is σ-sub-Gaussian: σ = 1 if labels have the weight w/σ². Without forgetting
// det D is λ^d. With forgetting D ≤ λI; the bound then needs det D and holds for
// each tick separately, not for all of them together.
type Theory struct {
	S     float64 // bound on ‖z‖, ≥ 0
	Sigma float64 // noise of a label with weight 1, ≥ 0
	Delta float64 // probability that z is outside, in (0, 1)
}

// Beta returns the width for b.
func (t Theory) Beta(b *Belief) float64 {
	// V ≥ D: the difference is negative only by rounding.
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
		return fmt.Errorf("posterior.Theory: Delta is out of range (%g); give a probability in (0, 1)", t.Delta)
	}
	return nil
}

// Misspecified increases the β of a schedule for rewards that are only
// approximately linear: r = φᵀz + m + noise with |m| ≤ Zeta and ‖φ‖ ≤ L.
//
//	β′ = β + ζ W L / √(D_min + W L²),   W = Σ ρ^k w
//
// This is at most β + ζ√W, the known β + ζ√n for n labels with weight 1, and less
// while W L² is small compared with the prior. The errors m move ẑ by V⁻¹ Σ w φ m.
// With A of rows √w φ and u of entries √w m, the squared V-norm of that move is
//
//	uᵀ A (D + AᵀA)⁻¹ Aᵀ u  ≤  ‖u‖² μ/(D_min + μ)
//
// where μ, the largest eigenvalue of AᵀA, is at most its trace, Σ w‖φ‖² ≤ W L²,
// and ‖u‖² ≤ ζ²W. The triangle inequality adds its root to β. L may be +Inf.
type Misspecified struct {
	Schedule         // β for linear rewards
	Zeta     float64 // bound on |m|, ≥ 0
	L        float64 // bound on ‖φ‖ of the labels, > 0
}

// Beta returns the increased width for b.
func (m Misspecified) Beta(b *Belief) float64 {
	return m.Schedule.Beta(b) + m.bias(b)
}

// bias bounds the V-norm of the move of ẑ by the errors m.
func (m Misspecified) bias(b *Belief) float64 {
	least := b.lambda
	for _, v := range b.prior {
		least = min(least, v)
	}
	weight := b.Weight()
	if weight == 0 {
		return 0
	}
	// Numerator and denominator are divided by W L, which may be infinite.
	return m.Zeta * math.Sqrt(weight) / math.Sqrt(1+least/weight/m.L/m.L)
}

// Validate checks the ranges and the inner schedule.
func (m Misspecified) Validate() error {
	if m.Schedule == nil {
		return fmt.Errorf("posterior.Misspecified: the inner schedule is nil; give Constant or Theory")
	}
	if err := notNegative("Misspecified", "Zeta", m.Zeta); err != nil {
		return err
	}
	if !(m.L > 0) {
		return fmt.Errorf("posterior.Misspecified: L is not positive (%g); give a bound of the norm of phi", m.L)
	}
	return m.Schedule.Validate()
}

func notNegative(schedule, name string, v float64) error {
	if v >= 0 && !math.IsInf(v, 1) {
		return nil
	}
	return fmt.Errorf("posterior.%s: %s is negative or not finite (%g); give a finite number ≥ 0", schedule, name, v)
}
