// Package theory checks the theory of OpTI-BFM (Rupf et al., "Optimistic Task
// Inference for Behavior Foundation Models", 2025) where its assumptions hold.
//
// The theory is about a perfect behaviour foundation model: rewards that are linear in the
// features, the optimal policy for every z and its exact successor features. Networks have none of
// that. This package has decision processes that are small enough to compute all of it exactly, and
// runs the program's own controller, belief and schedules on them.
//
// # A perfect model
//
// An MDP has a handful of states with features φ(s), ‖φ‖ ≤ 1. Solve computes the successor features
// of every deterministic policy from a linear system:
//
//	ψ^π = (I - γP_π)⁻¹ P_π Φ
//
// Solution.Optimal finds π_z, the optimal policy for the rewards φᵀz, by policy iteration over
// these tables. Model implements tflite.Model with both. Robot is a hal.Robot in the process. A
// Trial joins them with controller.Agent and controller.Planner in lockstep and with the simulated
// operator of rewardsrc/scripted, who labels every state with noise.
//
// An episode ends after each step with probability 1-γ. Its expected undiscounted return is then
// the discounted value of its first state, without truncation.
//
// There are two families. In Random every policy visits all states. Fork is a linear bandit of
// eight rooms, which requires exploration.
//
// # Claims
//
// Coverage. With β of posterior.Theory, z* is in the ellipsoid ‖z - ẑ‖_V ≤ β at all times of a run,
// with probability 1-δ (Abbasi-Yadkori, Pál and Szepesvári, 2011, theorem 2). The check counts
// runs, with Clopper-Pearson intervals.
//
// Regret. Over n episodes it grows like √n up to logarithms, for the variant with one z for each
// episode (-EP). The check compares the regret of each run with two bounds: Σ 2β‖ψ‖ with the
// numbers of the run, and one in closed form with a proof, see Bound. It fits the exponent p of
// regret ~ n^p to the measured curves, with bootstrap intervals. For a single task p is below ½,
// because the gaps between policies are known in the end; √n is the growth on the worst task for
// each n, which is measured too. The proof covers neither Thompson sampling nor a new z in every
// step, because ‖ψ‖ is about a future under one z; both are measured.
//
// Misspecification. For rewards that differ from the linear model by up to ζ, the sets of β′ of
// posterior.Misspecified and those of β + ζ√n, the limit for large L, contain z*. (The paper's β′
// has one more term and is wider: 42 instead of 6.3 at n = 1,000, d = 4, ζ = 0.2.) The regret in
// values of the true rewards is measured for all three. The check does not test its bound, Σ 2β′‖ψ‖
// plus 2ζ/(1-γ) for each episode: even random z stay below it.
//
// Fixed horizon. The paper's bound is about episodes of H steps with discounted returns and δ =
// 1/n. The check has such episodes too, for several d and γ, with the policies of the process by
// enumeration, and compares the mean regret with a bound in closed form (its constants are ours:
// the paper hides them in Õ). It also measures the regret with one label for each return in place
// of one for each reward, and with wrong successor features, ψ + ξu: there the regret of an episode
// does not vanish, and is at most 2ξS once ẑ is near z*.
//
// Each claim has a control, which must fail: labels with more noise than β accounts for, β instead
// of β′, a robot that does not learn, a greedy one in Fork, and wrong ψ. A claim is undecided if
// its interval contains the limit.
//
// # Exact and sampled optimism
//
// The theory takes the highest upper confidence bound over all policies. Exact computes it by
// enumeration, as a controller.Plans; the program searches 128 candidates. Both are run. The check
// counts the plans with a score of at least the optimal value, which is all that the proof needs of
// a search.
//
// A test of package posterior checks that candidates are drawn with R⁻¹ and not with R⁻ᵀ.
package theory
