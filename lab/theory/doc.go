// Package theory checks the theory of OpTI-BFM (Rupf et al., "Optimistic Task
// Inference for Behavior Foundation Models", 2025) where its assumptions hold.
//
// The theory is about a perfect behaviour foundation model: rewards that are
// linear in the features, the optimal policy for every z, its exact successor
// features. Networks are none of that. So here are decision processes that are
// small enough to know all of it, and the program's own controller, belief and
// schedules are run on them; nothing that decides is written again.
//
// # A perfect model
//
// An MDP has a handful of states with features φ(s), ‖φ‖ ≤ 1. Solve computes the
// successor features of every deterministic policy by a linear solve:
//
//	ψ^π = (I - γP_π)⁻¹ P_π Φ
//
// Solution.Optimal finds π_z, the policy that is optimal for the rewards φᵀz, by
// policy iteration over these tables. Model puts both behind tflite.Model, Robot
// is a hal.Robot that lives in the process, and a Trial joins them with
// controller.Agent and controller.Planner in lockstep and with the simulated
// operator of rewardsrc/scripted, who labels every state, with noise.
//
// An episode ends after each step with probability 1-γ. Its expected return,
// undiscounted, is then the discounted value of its start, so that nothing has to
// be cut off.
//
// There are two families. In Random every state is seen sooner or later, whatever
// the robot does. Fork is a linear bandit of eight rooms: what lies in a room is
// known only to those who go there, so that exploring is needed.
//
// # What is claimed
//
// Coverage. With β of posterior.Theory, z* is in the ellipsoid ‖z - ẑ‖_V ≤ β at
// all times of a run, with probability 1-δ (Abbasi-Yadkori, Pál and Szepesvári,
// 2011, theorem 2). Counted over runs, with Clopper-Pearson intervals.
//
// Regret. Over n episodes it grows like √n, but for logarithms, for the variant
// that chooses z once an episode (-EP). Each run's regret is held against two
// bounds, Σ 2β‖ψ‖ with the numbers of that run, and one in closed form, with a
// proof: see Bound. The exponent p of regret ~ n^p is fitted to measured curves,
// with bootstrap intervals. For a single task p is less than ½, since in the end
// the gaps between policies are known; √n is the growth on the worst task for
// each n, which is measured too. The proof does not reach the variant that
// chooses z in every step: ‖ψ‖ is about a future under one z. It is measured all
// the same, and so is Thompson sampling.
//
// Misspecification. Where rewards are off the linear model by up to ζ, β′ of
// posterior.Misspecified covers z*.
//
// Each claim has a control, which must fail it: labels that are noisier than β knows
// of, β in place of β′, a robot that does not learn, and one that is greedy in
// Fork. A claim is undecided where its interval reaches to both sides.
//
// # Exact and sampled optimism
//
// The theory takes the greatest upper confidence bound over all policies. Exact
// does so by enumeration, as controller.Plans; the program searches 128
// candidates. Both are run, and the share of plans whose score is at least the
// optimal value, all that the proof needs of a search, is counted.
//
// That candidates must be drawn with R⁻¹ and not with R⁻ᵀ is a test of package
// posterior.
package theory
