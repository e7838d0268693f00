package controller

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"optibfm/internal/keys"
	"optibfm/posterior"
	"optibfm/tflite"
)

// The strategies.
const (
	UCB         = "ucb"          // optimism: the best of n candidates from the confidence ellipsoid
	UCBSphere   = "ucb_sphere"   // the same score over n candidates from the whole sphere
	UCBGradient = "ucb_gradient" // the same score, maximised from the mean of the belief
	Thompson    = "thompson"     // a sample of the posterior
	Random      = "random"       // a uniform direction: a baseline that does not learn
	Fixed       = "fixed"        // a given z
)

// The priors of z.
const (
	AutoPrior = "auto"      // task for a model with a task prior, else isotropic
	TaskPrior = "task"      // N(0, LLᵀ/λ), see Basis
	Isotropic = "isotropic" // N(0, I/λ), as in the paper
)

// Priors lists the priors.
func Priors() []string { return []string{AutoPrior, TaskPrior, Isotropic} }

// Strategies lists the strategies.
func Strategies() []string { return []string{UCB, UCBSphere, UCBGradient, Thompson, Random, Fixed} }

// ErrConfig is wrapped by every error about a configuration.
var ErrConfig = errors.New("controller: configuration")

// Config configures the controller. The zero value is not valid; start from
// DefaultConfig.
type Config struct {
	// Preset names the values of the keys that a file does not set: person or paper.
	Preset string `yaml:"preset"`

	// Strategy is ucb, ucb_sphere, ucb_gradient, thompson, random or fixed.
	Strategy   string `yaml:"strategy"`
	Candidates int    `yaml:"candidates" rule:"[0, 65536]"`       // n, candidates of ucb and ucb_sphere; 0: 128 and 512
	Replan     uint64 `yaml:"replan_every_ticks" rule:"[0, inf)"` // ticks between plans; 0: at episode starts only

	Beta Beta `yaml:"beta"` // weight of the uncertainty bonus

	// Prior of z is task (the model's task prior), isotropic, or auto: task if the model has it.
	Prior string `yaml:"prior"`
	// Lambda is the precision of the prior, in [1e-9, 1e9]. 1 leaves the task prior as it is.
	Lambda float64 `yaml:"lambda" rule:"[1e-9, 1e9]"`
	// Hypotheses weighs the examples of the task prior by the labels, while there are at most 300
	// labels. It affects thompson and ẑ.
	Hypotheses bool `yaml:"hypotheses"`
	// Offset is the prior standard deviation of the operator's zero, in [0, 1e6]. Above 0, offset,
	// sigma and noise.floor are on the scale of controller.labels. With 0, the zero is 0, and labels
	// are learnt as they are.
	Offset float64 `yaml:"offset" rule:"[0, 1e6]"`
	// Labels is the scale on which the belief learns labels, with an offset.
	Labels LabelsConfig `yaml:"labels"`

	Sigma        float64 `yaml:"sigma" rule:"[1e-6, 1e6]"` // σ of a label's noise, in [1e-6, 1e6]: labels weigh w/σ²
	Rho          float64 `yaml:"rho" rule:"(0, 1]"`        // forgetting: weight of a label after one period, in (0, 1]
	ExactRestore bool    `yaml:"exact_restore"`            // restore the prior each tick, O(d³), if ρ^(d-1) < 0.5

	Noise NoiseConfig `yaml:"noise"`

	Draw     DrawConfig     `yaml:"draw"`     // for thompson
	Gradient GradientConfig `yaml:"gradient"` // for ucb_gradient

	FixedZ []float64 `yaml:"fixed_z,omitempty" rule:"finite"` // z for the fixed strategy, [d]
	Seed   uint64    `yaml:"seed" rule:"[0, inf)"`            // of candidates, samples and the fallback direction

	Gate   GateConfig   `yaml:"gate"`
	Credit CreditConfig `yaml:"credit"`
	Guard  GuardConfig  `yaml:"guard"`

	Explore ExploreConfig `yaml:"explore"`

	MaxPlanAge uint64 `yaml:"max_plan_age_ticks" rule:"[1, inf)"` // an older z halts the robot

	// Basis is that of the model's task prior. Prior task requires it.
	Basis *Basis `yaml:"-" json:",omitempty"`

	// FormerTasks are further hypotheses: saved tasks in the coordinates of Basis, see FormerTask.
	// These coordinates do not include them.
	FormerTasks [][]float64 `yaml:"-" json:",omitempty"`

	// LabelRange is that of the operator's device. Zero, as in the log of an earlier program: the
	// belief learns labels as they are.
	LabelRange LabelRange `yaml:"-" json:",omitzero"`
}

// NoiseConfig configures the model of the noise of labels.
type NoiseConfig struct {
	Estimate bool    `yaml:"estimate"`                // estimate σ; sigma is a first guess that counts for ten labels
	Floor    float64 `yaml:"floor" rule:"[0, 1e6]"`   // lowest estimate of σ, in [0, 1e6]: about the resolution of labels
	Freedom  float64 `yaml:"freedom" rule:"[0, 1e6]"` // degrees of freedom of Student's t; 0: normally distributed
}

// DrawConfig configures the draws of thompson.
type DrawConfig struct {
	Scale float64 `yaml:"scale" rule:"[0, 1000]"`     // of the standard deviation; 1: as in the paper; 0: z is ẑ
	Held  float64 `yaml:"held" rule:"[0, 1]"`         // share of the variance that is held, in [0, 1]; 0: as in the paper
	Ticks uint64  `yaml:"hold_ticks" rule:"[1, inf)"` // for which it is held, at least 1
	// Dither is the standard deviation of noise on each element of z, new in each plan, in units of
	// ‖z‖, in [0, 1e3]. It frees a robot from states that a policy does not leave: it applies while
	// z expects less reward in the current state than in the average state. 0: none, as in the
	// paper.
	Dither float64 `yaml:"dither" rule:"[0, 1000]"`
}

// GradientConfig configures Adam (Kingma & Ba, "Adam: A Method for Stochastic
// Optimization", 2015) for ucb_gradient.
type GradientConfig struct {
	Steps        int     `yaml:"steps" rule:"[1, 1000]"`       // gradients per plan, in [1, 1000]; the paper: 2 to 16
	LearningRate float64 `yaml:"learning_rate" rule:"(0, 10]"` // step of an element of z if ‖z‖ = √d, in (0, 10]
	Absolute     bool    `yaml:"absolute"`                     // the step is of z as it is, as in the paper: 0.1
	KeepMoments  bool    `yaml:"keep_moments"`                 // keep Adam's moments between episodes, as in the paper
}

// GateConfig configures the label gate.
type GateConfig struct {
	Kappa             float64 `yaml:"kappa" rule:"[0, inf)"`                 // smallest D-gap of a request, nats, >= 0
	RequestsPerMinute int     `yaml:"requests_per_minute" rule:"[0, 10000]"` // upper limit in any 60 s; 0: no limit
	TimeoutS          float64 `yaml:"timeout_s" rule:"(0, 3600]"`            // an unanswered request expires after this
	// BackoffS is the pause after an expired request. It doubles with each one.
	BackoffS    float64 `yaml:"backoff_s" rule:"[0, 86400]"`
	BackoffMaxS float64 `yaml:"backoff_max_s" rule:"[0, 86400]"` // longest pause
	// LabelsPerMinute is the operator's budget, to which κ adapts. 0: κ is kappa.
	LabelsPerMinute float64 `yaml:"labels_per_minute" rule:"[0, 1000]"`
	// StopWhenLearnt estimates when the task is learnt, and then asks for no labels.
	StopWhenLearnt bool `yaml:"stop_when_learnt"`
	// Relearn restarts the inference when labels show another task. The operator can take this
	// back.
	Relearn bool `yaml:"relearn"`
	// Pause is hold to let the robot stand still while a request is open.
	Pause string `yaml:"pause" rule:"hold|"`
	Off   bool   `yaml:"off,omitempty"` // never ask: all labels come unasked
}

// Predicts reports whether the controller estimates how well the belief predicts labels.
func (g GateConfig) Predicts() bool { return g.StopWhenLearnt || g.Relearn }

// PauseHold in GateConfig.Pause lets the robot stand still while a request is open.
const PauseHold = "hold"

// How a robot stands still: Parts.Hold.
const (
	HoldFailsafe = "failsafe"     // with its failsafe output: a robot with commands of speed
	HoldLast     = "last_command" // with its last command: a robot with commands of position
)

// Holds lists the ways to stand still.
func Holds() []string { return []string{HoldFailsafe, HoldLast} }

// The moments that an answer to a request may be about.
const (
	AtRequest  = "request"     // the state of the request
	AtClip     = "clip"        // the states up to 0.5 s before and after the request; the middle counts most
	UntilPress = "until_press" // the states between the request and delay_s before the press, at most a second
	Estimated  = "estimated"   // the request, or a window before the press: what the labels show, see ReactionState
)

// AnswerMoments lists them.
func AnswerMoments() []string { return []string{AtRequest, AtClip, UntilPress, Estimated} }

// Choices lists the values of a key that has choices.
func (CreditConfig) Choices(key string) []string {
	return map[string][]string{"answers": AnswerMoments()}[key]
}

// CreditConfig chooses the states that a label is about. An unasked press is about
// those sensed between delay + width and delay before it.
type CreditConfig struct {
	Answers string     `yaml:"answers"`                 // request, clip, until_press or estimated; empty: request
	DelayS  float64    `yaml:"delay_s" rule:"[0, 600]"` // shortest reaction time, s, >= 0
	WidthS  float64    `yaml:"width_s" rule:"[0, 600]"` // length of the window, s, >= 0
	Held    HeldConfig `yaml:"held"`
	// CompareS is the time between the moments of a comparison, s, >= 0. 0 refuses comparisons.
	CompareS float64 `yaml:"compare_s" rule:"[0, 600]"`
}

// HeldConfig is the credit window of each label of a stream, which a deflected
// axis or a held button gives.
type HeldConfig struct {
	DelayS float64 `yaml:"delay_s" rule:"[0, 600]"` // reaction time while tracking, s, >= 0
	WidthS float64 `yaml:"width_s" rule:"[0, 600]"` // length of the window, s, >= 0; about the time between two labels
}

// GuardConfig configures the guards.
type GuardConfig struct {
	MaxBadTicks int `yaml:"max_bad_ticks" rule:"[0, 1000]"` // consecutive bad ticks tolerated; one more halts
}

// The presets.
const (
	Person = "person" // PersonConfig
	Paper  = "paper"  // DefaultConfig
)

// Presets lists the presets.
func Presets() []string { return []string{Person, Paper} }

// Choices lists the values of a key that has choices.
func (Config) Choices(key string) []string {
	return map[string][]string{"strategy": Strategies(), "prior": Priors(), "preset": Presets()}[key]
}

// Preset returns the configuration of a preset, DefaultConfig for an unknown name.
func Preset(name string) Config {
	if name == Person {
		return PersonConfig()
	}
	return DefaultConfig()
}

// personBeta is β for the strategy ucb with few labels. The bonus β‖ψ‖ adds the uncertainty of
// every step of the horizon: with the paper's 1 it outweighs what few labels say.
const personBeta = 0.01

// PersonConfig returns the settings that learn best from the few, late and imprecise labels of a
// person: thompson with the model's task prior, an offset, an estimated noise with heavy tails, and
// smaller draws that are held.
func PersonConfig() Config {
	c := DefaultConfig()
	c.Preset, c.Strategy = Person, Thompson
	c.Prior, c.Offset, c.Sigma, c.Hypotheses = AutoPrior, 0.7, 0.15, true
	c.Noise = NoiseConfig{Estimate: true, Floor: 0.1, Freedom: 1.5}
	c.Beta.Value = personBeta
	c.Credit.Answers = Estimated
	c.Draw = DrawConfig{Scale: 0.7, Held: 0.5, Ticks: 10, Dither: 0.14}
	c.Gate.Relearn = true
	return c
}

// DefaultConfig returns ucb as in the paper: n = 128, β = 1, λ = 1, ρ = 1, a
// plan every tick.
func DefaultConfig() Config {
	return Config{
		Preset: Paper,

		Strategy: UCB,
		Replan:   1,
		Beta:     Beta{Schedule: Constant, Value: 1},
		Prior:    Isotropic,
		Sigma:    1,
		Lambda:   1,
		Labels:   LabelsConfig{Bad: 0, Good: 1},
		Rho:      1,
		Draw:     DrawConfig{Scale: 1, Ticks: 1},
		Gradient: GradientConfig{Steps: 8, LearningRate: 0.01},
		Gate: GateConfig{
			TimeoutS: 5, RequestsPerMinute: 30, BackoffS: 1, BackoffMaxS: 60,
		},
		Credit: CreditConfig{
			Answers: AtRequest, DelayS: 0.2, WidthS: 0.4, Held: HeldConfig{DelayS: 0.3, WidthS: 0.2},
			CompareS: 2,
		},
		Guard:      GuardConfig{MaxBadTicks: 3},
		MaxPlanAge: 25,
	}
}

// PaperBelief returns a configuration with the paper's prior, noise and draws and no other values:
// those of programs that could not configure them.
func PaperBelief() Config {
	return Config{Prior: Isotropic, Draw: DrawConfig{Scale: 1, Ticks: 1}}
}

// Validate reports all mistakes in c for a model of latent dimension d; d = 0
// omits the checks that depend on the model. The error wraps ErrConfig and a
// *FieldError for each mistake.
func (c Config) Validate(d int) error {
	var v mistakes
	v.breaches(c)
	c.checkPlanning(&v, d)
	c.checkBelief(&v, d)
	c.LabelRange.check(&v)
	c.Labels.check(&v, c.LabelRange)
	c.Gate.check(&v)
	c.Credit.check(&v)
	c.Explore.check(&v, d)
	if len(v.errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrConfig, errors.Join(v.errs...))
}

func (c CreditConfig) check(v *mistakes) {
	for _, w := range []struct {
		key          string
		delay, width float64
	}{{"credit", c.DelayS, c.WidthS}, {"credit.held", c.Held.DelayS, c.Held.WidthS}} {
		if w.delay+w.width > 600 {
			v.add(w.key, w.delay+w.width, "keep delay_s + width_s within 600")
		}
	}
}

func (c Config) checkPlanning(v *mistakes, d int) {
	if !v.within("beta") {
		if _, err := c.Beta.schedule(); err != nil {
			v.add("beta", c.Beta, err.Error())
		}
	}
	c.checkFixedZ(v, d)
}

func (c Config) checkFixedZ(v *mistakes, d int) {
	if c.Strategy == Fixed && len(c.FixedZ) == 0 {
		v.add("fixed_z", "nothing", "set the z of the fixed strategy")
	}
	if len(c.FixedZ) == 0 {
		return
	}
	if d > 0 && len(c.FixedZ) != d {
		v.add("fixed_z", fmt.Sprintf("%d numbers", len(c.FixedZ)), fmt.Sprintf("the model needs %d", d))
	}
	if length := norm(c.FixedZ); !finite(length) || length < tinyNorm {
		v.add("fixed_z", fmt.Sprintf("a norm of %g", length), "use finite numbers that are not all 0")
	}
}

func (c Config) checkBelief(v *mistakes, d int) {
	if d > 0 && c.Prior == TaskPrior && c.Basis == nil {
		v.add("prior", c.Prior, "the model has no task prior: add one with `optibfm model prior`, or use isotropic")
	}
	if d > 0 && c.basis() != nil && c.Basis.dim() != d {
		v.add("prior", c.Prior, fmt.Sprintf("its task prior has %d features, the model has %d", c.Basis.dim(), d))
	}
	c.checkFormerTasks(v)
	if d == 0 || len(v.errs) > 0 {
		return
	}
	if _, err := c.NewBelief(d); err != nil {
		v.add("rho", c.Rho, err.Error())
	}
}

func (c Config) checkFormerTasks(v *mistakes) {
	if n := len(c.FormerTasks); n > MaxFormerTasks {
		v.add("hypotheses", fmt.Sprintf("%d saved tasks", n), fmt.Sprintf("use at most %d", MaxFormerTasks))
	}
	for _, u := range c.FormerTasks {
		if basis := c.basis(); basis != nil && len(u) != basis.size() || !possibleTask(u) {
			v.add("hypotheses", fmt.Sprintf("a saved task of %d numbers", len(u)), "use tasks of the model's task prior")
			return
		}
	}
}

func (g GateConfig) check(v *mistakes) {
	if n := g.RequestsPerMinute; n > 0 && g.LabelsPerMinute > float64(n) {
		v.add("gate.labels_per_minute", g.LabelsPerMinute,
			fmt.Sprintf("use at most requests_per_minute (%d), or raise requests_per_minute", n))
	}
	if g.Pause == PauseHold && g.BackoffS == 0 {
		v.add("gate.backoff_s", g.BackoffS, "use a number above 0: with gate.pause hold the robot would never move")
	}
	if g.BackoffMaxS < g.BackoffS {
		v.add("gate.backoff_max_s", g.BackoffMaxS, "use at least backoff_s")
	}
}

// mistakes collects the mistakes in a configuration.
type mistakes struct{ errs []error }

func (v *mistakes) add(key string, found any, fix string) {
	v.errs = append(v.errs, &FieldError{Key: key, Found: found, Fix: fix})
}

// breaches adds the values that break the rules of their keys. The logs of earlier programs have no
// preset and no credit.answers.
func (v *mistakes) breaches(c Config) {
	keys.Each(reflect.ValueOf(c), func(path string, x reflect.Value, r keys.Rule) {
		if x.Kind() == reflect.String && x.IsZero() && (path == "preset" || path == "credit.answers") {
			return
		}
		if r.Problem(x) != "" {
			v.add(path, x.Interface(), fmt.Sprintf("choose %v", r))
		}
	})
}

// within reports whether there are mistakes in a section.
func (v *mistakes) within(section string) bool {
	return slices.ContainsFunc(v.errs, func(err error) bool {
		return strings.HasPrefix(err.(*FieldError).Key, section+".")
	})
}

// FieldError is a mistake in one key of a configuration.
type FieldError struct {
	Key   string // path within Config, such as "gate.kappa"
	Found any
	Fix   string
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: found %v; %s", e.Key, e.Found, e.Fix) }

// NumCandidates returns the number of candidates that a plan evaluates, by default the
// strategy's own number. It is 0 for strategies that evaluate none.
func (c Config) NumCandidates() int {
	switch {
	case c.Strategy != UCB && c.Strategy != UCBSphere:
		return 0
	case c.Candidates > 0:
		return c.Candidates
	case c.Strategy == UCBSphere:
		return 512
	}
	return 128
}

// ticks converts seconds to periods, rounded up, and returns at least least.
func ticks(seconds float64, period time.Duration, least uint64) uint64 {
	n := uint64(math.Ceil(seconds*float64(time.Second)/float64(period) - 1e-9))
	return max(n, least)
}

// NewBelief returns the belief of this configuration before the first label.
func (c Config) NewBelief(d int) (*posterior.Belief, error) {
	options := []posterior.Option{posterior.WithNuisance(c.nuisance())}
	if c.ExactRestore {
		options = append(options, posterior.WithExactRestore())
	}
	if c.Noise.Estimate {
		options = append(options, posterior.WithMovablePrior())
	}
	return posterior.New(d+c.nuisance(), c.priorPrecision(), c.Rho, options...)
}

// nuisance returns the number of dimensions of the belief that are not of the task.
func (c Config) nuisance() int {
	n := 0
	if c.Offset > 0 {
		n = 1
	}
	if basis := c.basis(); basis != nil {
		n += basis.nuisance()
	}
	return n
}

// priorPrecision returns the precision of the belief's prior. With an estimated σ, the belief is
// that of labels with σ = 1.
func (c Config) priorPrecision() float64 {
	if !c.Noise.Estimate {
		return c.Lambda
	}
	return float64(c.Lambda * float64(c.Sigma*c.Sigma))
}

// Deviation returns the standard deviation of the expected label, see [Config.Expected], at features
// with ‖φ‖²_{V⁻¹} = normSq, for a present σ, see [Learner.Sigma].
func (c Config) Deviation(normSq, sigma float64) float64 {
	return c.labelScale().unit * c.Scale(sigma) * math.Sqrt(normSq)
}

// Scale returns the standard deviation of z in units of R⁻¹ for a present σ, see [Learner.Sigma] and
// [Learner.Scale].
func (c Config) Scale(sigma float64) float64 {
	if c.Noise.Estimate {
		return sigma / c.labelScale().unit
	}
	return 1
}

// labelWeight returns the weight of a label of confidence 1 and age 0.
func (c Config) labelWeight() float64 {
	if c.Noise.Estimate {
		return 1
	}
	return 1 / float64(c.Sigma*c.Sigma)
}

// basis returns the basis of the belief, nil for that of z.
func (c Config) basis() *Basis {
	if c.Prior == Isotropic {
		return nil
	}
	return c.Basis
}

// Shape returns the sizes of the records of a model with this configuration.
func (c Config) Shape(d tflite.Dims) Shape {
	return Shape{Obs: d.Obs, Action: d.Action, Latent: d.Latent, Nuisance: c.nuisance()}
}
