package report

import (
	"strings"

	"optibfm/lab/eval"
)

// Bounds that the paper does not give as numbers. Those of its claims were set
// before the results were seen; those of ours after a first three trials of
// thompson on the cheetah.
const (
	nearOracle   = 0.95 // of the oracle's return
	equal        = 0.02 // of the oracle's return: a difference that does not count
	robust       = 0.9  // of the return without the disturbance
	graceful     = 0.8  // the same, where some loss is granted
	littleGain   = 0.05 // of the oracle's return: not worth a slower loop
	leastRate    = 0.1  // of the rate of the policy alone
	moderate     = 10   // the greatest α at which successor features count as moderately wrong
	partlyLinear = 2    // the greatest α to which the claim about rewards that are not linear extends
	most         = 0.8  // of the oracle's return: most of it
	realTime     = 50   // decisions a second, as a walking robot's controller makes
	half         = 0.5  // of the return with an exact operator, for one with all weaknesses
	asked        = "30" // labels a minute, at which weaknesses of people are tried
)

// claims are what the paper says, in our words and its order, and then what we ask
// beyond it.
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
		over: &sweep{key: "labels", which: "300 to 3,000 labels", wanted: func(v float64) bool { return v >= 300 && v <= 3000 }, must: []float64{300, 3000}},
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
		over: &sweep{key: "warm_start", which: "1,000 labels or more", wanted: func(v float64) bool { return v >= 1000 }, must: []float64{1000}},
		checks: []check{
			{text: "ucb's first episode less that without labels", of: swept(returns(ucb, 0, 0)), against: ref(with(returns(ucb, 0, 0), "warm_start", "0"))},
			{text: "thompson's first episode less that without labels", of: swept(returns(thompson, 0, 0)), against: ref(with(returns(thompson, 0, 0), "warm_start", "0"))},
		},
	},
	{
		name: "kappa", experiment: experimentKappa, joint: true,
		text:   "With some κ above 0, a tenth of the labels is enough for ucb to get the same reward: in the first 10,000 steps 1,000 instead of 10,000.",
		over:   &sweep{key: "kappa", which: "κ above 0", wanted: func(v float64) bool { return v > 0 }, some: true},
		checks: fewLabels(ucb),
	},
	{
		name: "kappa-thompson", experiment: experimentKappa, joint: true,
		text:   "With some κ above 0, the same is true of thompson.",
		over:   &sweep{key: "kappa", which: "κ above 0", wanted: func(v float64) bool { return v > 0 }, some: true},
		checks: fewLabels(thompson),
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
		over: &sweep{key: "gradient_steps", which: "eight gradient steps or more", wanted: func(v float64) bool { return v >= 8 }, must: []float64{8}},
		checks: []check{
			{text: "ucb_gradient's decisions a second over ucb's", of: swept(rates(ucbGradient)), against: ref(with(rates(ucb), "candidates", "128")), ratio: true, bound: 1, atMost: true},
		},
	},
	{
		name: "candidates", experiment: experimentCompute,
		text: "128 candidates are enough: more gain little.",
		over: &sweep{key: "candidates", which: "more than 128 candidates", wanted: func(v float64) bool { return v > 128 }},
		checks: []check{
			{text: "ucb's return less that with 128 candidates", of: swept(returns(ucb, 0, anywhere)), against: ref(with(returns(ucb, 0, anywhere), "candidates", "128")), bound: littleGain, atMost: true},
			{text: "ucb's decisions a second", of: swept(rates(ucb)), told: true},
		},
	},
	{
		name: "sphere", experiment: experimentCompute,
		text: "The best of 128 candidates of the confidence set is at least as good as that of 512 directions of the whole sphere.",
		checks: []check{
			{text: "ucb with 128 candidates less ucb_sphere, all episodes", of: with(returns(ucb, 0, anywhere), "candidates", "128"), against: ref(returns(ucbSphere, 0, anywhere)), bound: -equal},
		},
	},
	{
		name: "overhead", experiment: experimentMain,
		text:   "Finding out the task leaves decisions at a tenth or more of the rate of the policy alone.",
		checks: []check{{text: "ucb's decisions a second over the oracle's", of: rates(ucb), against: ref(rates(oracle)), ratio: true, bound: leastRate}},
	},
	{
		name: "inaccurate", experiment: experimentFeatures,
		text:   "Moderately wrong successor features cost ucb little.",
		over:   &sweep{key: "inaccuracy", which: "α above 0, up to 10", wanted: between(0, moderate), must: []float64{moderate}},
		checks: []check{kept(ucb, "inaccuracy", robust)},
	},
	{
		name: "nonlinear", experiment: experimentRewards,
		text:   "Rewards that the features express only in part are followed worse, but not abruptly so.",
		over:   &sweep{key: "nonlinearity", which: "α above 0, up to 2", wanted: between(0, partlyLinear), must: []float64{partlyLinear}},
		checks: []check{kept(ucb, "nonlinearity", graceful), kept(thompson, "nonlinearity", graceful)},
	},
	{
		name: "noisy", experiment: experimentNoise,
		text:   "With β = 10, noise on the rewards costs ucb little.",
		over:   &sweep{key: "noise", which: "noise above 0, up to 10", wanted: between(0, 10), must: []float64{10}},
		checks: []check{kept(ucb, "noise", robust).where("beta", "10")},
	},
	{
		name: "navigation", experiment: experimentNavigation,
		text: "In an ant's maze, from the fifth episode on, ucb and thompson get most of the oracle's return, and more than random task embeddings.",
		checks: []check{
			{text: "ucb, episodes 5 and later, of the oracle's return", of: returns(ucb, 4, anywhere), bound: most},
			{text: "thompson, episodes 5 and later, of the oracle's return", of: returns(thompson, 4, anywhere), bound: most},
			better("ucb less random, episodes 5 and later", ucb, random, 4, anywhere, 0),
			better("thompson less random, episodes 5 and later", thompson, random, 4, anywhere, 0),
		},
	},
	{
		name: "sampler", experiment: experimentSampler, ours: true,
		text:  "Drawing candidates with R⁻ᵀ instead of R⁻¹, as the published program does, costs return.",
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
	{
		name: "noisy-thompson", experiment: experimentNoise, ours: true,
		text:   "With σ = 10, noise on the rewards costs thompson little.",
		over:   &sweep{key: "noise", which: "noise above 0, up to 10", wanted: between(0, 10), must: []float64{10}},
		checks: []check{kept(thompson, "noise", robust).where("sigma", "10")},
	},
	{
		name: "real-time", experiment: experimentCompute, ours: true,
		text:   "Finding out the task with 128 candidates needs less than one core at 50 decisions a second.",
		checks: []check{{text: "ucb's decisions a second with 128 candidates", of: with(rates(ucb), "candidates", "128"), bound: realTime}},
	},
	{
		name: "async", experiment: experimentAsync, ours: true,
		text:   "A z that is up to ten steps old costs little.",
		over:   &sweep{key: "plan_age", which: "an age of 1 to 10 steps", wanted: between(0, 10), must: []float64{10}},
		checks: []check{kept(ucb, "plan_age", robust), kept(thompson, "plan_age", robust)},
	},
	{
		name: "people-labels", experiment: experimentPeople, ours: true,
		text: "At some rate up to 120 a minute, labels of an operator who is asked get nine tenths of the return of a label at every step.",
		over: &sweep{key: "labels_per_minute", which: "up to 120 labels a minute", wanted: between(0, 120), some: true},
		checks: []check{
			exact("labels_per_minute", kept(ucb, "labels_per_minute", robust)),
			exact("labels_per_minute", kept(thompson, "labels_per_minute", robust)),
			exact("labels_per_minute", check{text: "labels that ucb used", of: swept(used(ucb)), told: true}),
			exact("labels_per_minute", check{text: "labels that thompson used", of: swept(used(thompson)), told: true}),
		},
	},
	weakness("delay_s", "Labels that come up to 1 s late cost at most a fifth of the return.", "delays up to 1 s", between(0, 1), 1),
	weakness("mistakes", "A tenth of the labels mistaken costs at most a fifth of the return.", "up to a tenth of mistakes", between(0, 0.1), 0.1),
	weakness("silence", "An operator who is away for three quarters of the time costs at most a fifth of the return.", "silence up to three quarters", between(0, 0.75), 0.75),
	weakness("bias", "An operator who is too kind, by up to half of the rewards' range, costs at most a fifth of the return.", "bias up to a half", between(0, 0.5), 0.5),
	weakness("levels", "Buttons instead of exact labels, two or more, cost at most a fifth of the return.", "two buttons or more", between(1, 1000), 2),
	{
		name: "people-all", experiment: experimentPeople, ours: true,
		text:   "An operator with a bit of every weakness gets half of the return of an exact one.",
		note:   "Labels come 1 s late, a tenth is mistaken, a quarter of the time nobody is there, they are too kind by a fifth of the range and have five levels.",
		checks: []check{everyWeakness(ucb), everyWeakness(thompson)},
	},
}

// environments are those of an experiment's protocol that its claims are about, the
// paper's. The built-in rover, where it was run, is judged as well, but not missed.
func environments(experiment string) []string {
	switch experiment {
	case experimentDrift:
		return []string{"walker"}
	case experimentNavigation:
		return []string{"antmaze"}
	}
	return []string{"cheetah", "quadruped", "walker"}
}

// tasks are those of an environment in an experiment's protocol.
func tasks(experiment, env string) []string {
	switch {
	case experiment == experimentDrift:
		return []string{"slowdown", "speedup"}
	case env == "antmaze":
		return []string{"task1", "task2", "task3", "task4", "task5"}
	case env == "cheetah":
		return []string{"run", "run_backward", "walk", "walk_backward"}
	case env == "quadruped":
		return []string{"jump", "run", "stand", "walk"}
	case env == "rover":
		return []string{"corner", "fast", "south_wall", "spin"}
	case env == "walker":
		return []string{"flip", "run", "stand", "walk"}
	}
	return nil
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

// kept compares a method's return with that without a disturbance.
func kept(method, key string, bound float64) check {
	return check{
		text: method + "'s return over that without", of: swept(returns(method, 0, anywhere)), against: ref(with(returns(method, 0, anywhere), key, "0")),
		ratio: true, bound: bound,
	}
}

// where restricts a check to trials with a parameter.
func (k check) where(key, value string) check {
	k.of = with(k.of, key, value)
	if k.against != nil {
		k.against = ref(with(*k.against, key, value))
	}
	return k
}

// fewLabels asks for the same reward with a tenth of the labels.
func fewLabels(method string) []check {
	reward := first10000(method, measureSoFar)
	return []check{
		{text: method + "'s labels of the first 10,000 steps", of: swept(first10000(method, eval.MeasureLabels)), bound: 1000, atMost: true},
		{text: method + "'s mean reward of the first 10,000 steps over that with κ = 0", of: swept(reward), against: ref(with(reward, "kappa", "0")), ratio: true, bound: nearOracle},
	}
}

// used is the number of labels of a trial.
func used(method string) quantity {
	return quantity{method: method, measure: eval.MeasureLabels, from: -anywhere, to: anywhere}
}

// exact restricts a check to operators without weaknesses, but for what is swept,
// whose labels are not doubted.
func exact(swept string, k check) check {
	k = k.where("robust", "0")
	for _, key := range weaknesses {
		if key != swept {
			k = k.where(key, "0")
		}
	}
	return k
}

// weakness is the claim that one weakness of an operator who is asked costs at most
// a fifth of the return. That of smaller ones is measured, too.
func weakness(key, text, which string, wanted func(float64) bool, must float64) claim {
	c := claim{name: "people-" + strings.TrimSuffix(key, "_s"), experiment: experimentPeople, ours: true, text: text, over: &sweep{key: key, which: which, wanted: wanted, must: []float64{must}}}
	for _, method := range []string{ucb, thompson} {
		c.checks = append(c.checks, exact(key, kept(method, key, graceful)).where("labels_per_minute", asked))
	}
	return c
}

// everyWeakness compares an operator with all weaknesses with an exact one.
func everyWeakness(method string) check {
	exactly := exact("", check{of: with(returns(method, 0, anywhere), "labels_per_minute", asked)}).of
	every := with(with(returns(method, 0, anywhere), "labels_per_minute", asked), "robust", "0")
	for _, p := range ordinary {
		every = with(every, p.key, p.value)
	}
	return check{text: method + "'s return over that with an exact operator", of: every, against: ref(exactly), ratio: true, bound: half}
}

func between(above, to float64) func(float64) bool {
	return func(v float64) bool { return v > above && v <= to }
}
