package controller

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"optibfm/posterior"
)

// The strategies.
const (
	UCB         = "ucb"          // optimism: the best of n candidates from the confidence ellipsoid
	UCBSphere   = "ucb_sphere"   // the same score over n candidates from the whole sphere
	UCBGradient = "ucb_gradient" // the same score, climbed from the belief's mean
	Thompson    = "thompson"     // a sample of the posterior
	Random      = "random"       // a uniform direction: the baseline that learns nothing
	Fixed       = "fixed"        // a given z
)

// Strategies lists the strategies.
func Strategies() []string { return []string{UCB, UCBSphere, UCBGradient, Thompson, Random, Fixed} }

// ErrConfig is wrapped by every error about a configuration.
var ErrConfig = errors.New("controller: configuration")

// Config says how the controller decides. The zero value is not useful: start
// from DefaultConfig.
type Config struct {
	Strategy   string `yaml:"strategy"`           // ucb, ucb_sphere, ucb_gradient, thompson, random or fixed
	Candidates int    `yaml:"candidates"`         // n, candidates of ucb and ucb_sphere; 0: 128 and 512
	Replan     uint64 `yaml:"replan_every_ticks"` // ticks between plans; 0: at episode starts only

	Beta         Beta    `yaml:"beta"`          // weight of the uncertainty bonus
	Sigma        float64 `yaml:"sigma"`         // standard deviation of a label's noise, in [1e-6, 1e6]: labels weigh w/σ²
	Lambda       float64 `yaml:"lambda"`        // the prior: V starts as λI, in [1e-9, 1e9]
	Rho          float64 `yaml:"rho"`           // forgetting: weight of a label after one period, in (0, 1]
	Robust       float64 `yaml:"robust"`        // a label that is off by more than this counts less, in proportion; in [1e-6, 1e6], or 0: all count alike
	ExactRestore bool    `yaml:"exact_restore"` // restore the whole prior each tick, O(d³); needed where ρ^(d-1) < 0.5

	Gradient GradientConfig `yaml:"gradient"` // of ucb_gradient

	FixedZ []float64 `yaml:"fixed_z,omitempty"` // z of the fixed strategy, [d]
	Seed   uint64    `yaml:"seed"`              // of candidates, samples and the fallback direction

	Gate   GateConfig   `yaml:"gate"`
	Credit CreditConfig `yaml:"credit"`
	Guard  GuardConfig  `yaml:"guard"`

	MaxPlanAge uint64 `yaml:"max_plan_age_ticks"` // an older z halts the robot
}

// GradientConfig says how ucb_gradient climbs: by Adam (Kingma & Ba, "Adam: A
// Method for Stochastic Optimization", 2015).
type GradientConfig struct {
	Steps        int     `yaml:"steps"`         // gradients of a plan, in [1, 1000]; the paper: 2 to 16
	LearningRate float64 `yaml:"learning_rate"` // length of a step of an element of z, where z has the norm √d; in (0, 10]
}

// GateConfig says when a label is asked for.
type GateConfig struct {
	Kappa             float64 `yaml:"kappa"`               // ask where the D-gap is at least this, nats, >= 0
	RequestsPerMinute int     `yaml:"requests_per_minute"` // at most so many in any 60 s; 0: no limit
	TimeoutS          float64 `yaml:"timeout_s"`           // after this an unanswered request is dropped
	BackoffS          float64 `yaml:"backoff_s"`           // pause after an unanswered request; doubles with each further one
	BackoffMaxS       float64 `yaml:"backoff_max_s"`       // the longest pause
	LabelsPerMinute   float64 `yaml:"labels_per_minute"`   // what the operator can give: κ rises above kappa to ask about so often; 0: κ is kappa
	Off               bool    `yaml:"off,omitempty"`       // never ask: labels come unasked
}

// CreditConfig says which states an unasked press is about: those sensed
// between delay+width and delay before it.
type CreditConfig struct {
	DelayS float64    `yaml:"delay_s"` // shortest reaction time, s, >= 0
	WidthS float64    `yaml:"width_s"` // length of the window, s, >= 0
	Held   HeldConfig `yaml:"held"`
}

// HeldConfig is the same for each label of a stream, given by an axis that is
// deflected or a button that is held: the hand follows the eye.
type HeldConfig struct {
	DelayS float64 `yaml:"delay_s"` // by how much the hand lags, s, >= 0
	WidthS float64 `yaml:"width_s"` // length of the window, s, >= 0: about the time between two labels
}

// GuardConfig says what the guards tolerate.
type GuardConfig struct {
	MaxBadTicks int `yaml:"max_bad_ticks"` // consecutive bad ticks answered with the last good action, in [0, 1000]; one more halts
}

// DefaultConfig is ucb as in the paper: n = 128, β = 1, λ = 1, ρ = 1, a plan
// every tick.
func DefaultConfig() Config {
	return Config{
		Strategy: UCB,
		Replan:   1,
		Beta:     Beta{Schedule: Constant, Value: 1},
		Sigma:    1,
		Lambda:   1,
		Rho:      1,
		Gradient: GradientConfig{Steps: 8, LearningRate: 0.1},
		Gate: GateConfig{
			TimeoutS: 5, RequestsPerMinute: 30, BackoffS: 1, BackoffMaxS: 60,
		},
		Credit:     CreditConfig{DelayS: 0.2, WidthS: 0.4, Held: HeldConfig{DelayS: 0.3, WidthS: 0.2}},
		Guard:      GuardConfig{MaxBadTicks: 3},
		MaxPlanAge: 25,
	}
}

// The ranges within which no number of a label, a belief or a search in float32
// overflows or vanishes.
const (
	minLambda, maxLambda = 1e-9, 1e9
	minSigma, maxSigma   = 1e-6, 1e6
	minRobust, maxRobust = 1e-6, 1e6
)

// Validate reports everything that is wrong with c for a model of latent
// dimension d; d = 0 leaves out what depends on the model. The error wraps
// ErrConfig and a *FieldError for each mistake.
func (c Config) Validate(d int) error {
	var v verdict
	c.checkPlanning(&v, d)
	c.checkBelief(&v, d)
	c.Gate.check(&v)
	c.Credit.check(&v)
	if c.Guard.MaxBadTicks < 0 || c.Guard.MaxBadTicks > 1000 {
		v.bad("guard.max_bad_ticks", c.Guard.MaxBadTicks, "use 0 to 1000")
	}
	if len(v.errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrConfig, errors.Join(v.errs...))
}

func (c CreditConfig) check(v *verdict) {
	for _, w := range []struct {
		key          string
		delay, width float64
	}{{"credit", c.DelayS, c.WidthS}, {"credit.held", c.Held.DelayS, c.Held.WidthS}} {
		v.notNegative(w.key+".delay_s", w.delay)
		v.notNegative(w.key+".width_s", w.width)
		if w.delay+w.width > 600 {
			v.bad(w.key, w.delay+w.width, "keep delay_s + width_s within 600")
		}
	}
}

func (c Config) checkPlanning(v *verdict, d int) {
	if !slices.Contains(Strategies(), c.Strategy) {
		v.bad("strategy", c.Strategy, "use one of "+strings.Join(Strategies(), ", "))
	}
	if c.Candidates < 0 || c.Candidates > 1<<16 {
		v.bad("candidates", c.Candidates, "use 1 to 65536, or 0 for the strategy's default")
	}
	if _, err := c.Beta.schedule(); err != nil {
		v.bad("beta", c.Beta, err.Error())
	}
	if c.Gradient.Steps < 1 || c.Gradient.Steps > 1000 {
		v.bad("gradient.steps", c.Gradient.Steps, "use 1 to 1000")
	}
	if !(c.Gradient.LearningRate > 0 && c.Gradient.LearningRate <= 10) {
		v.bad("gradient.learning_rate", c.Gradient.LearningRate, "use a number above 0 and at most 10")
	}
	c.checkFixedZ(v, d)
	if c.MaxPlanAge < 1 {
		v.bad("max_plan_age_ticks", c.MaxPlanAge, "use at least 1")
	}
}

func (c Config) checkFixedZ(v *verdict, d int) {
	if c.Strategy == Fixed && len(c.FixedZ) == 0 {
		v.bad("fixed_z", "nothing", "give the z that the fixed strategy follows")
	}
	if len(c.FixedZ) == 0 {
		return
	}
	if d > 0 && len(c.FixedZ) != d {
		v.bad("fixed_z", fmt.Sprintf("%d numbers", len(c.FixedZ)), fmt.Sprintf("the model needs %d", d))
	}
	if length := norm(c.FixedZ); !finite(length) || length < tinyNorm {
		v.bad("fixed_z", fmt.Sprintf("a norm of %g", length), "use finite numbers that are not all 0")
	}
}

func (c Config) checkBelief(v *verdict, d int) {
	v.within("sigma", c.Sigma, minSigma, maxSigma)
	v.within("lambda", c.Lambda, minLambda, maxLambda)
	if c.Robust != 0 && !(c.Robust >= minRobust && c.Robust <= maxRobust) {
		v.bad("robust", c.Robust, fmt.Sprintf("use a number from %g to %g, or 0 for the same weight for all labels", minRobust, maxRobust))
	}
	if !(c.Rho > 0 && c.Rho <= 1) {
		v.bad("rho", c.Rho, "use a number above 0 and at most 1")
		return
	}
	if d == 0 || !(c.Lambda >= minLambda && c.Lambda <= maxLambda) {
		return
	}
	if _, err := c.NewBelief(d); err != nil {
		v.bad("rho", c.Rho, err.Error())
	}
}

func (g GateConfig) check(v *verdict) {
	v.notNegative("gate.kappa", g.Kappa)
	if g.RequestsPerMinute < 0 || g.RequestsPerMinute > 10_000 {
		v.bad("gate.requests_per_minute", g.RequestsPerMinute, "use 1 to 10000, or 0 for no limit")
	}
	if !(g.LabelsPerMinute >= 0 && g.LabelsPerMinute <= 1000) {
		v.bad("gate.labels_per_minute", g.LabelsPerMinute, "use a number up to 1000, or 0 to leave kappa as it is")
	}
	if n := g.RequestsPerMinute; n > 0 && g.LabelsPerMinute > float64(n) {
		v.bad("gate.labels_per_minute", g.LabelsPerMinute, fmt.Sprintf("requests_per_minute (%d) forbids that: use less, or raise requests_per_minute", n))
	}
	if !(g.TimeoutS > 0 && g.TimeoutS <= 3600) {
		v.bad("gate.timeout_s", g.TimeoutS, "use a number above 0 and at most 3600")
	}
	v.notNegative("gate.backoff_s", g.BackoffS)
	if !(g.BackoffMaxS >= g.BackoffS && g.BackoffMaxS <= 86_400) {
		v.bad("gate.backoff_max_s", g.BackoffMaxS, "use at least backoff_s and at most 86400")
	}
}

// verdict collects what is wrong. Its comparisons are written so that a NaN
// fails them.
type verdict struct{ errs []error }

func (v *verdict) bad(key string, found any, mend string) {
	v.errs = append(v.errs, &FieldError{Key: key, Found: found, Mend: mend})
}

func (v *verdict) notNegative(key string, x float64) {
	if !(x >= 0) || math.IsInf(x, 0) {
		v.bad(key, x, "use a finite number of at least 0")
	}
}

func (v *verdict) within(key string, x, least, most float64) {
	if !(x >= least && x <= most) {
		v.bad(key, x, fmt.Sprintf("use a number from %g to %g", least, most))
	}
}

// FieldError names the key of a configuration that is wrong.
type FieldError struct {
	Key   string // path within Config, such as "gate.kappa"
	Found any
	Mend  string
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: found %v: %s", e.Key, e.Found, e.Mend) }

// Searched is how many candidates a plan evaluates, the strategy's default
// filled in; 0 for the strategies that evaluate none.
func (c Config) Searched() int {
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

// ticks converts seconds to periods, rounded up, at least least.
func ticks(seconds float64, period time.Duration, least uint64) uint64 {
	n := uint64(math.Ceil(seconds*float64(time.Second)/float64(period) - 1e-9))
	return max(n, least)
}

// NewBelief returns the belief of this configuration before the first label.
func (c Config) NewBelief(d int) (*posterior.Belief, error) {
	if c.ExactRestore {
		return posterior.New(d, c.Lambda, c.Rho, posterior.WithExactRestore())
	}
	return posterior.New(d, c.Lambda, c.Rho)
}
