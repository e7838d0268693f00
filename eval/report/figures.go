package report

import (
	"slices"
	"strings"

	"optibfm/eval"
)

// Names of the experiments, as the protocols have them.
const (
	experimentMain     = "main"
	experimentData     = "data"
	experimentEpisodes = "episodes"
	experimentDrift    = "drift"
	experimentWarm     = "warm"
	experimentKappa    = "kappa"
	experimentGradient = "gradient"
	experimentFeatures = "features"
	experimentRewards  = "nonlinear"
	experimentNoise    = "noise"
	experimentPeople   = "people"
	experimentAsync    = "async"
	experimentSampler  = "sampler"
	experimentCompute  = "compute"
)

const (
	relativeLabel = "return / oracle's"
	rewardLabel   = "mean reward"
)

var (
	byEnv     = []string{"env"}
	byMethod  = []string{"method"}
	episodes  = axis{label: "episode", offset: 1}
	ofEpisode = []shown{everything(eval.MeasureReturn, relativeLabel, true)}
	allReturn = ofEpisode
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
		measures: ofEpisode, x: episodes, panels: byEnv, lines: byMethod,
	},
	{
		name: "data", title: "Worth of the collected data", experiment: experimentData,
		caption:  "Return with the task inferred from n labelled states that different methods collected, as a share of the oracle's.",
		measures: allReturn, x: parameterAxis("n", "labelled states n", ""), panels: byEnv, lines: []string{"data"},
		methods: []string{"inferred", oracle},
	},
	{
		name: "episodes", title: "Updates at every step or every episode", experiment: experimentEpisodes,
		caption:  "The -ep variants choose and learn once an episode, as the theorem has it.",
		measures: ofEpisode, x: episodes, panels: byEnv, lines: byMethod,
	},
	{
		name: "drift", title: "A drifting target", experiment: experimentDrift,
		caption:  "Reward while the speed to hold changes. With ρ below 1 old labels are forgotten.",
		measures: []shown{everything(eval.MeasureReward, rewardLabel, false)}, x: axis{label: "step"},
		panels: []string{"env", "task", "method"}, lines: []string{"rho"}, guide: &speedTarget,
	},
	{
		name: "warm", title: "Warm start", experiment: experimentWarm,
		caption:  "Return of the first episode after n labels were given beforehand.",
		measures: []shown{{measure: eval.MeasureReturn, label: "first return / oracle's", relative: true, from: 0, to: 0}},
		x:        parameterAxis("n", "labels given beforehand n", "0"), panels: byEnv, lines: byMethod,
	},
	{
		name: "kappa", title: "Fewer labels with κ", experiment: experimentKappa,
		caption:  "Mean of all rewards up to the step at which a budget of labels is used up, or to the end where it is not.",
		measures: []shown{everything(measureBudget, rewardLabel, false)}, x: axis{label: "budget of labels", log: true},
		panels: []string{"env", "method"}, lines: []string{"kappa"},
	},
	{
		name: "kappa-use", title: "Labels used and reward by κ", experiment: experimentKappa,
		caption: "Over the whole run: the mean reward, and how many labels were used.",
		measures: []shown{
			everything(eval.MeasureReward, rewardLabel, false),
			{measure: eval.MeasureLabels, label: "labels used", from: -anywhere, to: anywhere, reduce: atLast},
		},
		x: parameterAxis("kappa", "κ", "0"), panels: byEnv, lines: byMethod,
	},
	{
		name: "gradient", title: "Gradient steps", experiment: experimentGradient,
		caption:  "ucb's best candidate, improved by gradient steps: what it gains and what it costs.",
		measures: returnAndRate, x: parameterAxis("steps", "gradient steps", "0"), panels: byEnv, lines: byMethod,
		methods: []string{ucb, ucbGradient},
	},
	{
		name: "samples", title: "Number of candidates", experiment: experimentGradient,
		caption:  "Candidates drawn a decision, from the confidence set (ucb) or from all of Z (ucb_sphere).",
		measures: returnAndRate, x: parameterAxis("samples", "candidates", ""), panels: byEnv, lines: byMethod,
		methods: []string{ucb, ucbSphere},
	},
	{
		name: "features", title: "Inaccurate successor features", experiment: experimentFeatures,
		caption:  "A random network's output, α times, is added to ψ.",
		measures: allReturn, x: parameterAxis("alpha", "α", "0"), panels: byEnv, lines: byMethod,
	},
	{
		name: "nonlinear", title: "Rewards that are not linear in φ", experiment: experimentRewards,
		caption:  "A part of the reward, α times, is outside of what the features can express.",
		measures: allReturn, x: parameterAxis("alpha", "α", "0"), panels: byEnv, lines: byMethod,
	},
	{
		name: "noise", title: "Noisy rewards", experiment: experimentNoise,
		caption:  "Labels with Gaussian noise; the return is that of the true reward.",
		measures: allReturn, x: parameterAxis("noise", "standard deviation of the noise", "0"), panels: byEnv, lines: byMethod,
	},
	peopleFigure("delay_s", "Operators who are late", "delay of a label (s)"),
	peopleFigure("mistakes", "Operators who err", "share of wrong labels"),
	peopleFigure("silence", "Operators who stay silent", "share of requests without an answer"),
	{
		name: "async", title: "Planning beside the loop", experiment: experimentAsync,
		caption:  "Return where z is some ticks old when it is acted on.",
		measures: allReturn, x: parameterAxis("age", "age of z (ticks)", "0"), panels: byEnv, lines: byMethod,
	},
	{
		name: "sampler", title: "What the wrong factor costs", experiment: experimentSampler,
		caption:  "Candidates drawn with R⁻¹, as the posterior asks, against R⁻ᵀ.",
		measures: ofEpisode, x: episodes, panels: byEnv, lines: []string{"method", "sampler"},
	},
}

var returnAndRate = []shown{
	everything(eval.MeasureReturn, relativeLabel, true),
	everything(eval.MeasureHz, "decisions a second (Hz)", false),
}

// peopleFigure shows what labels as people give them cost.
func peopleFigure(key, title, label string) figure {
	return figure{
		name: "people-" + key, title: title, experiment: experimentPeople,
		caption:  "Labels as people give them. Everything else about the operator is at its best.",
		measures: allReturn, x: parameterAxis(key, label, "0"), panels: byEnv, lines: byMethod,
	}
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
		measures: ofEpisode, x: episodes, panels: byEnv, lines: byMethod,
	}
	for _, t := range ts {
		if len(a.oracles.values(t, eval.MeasureReturn)) > 0 {
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
