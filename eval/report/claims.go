package report

import "optibfm/eval"

// Bounds that the paper does not give as numbers. They were set before the
// results were seen.
const (
	nearOracle   = 0.95 // of the oracle's return
	equal        = 0.02 // of the oracle's return: a difference that does not count
	robust       = 0.9  // of the return without the disturbance
	graceful     = 0.8  // the same, where some loss is granted
	littleGain   = 0.05 // of the oracle's return: not worth a slower loop
	leastRate    = 0.1  // of the rate of the policy alone
	moderate     = 10   // the greatest α at which successor features count as moderately wrong
	partlyLinear = 2    // the greatest α to which the claim about rewards that are not linear extends
)

// claims are what the paper says, in our words and its order.
var claims = []claim{
	{
		name: "near-oracle", experiment: experimentMain,
		text: "From the fifth episode on, ucb and thompson get 95 % of the return of an oracle that was told the task.",
		checks: []check{
			{text: "ucb, episodes 5 and later, of the oracle's return", of: returns(ucb, 4, anywhere), bound: nearOracle},
			{text: "thompson, episodes 5 and later, of the oracle's return", of: returns(thompson, 4, anywhere), bound: nearOracle},
		},
	},
	{
		name: "baselines", experiment: experimentMain,
		text: "Both do better than LoLA and than acting with random task embeddings.",
		checks: []check{
			better("ucb less lola, all episodes", ucb, lola, 0, anywhere, 0),
			better("ucb less random, all episodes", ucb, random, 0, anywhere, 0),
			better("thompson less lola, all episodes", thompson, lola, 0, anywhere, 0),
			better("thompson less random, all episodes", thompson, random, 0, anywhere, 0),
		},
	},
	{
		name: "ucb-thompson", experiment: experimentMain,
		text:   "From the second episode on, ucb is at least as good as thompson.",
		checks: []check{better("ucb less thompson, episodes 2 and later", ucb, thompson, 1, anywhere, -equal)},
	},
	{
		name: "data", experiment: experimentData,
		text: "Labels that ucb collected tell more about the task than as many of random network distillation.",
		note: "As in the paper, labels of random network distillation are those of whole episodes, drawn at random. The agent that recorded ours learnt for 100,000 transitions.",
		over: &sweep{key: "labels", which: "300 to 3,000 labels", wanted: func(v float64) bool { return v >= 300 && v <= 3000 }},
		checks: []check{{
			text: "return inferred from ucb's labels less from those of random network distillation",
			of:   swept(with(returns(collected, 0, anywhere), "by", ucb)), against: ref(swept(with(returns(collected, 0, anywhere), "by", rnd))),
		}},
	},
	{
		name: "steps-first", experiment: experimentEpisodes,
		text: "Choosing and learning at every step is ahead in the first five episodes.",
		checks: []check{
			better("ucb less ucb_ep, episodes 1 to 5", ucb, ucbEP, 0, 4, 0),
			better("thompson less thompson_ep, episodes 1 to 5", thompson, thompsonEP, 0, 4, 0),
		},
	},
	{
		name: "episodes-later", experiment: experimentEpisodes,
		text: "Choosing and learning once an episode, as the theorem has it, gets there too by the 50th episode.",
		checks: []check{
			{text: "ucb_ep, episodes 41 and later, of the oracle's return", of: returns(ucbEP, 40, anywhere), bound: nearOracle},
			{text: "thompson_ep, episodes 41 and later, of the oracle's return", of: returns(thompsonEP, 40, anywhere), bound: nearOracle},
		},
	},
	{
		name: "drift", experiment: experimentDrift,
		text: "With some ρ below 1, a target that drifts is followed better than with ρ = 1.",
		over: &sweep{key: "rho", which: "ρ below 1", wanted: func(v float64) bool { return v < 1 }, some: true},
		checks: []check{
			{text: "ucb's mean reward less that with ρ = 1", of: swept(rewards(ucb)), against: ref(with(rewards(ucb), "rho", "1"))},
			{text: "thompson's mean reward less that with ρ = 1", of: swept(rewards(thompson)), against: ref(with(rewards(thompson), "rho", "1"))},
		},
	},
	{
		name: "warm", experiment: experimentWarm,
		text: "Labels known beforehand lift the first episode.",
		over: &sweep{key: "warm_start", which: "1,000 labels or more", wanted: func(v float64) bool { return v >= 1000 }},
		checks: []check{
			{text: "ucb's first episode less that without labels", of: swept(returns(ucb, 0, 0)), against: ref(with(returns(ucb, 0, 0), "warm_start", "0"))},
			{text: "thompson's first episode less that without labels", of: swept(returns(thompson, 0, 0)), against: ref(with(returns(thompson, 0, 0), "warm_start", "0"))},
		},
	},
	{
		name: "kappa", experiment: experimentKappa,
		text: "With some κ above 0, a tenth of the labels is enough for the same reward: in the first 10,000 steps 1,000 instead of 10,000.",
		over: &sweep{key: "kappa", which: "κ above 0", wanted: func(v float64) bool { return v > 0 }, some: true},
		checks: []check{
			{text: "ucb's labels of the first 10,000 steps", of: swept(first10000(ucb, eval.MeasureLabels)), bound: 1000, atMost: true},
			{text: "ucb's mean reward of the first 10,000 steps over that with κ = 0", of: swept(first10000(ucb, measureSoFar)), against: ref(with(first10000(ucb, measureSoFar), "kappa", "0")), ratio: true, bound: nearOracle},
		},
	},
	{
		name: "gradient", experiment: experimentCompute,
		text: "Gradient steps gain little over the best of 128 candidates.",
		over: &sweep{key: "gradient_steps", which: "a gradient step or more", wanted: func(v float64) bool { return v > 0 }},
		checks: []check{
			{text: "ucb_gradient less ucb, all episodes", of: swept(returns(ucbGradient, 0, anywhere)), against: ref(with(returns(ucb, 0, anywhere), "candidates", "128")), bound: littleGain, atMost: true},
		},
	},
	{
		name: "gradient-rate", experiment: experimentCompute,
		text: "Eight gradient steps or more make decisions slower than 128 candidates.",
		over: &sweep{key: "gradient_steps", which: "eight gradient steps or more", wanted: func(v float64) bool { return v >= 8 }},
		checks: []check{
			{text: "ucb_gradient's decisions a second over ucb's", of: swept(rates(ucbGradient)), against: ref(with(rates(ucb), "candidates", "128")), ratio: true, bound: 1, atMost: true},
		},
	},
	{
		name: "overhead", experiment: experimentMain,
		text:   "Finding out the task leaves decisions at a tenth or more of the rate of the policy alone.",
		checks: []check{{text: "ucb's decisions a second over the oracle's", of: rates(ucb), against: ref(rates(oracle)), ratio: true, bound: leastRate}},
	},
	{
		name: "inaccurate", experiment: experimentFeatures,
		text:   "Moderately wrong successor features cost little.",
		over:   &sweep{key: "inaccuracy", which: "α above 0, up to 10", wanted: between(0, moderate)},
		checks: []check{kept("inaccuracy", robust)},
	},
	{
		name: "nonlinear", experiment: experimentRewards,
		text:   "Rewards that the features express only in part are followed worse, but not abruptly so.",
		over:   &sweep{key: "nonlinearity", which: "α above 0, up to 2", wanted: between(0, partlyLinear)},
		checks: []check{kept("nonlinearity", graceful)},
	},
	{
		name: "noisy", experiment: experimentNoise,
		text:   "With β = 10, noise on the rewards costs little.",
		over:   &sweep{key: "noise", which: "noise above 0, up to 10", wanted: between(0, 10)},
		checks: []check{noisy()},
	},
	{
		name: "sampler", experiment: experimentSampler,
		text:  "Drawing candidates with R⁻ᵀ instead of R⁻¹, as the published program does, costs return. (This claim is ours.)",
		apart: []string{"sampler"},
		note:  "Each sampler is taken with the hyper-parameters that are best for it.",
		checks: []check{
			{
				text: "ucb with R⁻¹ less with R⁻ᵀ, all episodes",
				of:   with(returns(ucb, 0, anywhere), "sampler", "correct"), against: ref(with(returns(ucb, 0, anywhere), "sampler", "transposed")),
			},
			{
				text: "thompson with R⁻¹ less with R⁻ᵀ, all episodes",
				of:   with(returns(thompson, 0, anywhere), "sampler", "correct"), against: ref(with(returns(thompson, 0, anywhere), "sampler", "transposed")),
			},
		},
	},
}

// returns is a method's mean return relative to the oracle's over the episodes
// from and to, counted from 0.
func returns(method string, from, to float64) quantity {
	return quantity{method: method, measure: eval.MeasureReturn, relative: true, from: from, to: to}
}

func rewards(method string) quantity {
	return quantity{method: method, measure: eval.MeasureReward, from: -anywhere, to: anywhere}
}

// first10000 is what a measure says at the end of the first 10,000 steps. With
// every state labelled, those after resets too, a trial of 10,000 labels ends ten
// steps before that; of one that ended much earlier nothing is taken.
func first10000(method, measure string) quantity {
	return quantity{method: method, measure: measure, from: 9900, to: 10_000}
}

func rates(method string) quantity {
	return quantity{method: method, measure: eval.MeasureHz, from: -anywhere, to: anywhere}
}

func with(q quantity, key, value string) quantity {
	q.where = append(q.where[:len(q.where):len(q.where)], parameter{key, value})
	return q
}

func swept(q quantity) quantity {
	q.swept = true
	return q
}

func ref(q quantity) *quantity { return &q }

// better compares two methods over some episodes.
func better(text, method, than string, from, to, bound float64) check {
	return check{text: text, of: returns(method, from, to), against: ref(returns(than, from, to)), bound: bound}
}

// kept compares ucb's return with that without a disturbance.
func kept(key string, bound float64) check {
	return check{
		text: "ucb's return over that without", of: swept(returns(ucb, 0, anywhere)), against: ref(with(returns(ucb, 0, anywhere), key, "0")),
		ratio: true, bound: bound,
	}
}

func noisy() check {
	k := kept("noise", robust)
	k.of, k.against = with(k.of, "beta", "10"), ref(with(*k.against, "beta", "10"))
	return k
}

func between(above, to float64) func(float64) bool {
	return func(v float64) bool { return v > above && v <= to }
}
