package theory

import (
	"fmt"
	"math"
	"math/rand/v2"

	"optibfm/posterior"
)

// horizon is a check of the regret bound for episodes of a fixed length with discounted returns.
// Once for each episode the agent takes the policy with the highest upper confidence bound, by
// enumeration; the oracle takes the best policy. The belief and its schedule are those of package
// posterior.
type horizon struct {
	family   Family
	dim      int
	gamma    float64
	steps    int // of an episode, H
	episodes int // n; δ = 1/n
	returns  bool
	offset   float64 // ξ: norm of the error of each ψ; 0: none
}

// discounts returns c_H = Σ γ^(2t) over the steps: the variance of the noise of a return, in σ².
func (h horizon) discounts() float64 {
	return (1 - math.Pow(h.gamma, 2*float64(h.steps))) / (1 - h.gamma*h.gamma)
}

// longest returns the largest norm of ψ for features of norm 1.
func (h horizon) longest() float64 { return (1 - math.Pow(h.gamma, float64(h.steps))) / (1 - h.gamma) }

// bound returns an upper bound of the expected regret, with labels of single rewards and exact ψ.
// It is the standard proof with c_H, whose constants the paper's Õ leaves out:
//
//	E R_n ≤ 2β_n σ √(c_H n C(wHL²/λ) Γ_n) + 2 S ψ_max,   Γ_n = d log(1 + w n H L²/(dλ)),   C(x) = x/log(1+x)
//
// The regret of an episode is at most 2β‖ψ‖_{V⁻¹} while z* is in the sets. By Cauchy-Schwarz, ‖ψ‖²
// ≤ c_H E Σ ‖φ_t‖². The sum of those over all episodes is at most σ² C Γ_n (see Bound, step 4), and
// β grows. With probability 1/n z* leaves the sets: that costs at most 2 S ψ_max in each of n
// episodes.
func (h horizon) bound() float64 {
	n, w, d := float64(h.episodes), 1/(noise*noise), float64(h.dim)
	labels, x := n*float64(h.steps), w*float64(h.steps)
	gain := d * math.Log1p(w*labels/d)
	beta := radius + math.Sqrt(gain+2*math.Log(n))
	return 2*beta*noise*math.Sqrt(h.discounts()*n*x/math.Log1p(x)*gain) + 2*radius*h.longest()
}

// process returns decision process i of the family. Its largest ‖φ‖ is 1 and λ = 1.
func (h horizon) process(seed uint64) MDP {
	if h.family == FamilyRandom {
		return randomOf(seed, h.dim, h.gamma)
	}
	return forkOf(seed, h.dim, h.gamma)
}

// futures returns ψ of every policy from every state, the expected Σ γ^(t-1) φ(s_t) over the steps,
// [policies, States, Dim].
func (h horizon) futures(s *Solution) []float64 {
	m := s.mdp
	size := m.States * m.Dim
	all := make([]float64, s.policies*size)
	next := make([]float64, size)
	for policy := range s.policies {
		psi := all[policy*size : (policy+1)*size]
		for range h.steps {
			clear(next)
			for state := range m.States {
				for to, p := range m.next(state, s.Action(policy, state)) {
					if p == 0 {
						continue
					}
					for j := range m.Dim {
						next[state*m.Dim+j] += p * (m.phi(to)[j] + m.Gamma*psi[to*m.Dim+j])
					}
				}
			}
			copy(psi, next)
		}
	}
	return all
}

// run returns the regret after each episode.
func (h horizon) run(s *Solution, futures []float64, seed uint64) ([]float64, error) {
	m, rng := s.mdp, rand.New(rand.NewPCG(seed, horizonStream))
	belief, err := posterior.New(m.Dim, 1, 1)
	if err != nil {
		return nil, err
	}
	schedule := posterior.Theory{S: radius, Sigma: 1, Delta: 1 / float64(h.episodes)}
	z := direction(rng, m.Dim)
	believed := h.wrong(futures, s.policies, m, rng)
	mean, total, curve := make([]float64, m.Dim), 0.0, make([]float64, 0, h.episodes)
	for range h.episodes {
		state := pick(rng, m.Start)
		at := func(policy int) []float64 { // of ψ from the state
			begin := (policy*m.States + state) * m.Dim
			return futures[begin : begin+m.Dim]
		}
		belief.Mean(mean)
		beta, chosen, highest, best := schedule.Beta(belief), 0, math.Inf(-1), math.Inf(-1)
		for policy := range s.policies {
			psi := believed[(policy*m.States+state)*m.Dim:][:m.Dim]
			if bound := dot(psi, mean) + beta*math.Sqrt(belief.NormSq(psi)); bound > highest {
				chosen, highest = policy, bound
			}
			best = max(best, dot(at(policy), z))
		}
		total += best - dot(at(chosen), z)
		curve = append(curve, total)
		if err := h.episode(s, belief, chosen, state, z, rng); err != nil {
			return nil, err
		}
	}
	return curve, nil
}

// wrong returns ψ + ξu, with a random direction u for each policy.
func (h horizon) wrong(futures []float64, policies int, m MDP, rng *rand.Rand) []float64 {
	if h.offset == 0 {
		return futures
	}
	off := make([]float64, 0, len(futures))
	for policy := range policies {
		u := direction(rng, m.Dim)
		for i, x := range futures[policy*m.States*m.Dim : (policy+1)*m.States*m.Dim] {
			off = append(off, x+h.offset*u[i%m.Dim])
		}
	}
	return off
}

// episode runs a policy and labels each reward, or the return alone.
func (h horizon) episode(s *Solution, belief *posterior.Belief, policy, state int, z []float64, rng *rand.Rand) error {
	m, factor := s.mdp, 1.0
	sum, returned := make([]float64, m.Dim), 0.0
	for range h.steps {
		state = pick(rng, m.next(state, s.Action(policy, state)))
		phi := m.phi(state)
		label := dot(phi, z) + noise*rng.NormFloat64()
		if !h.returns {
			if err := belief.Update(phi, label, 1/(noise*noise)); err != nil {
				return err
			}
		}
		for j, x := range phi {
			sum[j] += factor * x
		}
		returned += factor * label
		factor *= h.gamma
	}
	if !h.returns {
		return nil
	}
	return belief.Update(sum, returned, 1/(noise*noise*h.discounts()))
}

// curves returns the regret of n runs.
func (h horizon) curves(c *checker, n int) ([][]float64, error) {
	type solved struct {
		solution *Solution
		futures  []float64
	}
	processes := make([]solved, pool)
	err := c.each(pool, func(i int) (err error) {
		if processes[i].solution, err = Solve(h.process(c.cfg.Seed + uint64(i))); err == nil {
			processes[i].futures = h.futures(processes[i].solution)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	curves := make([][]float64, n)
	return curves, c.each(n, func(i int) (err error) {
		p := processes[i%pool]
		curves[i], err = h.run(p.solution, p.futures, c.cfg.Seed*1_000_003+uint64(i))
		return err
	})
}

// horizons measures the regret of episodes of 20 steps, for several d and γ, with labels of
// returns, and with wrong ψ.
func (c *checker) horizons() error {
	base := horizon{family: FamilyFork, dim: 4, gamma: 0.8, steps: 20, episodes: c.regretEpisodes}
	with := func(change func(*horizon)) horizon { h := base; change(&h); return h }
	n := max(20, c.cfg.Runs/20)
	byReward, err := base.curves(c, n)
	if err != nil {
		return err
	}
	c.report.addHorizon(base, byReward)
	for _, h := range []horizon{
		with(func(h *horizon) { h.family = FamilyRandom }),
		with(func(h *horizon) { h.dim = 2 }), with(func(h *horizon) { h.dim = 8 }),
		with(func(h *horizon) { h.gamma = 0.5 }), with(func(h *horizon) { h.gamma = 0.95 }),
	} {
		curves, err := h.curves(c, n)
		if err != nil {
			return err
		}
		c.report.addHorizon(h, curves)
	}
	byReturn, err := with(func(h *horizon) { h.returns = true }).curves(c, n)
	if err != nil {
		return err
	}
	c.report.addReturns(byReward, byReturn)
	for _, offset := range []float64{0.3, 1, 3} {
		h := with(func(h *horizon) { h.offset = offset })
		curves, err := h.curves(c, n)
		if err != nil {
			return err
		}
		c.report.addOffset(h, curves)
	}
	return nil
}

// addHorizon compares the mean regret with its bound.
func (r *Report) addHorizon(h horizon, curves [][]float64) {
	last := h.episodes - 1
	regret := r.meanOf(curves, last)
	settings := fmt.Sprintf("%s, H = %d, d = %d, γ = %g", h.family, h.steps, h.dim, h.gamma)
	r.Claims = append(r.Claims, Claim{
		Group: "fixed horizon", Measured: regret,
		Text:    fmt.Sprintf("mean regret over %d episodes, %s", h.episodes, settings),
		Want:    fmt.Sprintf("≤ %.4g, the bound", h.bound()),
		Verdict: atMost(regret, h.bound()),
		Note:    fmt.Sprintf("%.2g of it", regret.Value/h.bound()),
	})
	exponent := Exponent(curves, fitted(h.episodes), r.Seed)
	r.Claims = append(r.Claims, Claim{
		Group: "fixed horizon", Measured: exponent,
		Text: "exponent of the regret, " + settings, Want: "< 0.5", Verdict: below(exponent, sqrt),
	})
}

// addReturns compares the regret with a label for each reward with that of a label for each return.
func (r *Report) addReturns(byReward, byReturn [][]float64) {
	last := len(byReward[0]) - 1
	ratio := bootstrap(len(byReward), r.Seed, func(chosen []int) float64 {
		return mean(byReturn, chosen, last) / mean(byReward, chosen, last)
	})
	r.Claims = append(r.Claims, Claim{
		Group: "fixed horizon", Measured: ratio,
		Text: "regret with one label of the return of each episode over that with labels of its rewards, fork",
		Want: "≥ 1", Verdict: atLeast(ratio, 1),
	})
}

// addOffset measures the loss of an episode in the last tenth. While ẑ is near z*, each ψᵀẑ is off
// by at most ξ‖z*‖.
func (r *Report) addOffset(h horizon, curves [][]float64) {
	last, since := h.episodes-1, h.episodes-1-h.episodes/10
	late := bootstrap(len(curves), r.Seed, func(chosen []int) float64 {
		return (mean(curves, chosen, last) - mean(curves, chosen, since)) / float64(last-since)
	})
	r.Claims = append(r.Claims, Claim{
		Group: "fixed horizon", Measured: late,
		Text:    fmt.Sprintf("regret of an episode in the last tenth, ψ off by ξ = %g, fork", h.offset),
		Want:    fmt.Sprintf("≤ 2ξS = %g", 2*h.offset*radius),
		Verdict: atMost(late, 2*h.offset*radius),
	})
	if h.offset < 2*radius { // the best policies stay the best of most tasks
		return
	}
	exponent := Exponent(curves, fitted(h.episodes), r.Seed)
	r.Claims = append(r.Claims, Claim{
		Group: "control", Measured: exponent,
		Text: fmt.Sprintf("exponent of the regret, ψ off by ξ = %g, fork", h.offset), Want: "≥ 0.5",
		Verdict: atLeast(exponent, sqrt),
	})
}

// meanOf returns the mean at an index with a bootstrap interval over runs.
func (r *Report) meanOf(curves [][]float64, index int) Interval {
	return bootstrap(len(curves), r.Seed, func(chosen []int) float64 { return mean(curves, chosen, index) })
}

func atMost(i Interval, limit float64) Verdict { return judge(i.High <= limit, i.Low <= limit) }
