package theory

import (
	"math"

	"optibfm/controller"
)

// Bound is an upper bound of the regret of an episode-level ucb, whose z has the highest upper
// confidence bound at the start of every episode. The regret exceeds it in any episode with
// probability at most δ + δ′. All constants are included, so that it can be compared with a
// measured regret. T_k is the length of episode k, N the number of labels, w = 1/σ² the weight of
// each:
//
//	R_n ≤ 2β_n [ 2σ √(A_n Γ_n) + 2 (L/√λ) (1+γ)/(1-γ) log 1/δ′ ]
//
//	Γ_n = d log(1 + w N L²/(dλ))                 at least log(det V/λ^d)
//	β_n = √λ S + √(Γ_n + 2 log 1/δ)              at least the theorem's β
//	A_n = Σ_k T_k C(w T_k L²/λ),                 C(x) = x/log(1+x)
//
// A_n and N grow like n, so the bound grows like d √n log n. Proof, in four steps:
//
//  1. Optimism. While z* is in the confidence sets, V*(s₀) is at most the bound of the chosen
//     policy, ψ_kᵀẑ + β_k‖ψ_k‖, so that the regret of the episode is at most 2β_k‖ψ_k‖, norms in
//     V_k⁻¹, the belief at its start. Trace.Realised is the sum of these.
//  2. From ψ to states. ψ_k is the expected sum of φ over the episode, hence
//     ‖ψ_k‖ ≤ E Y_k, Y_k = Σ_t ‖φ(s_t)‖.
//  3. From expectations to samples. No term of Y_k exceeds B = L/√λ, and
//     after each step γ/(1-γ) more are expected, so E Y_k² ≤ B E Y_k (1+γ)/(1-γ).
//     With exp(-x) ≤ 1-x+x²/2 and c = (1-γ)/(B(1+γ)), exp Σ_k c(½E Y_k - Y_k)
//     is a supermartingale, which passes 1/δ′ with probability at most δ′ (Ville):
//     Σ E Y_k ≤ 2 Σ Y_k + (2/c) log 1/δ′ for all n at once.
//  4. Elliptical potential. Let q_k = Σ_t w‖φ(s_t)‖². Then Y_k ≤ σ√(T_k q_k), q_k ≤
//     Q_k = w T_k L²/λ, q_k ≤ C(Q_k) log(1+q_k) for being below a concave function's
//     chord, and Σ log(1+q_k) ≤ log(det V/λ^d) ≤ Γ_n, since det(I+M) ≥ 1+tr M. What
//     remains is Cauchy-Schwarz.
//
// The confidence sets are those of Abbasi-Yadkori, Pál and Szepesvári (2011). Optimism and the
// elliptical potential are the standard proof for linear bandits, which Rupf et al. (2025) use for
// behaviour foundation models.
type Bound struct {
	dim              int
	gamma, length    float64 // length: L
	lambda, s        float64
	weight           float64 // w
	delta, slip      float64 // δ, δ′
	labels, weighted float64 // N, A_n
}

// NewBound returns the bound of trials on m with the β schedule of cfg, which has δ, and δ′ = slip.
func NewBound(m MDP, cfg controller.Config, slip float64) *Bound {
	return &Bound{
		dim: m.Dim, gamma: m.Gamma, length: m.L(), lambda: cfg.Lambda, s: cfg.Beta.S,
		weight: 1 / (cfg.Sigma * cfg.Sigma), delta: cfg.Beta.Delta, slip: slip,
	}
}

// Add adds an episode of n steps, with n+1 labels, and returns the bound after it.
func (b *Bound) Add(n int) float64 {
	b.labels += float64(n + 1)
	x := b.weight * float64(n) * b.length * b.length / b.lambda
	b.weighted += float64(n) * x / math.Log1p(x)

	d := float64(b.dim)
	gain := d * math.Log1p(b.weight*b.labels*b.length*b.length/(d*b.lambda))
	beta := math.Sqrt(b.lambda)*b.s + math.Sqrt(gain-2*math.Log(b.delta))
	seen := 2 * math.Sqrt(b.weighted*gain/b.weight)
	unseen := -2 * b.length / math.Sqrt(b.lambda) * (1 + b.gamma) / (1 - b.gamma) * math.Log(b.slip)
	return 2 * beta * (seen + unseen)
}
