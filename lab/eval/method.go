package eval

import "optibfm/controller"

// The methods.
const (
	UCB         = "ucb"          // OpTI-BFM: a new z every step
	UCBEp       = "ucb_ep"       // a new z every episode
	UCBGradient = "ucb_gradient" // a new z every step, by gradients from ẑ
	UCBSphere   = "ucb_sphere"   // a new z every step, from directions of the whole sphere
	Thompson    = "thompson"     // OpTI-BFM-TS: a new z every step
	ThompsonEp  = "thompson_ep"  // a new z every episode
	Random      = "random"       // a new random z every step, without learning
	Oracle      = "oracle"       // the z inferred from given labelled states
	Collected   = "collected"    // the z inferred from labels that another method collected first
	LoLA        = "lola"         // policy search over z (Sikchi et al., 2025)
)

// method describes how a method is built and which settings it has.
type method struct {
	strategy string   // of the controller; "" for a method with its own plans
	everyEp  bool     // one z an episode
	settings []string // that apply to it
}

var (
	beliefSettings = []string{
		"preset", "prior", "hypotheses", "residuals", "offset", "labels_bad", "noise_model", "freedom", "floor",
		"sigma", "lambda", "rho", "warm_start", "draw", "plan_age",
	}
	labelSettings = []string{
		"stop_when_learnt", "relearn", "kappa", "labels_per_minute", "answers", "operator", "max_labels",
		"noise", "delay_s", "mistakes", "silence", "bias", "levels",
	}
)

func learning(strategy string, everyEp bool, own ...string) method {
	settings := append([]string{"nonlinearity"}, own...)
	if !everyEp {
		settings = append(settings, "replan_every")
	}
	settings = append(settings, beliefSettings...)
	return method{strategy, everyEp, append(settings, labelSettings...)}
}

var methods = map[string]method{
	UCB:       learning(controller.UCB, false, "beta", "candidates", "sampler", "inaccuracy", "error", "action_std"),
	UCBEp:     learning(controller.UCB, true, "beta", "candidates", "sampler", "inaccuracy", "error", "action_std"),
	UCBSphere: learning(controller.UCBSphere, false, "beta", "candidates", "inaccuracy", "error", "action_std"),
	UCBGradient: learning(controller.UCBGradient, false,
		"beta", "gradient_steps", "gradient_rate", "gradient_scale", "moments"),
	Thompson:   learning(controller.Thompson, false, "draw_scale", "held", "hold", "dither", "sampler"),
	ThompsonEp: learning(controller.Thompson, true, "draw_scale", "sampler"),
	Random:     {controller.Random, false, []string{"nonlinearity"}},
	Oracle:     {controller.Fixed, false, []string{"nonlinearity", "labels", "draw", "ridge"}},
	Collected: {controller.Fixed, false, []string{
		"nonlinearity", "labels", "by", "beta", "sigma", "lambda", "draw", "ridge",
	}},
	LoLA: {"", false, []string{"nonlinearity", "noise", "learning_rate", "std", "horizon", "replay"}},
}

// Methods lists the names of the methods.
func Methods() []string {
	return []string{UCB, UCBEp, UCBGradient, UCBSphere, Thompson, ThompsonEp, Random, Oracle, Collected, LoLA}
}
