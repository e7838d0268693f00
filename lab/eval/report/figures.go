package report

import (
	"slices"
	"strings"

	"optibfm/lab/eval"
)

// Names of the experiments, as the protocols have them.
const (
	experimentMain     = "main"
	experimentData     = "data_efficiency"
	experimentEpisodes = "episode_level"
	experimentDrift    = "drift"
	experimentWarm     = "warm_start"
	experimentKappa    = "kappa"
	experimentCompute  = "compute"
	experimentFeatures = "inaccurate"
	experimentRewards  = "nonlinear"
	experimentNoise    = "noisy"
	experimentPeople   = "people"
	experimentAsync    = "async"
	experimentSampler  = "sampler"

	experimentNavigation = "navigation"
)

const (
	relativeLabel = "return / oracle's"
	rewardLabel   = "mean reward"
)

var (
	byEnv         = []string{"env"}
	byMethod      = []string{"method"}
	episodes      = axis{label: "episode", offset: 1}
	returned      = everything(eval.MeasureReturn, relativeLabel, true)
	ofReturn      = []shown{returned}
	returnAndRate = []shown{returned, everything(eval.MeasureHz, "decisions a second (Hz)", false)}
)

// parameterAxis draws against a parameter, of which trials that lack it have
// the value missing.
func parameterAxis(key, label, missing string) axis {
	return axis{key: key, label: label, missing: missing}
}

// figures are declared in the paper's order, then ours.
var figures = []figure{
	{
		name: "main", title: "Main comparison", experiment: experimentMain,
		caption:  "Return of each episode as a share of the oracle's, which was told the task by 50,000 labels. Mean over tasks.",
		measures: ofReturn, x: episodes, panels: byEnv, lines: byMethod,
	},
	{
		name: "promised", title: "What the model promises ucb, and what it gets", experiment: experimentMain,
		caption:  "What the scores of the chosen z say of an episode's return, and that return. The bonus is part of a score, so that more is promised at first; where that stays so, the successor features or the learned reward are wrong.",
		measures: []shown{everything(eval.MeasurePromised, "promised / oracle's return", true), returned}, x: episodes, panels: byEnv, lines: byMethod,
		methods: []string{ucb}, keep: func(t *trial) bool { return len(t.curves[eval.MeasurePromised]) > 0 },
	},
	{
		name: "data", title: "Worth of the collected labels", experiment: experimentData,
		caption:  "Return with the task inferred from the first labels that a method collected, or from as many of the states that the oracle has.",
		measures: ofReturn, x: parameterAxis("labels", "labels", ""), panels: byEnv, lines: []string{"by"}, absent: "the oracle's states",
		methods: []string{collected, oracle},
	},
	{
		name: "episodes", title: "A new z every step or every episode", experiment: experimentEpisodes,
		caption:  "The _ep variants choose z once an episode, as the theorem has it.",
		measures: ofReturn, x: episodes, panels: byEnv, lines: byMethod,
	},
	{
		name: "drift", title: "A drifting target", experiment: experimentDrift,
		caption:  "Reward while the speed to hold changes. With ρ below 1 old labels are forgotten.",
		measures: []shown{everything(eval.MeasureReward, rewardLabel, false)}, x: axis{label: "step"},
		panels: []string{"env", "task", "method"}, lines: []string{"rho"}, methods: []string{ucb, thompson}, guide: &speedTarget,
	},
	{
		name: "warm", title: "Warm start", experiment: experimentWarm,
		caption:  "Return of the first episode where some labels were known beforehand. The oracle has no others.",
		measures: []shown{{measure: eval.MeasureReturn, label: "first return / oracle's", relative: true, from: 0, to: 0}},
		x:        axis{key: "warm_start", oracle: "labels", missing: "0", label: "labels known beforehand"}, panels: byEnv, lines: byMethod,
		methods: []string{ucb, thompson, oracle},
	},
	{
		name: "kappa", title: "Fewer labels with κ", experiment: experimentKappa,
		caption:  "Mean of all rewards up to the step at which a budget of labels is used up, or to the end where it is not.",
		measures: []shown{everything(measureBudget, rewardLabel, false)}, x: axis{label: "budget of labels", log: true},
		panels: []string{"env", "method"}, lines: []string{"kappa"}, absent: everyStep,
	},
	{
		name: "kappa-use", title: "Labels used with κ", experiment: experimentKappa,
		caption:  "Labels used so far. A run ends where its last budget is used up.",
		measures: []shown{everything(eval.MeasureLabels, "labels used", false)}, x: axis{label: "step"},
		panels: []string{"env", "method"}, lines: []string{"kappa"}, absent: everyStep,
	},
	{
		name: "gradient", title: "Gradient steps", experiment: experimentCompute,
		caption:  "z by gradient steps from the belief's mean, against the best of 128 candidates: what it gains and what it costs.",
		measures: returnAndRate, x: parameterAxis("gradient_steps", "gradient steps", "0"), panels: byEnv, lines: byMethod,
		methods: []string{ucb, ucbGradient},
		keep:    func(t *trial) bool { return t.method != ucb || usual(t.params.get("candidates")) },
	},
	{
		name: "candidates", title: "Number of candidates", experiment: experimentCompute,
		caption:  "Candidates of a decision, drawn from the confidence set (ucb) or from the whole sphere (ucb_sphere).",
		measures: returnAndRate, x: parameterAxis("candidates", "candidates", ""), panels: byEnv, lines: byMethod,
		methods: []string{ucb, ucbSphere},
	},
	{
		name: "inaccurate", title: "Inaccurate successor features", experiment: experimentFeatures,
		caption:  "A random network's output, α times, is added to ψ. thompson does not use ψ.",
		measures: ofReturn, x: parameterAxis("inaccuracy", "α", "0"), panels: byEnv, lines: byMethod,
	},
	{
		name: "nonlinear", title: "Rewards that are not linear in φ", experiment: experimentRewards,
		caption:  "What φ cannot express of the reward is taken α times: 0 is linear, 1 is the task's own reward.",
		measures: ofReturn, x: parameterAxis("nonlinearity", "α", ""), panels: byEnv, lines: byMethod,
	},
	{
		name: "noisy", title: "Noisy rewards", experiment: experimentNoise,
		caption:  "Labels with Gaussian noise; the return is that of the true reward.",
		measures: ofReturn, x: parameterAxis("noise", "standard deviation of the noise", "0"), panels: byEnv, lines: byMethod,
	},
	{
		name: "navigation", title: "Navigation", experiment: experimentNavigation,
		caption:  "An ant in a maze. Return of each episode as a share of the oracle's. Mean over goals.",
		measures: ofReturn, x: episodes, panels: byEnv, lines: byMethod,
	},
	{
		name: "people", title: "Labels by people", experiment: experimentPeople,
		caption:  "A label for every step, as the literature has it, against 30 a minute from a person who is asked, without and with a person's weaknesses.",
		measures: ofReturn, x: episodes, panels: byEnv, lines: []string{"method", "labels by"}, vary: append(weaknesses, "labels_per_minute"),
		keep: func(t *trial) bool {
			who := t.params.person()
			return !t.params.doubts() && who != weakPerson && (who == everyStep || t.params.get("labels_per_minute") == "30")
		},
	},
	{
		name: "people-labels", title: "Labels a minute", experiment: experimentPeople,
		caption:  "κ follows how many labels a minute an exact operator grants.",
		measures: ofReturn, x: episodes, panels: []string{"env", "method"}, lines: []string{"labels_per_minute"}, absent: everyStep,
		methods: []string{ucb, thompson},
		keep: func(t *trial) bool {
			who := t.params.person()
			return !t.params.doubts() && (who == everyStep || who == exactPerson)
		},
	},
	weaknessFigure("delay_s", "Operators who are late", "delay of a label (s)"),
	doubted(weaknessFigure("mistakes", "Operators who err", "share of labels that take good for bad")),
	weaknessFigure("silence", "Operators who are away", "share of the time away"),
	weaknessFigure("bias", "Operators who are too kind", "added to each label (parts of the range)"),
	weaknessFigure("levels", "Operators with few buttons", "levels of a label (0: exact)"),
	{
		name: "async", title: "Planning beside the loop", experiment: experimentAsync,
		caption:  "Return where z was chosen some steps before it is followed; 0 is lockstep.",
		measures: ofReturn, x: parameterAxis("plan_age", "age of z (steps)", "0"), panels: byEnv, lines: byMethod,
	},
	{
		name: "sampler", title: "What a transposed factor costs", experiment: experimentSampler,
		caption:  "Candidates drawn with R⁻¹, as the posterior asks (correct), against R⁻ᵀ (transposed).",
		measures: ofReturn, x: episodes, panels: byEnv, lines: []string{"method", "sampler"},
		apart: []string{"sampler"},
	},
}

// usual says whether a number of candidates is the paper's.
func usual(candidates string) bool { return candidates == "" || candidates == "128" }

// weaknessFigure shows what one weakness of people costs, without any other.
func weaknessFigure(key, title, label string) figure {
	return figure{
		name: "people-" + strings.TrimSuffix(key, "_s"), title: title, experiment: experimentPeople,
		caption:  "30 labels a minute from a person without any other weakness.",
		measures: ofReturn, x: parameterAxis(key, label, "0"), panels: byEnv, lines: byMethod,
		methods: []string{ucb, thompson},
		keep: func(t *trial) bool {
			who := t.params.person()
			return !t.params.doubts() && t.params.get("labels_per_minute") == "30" && (who == exactPerson || who == weakPerson && t.params.has(key))
		},
	}
}

// doubted adds to a weakness's figure the learners that doubt labels.
func doubted(f figure) figure {
	plain := f.keep
	f.caption += " robust: a label that is off by more than that counts less, in proportion."
	f.lines = []string{"method", "robust"}
	f.keep = func(t *trial) bool {
		undoubting := *t
		undoubting.params = t.params.without([]string{"robust"})
		return plain(&undoubting)
	}
	return f
}

// speedTarget is the speed that the drifting tasks want, of at most 5 m/s: it
// changes between the steps 10,000 and 20,000.
var speedTarget = guide{
	label: "target speed / 5 m/s",
	at: map[string]curve{
		"speedup":  {{0, 0}, {10_000, 0}, {20_000, 1}, {30_000, 1}},
		"slowdown": {{0, 1}, {10_000, 1}, {20_000, 0}, {30_000, 0}},
	},
}

// plainFigure is made for an experiment that has no declaration.
func (a *analysis) plainFigure(experiment string) figure {
	ts := a.trials.of(experiment)
	f := figure{
		name: fileName(experiment), title: experiment, experiment: experiment,
		caption:  "An experiment without a figure of its own: what it measured, plainly.",
		measures: ofReturn, x: episodes, panels: byEnv, lines: byMethod,
	}
	for _, t := range ts {
		if len(t.curves[eval.MeasureReturn]) > 0 && len(a.oracles.values(t, eval.MeasureReturn).values) > 0 {
			return f
		}
	}
	measures := ts.measures()
	f.measures, f.x = []shown{everything(measures[0], measures[0], false)}, axis{label: "x"}
	if slices.Contains(measures, eval.MeasureReturn) {
		f.measures, f.x = []shown{everything(eval.MeasureReturn, eval.MeasureReturn, false)}, episodes
	}
	return f
}

// fileName is a name that is safe as a file's.
func fileName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
	return "other-" + safe[:min(len(safe), 60)]
}
