package eval

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"optibfm/controller"
	"optibfm/internal/keys"
)

// Settings can be varied. Each key has a list of values, and every combination is run. A missing
// key has its default and is not part of a row's Params. The tag as names the key of the controller
// whose rule a value obeys.
type Settings struct {
	// Belief and planner.

	// Preset is paper (default) or person: controller.PersonConfig. The keys up to hold replace
	// single values.
	Preset []string `yaml:"preset,omitempty" rule:"paper|person"`
	// Prior of z is isotropic or task, the model's task prior.
	Prior []string `yaml:"prior,omitempty" rule:"isotropic|task"`
	// Offset is the prior standard deviation of the operator's zero; 0: the zero is 0.
	Offset []float64 `yaml:"offset,omitempty" as:"offset"`
	// LabelsBad is the learnt value of the lowest reward; that of the highest is 1. It needs an offset.
	// Default: rewards are learnt as they are.
	LabelsBad []float64 `yaml:"labels_bad,omitempty" as:"labels.bad"`
	// NoiseModel of the labels is fixed (sigma) or estimated.
	NoiseModel []string `yaml:"noise_model,omitempty" rule:"fixed|estimated"`
	// Freedom are the degrees of freedom of Student's t; 0: labels are normally distributed.
	Freedom []float64 `yaml:"freedom,omitempty" as:"noise.freedom"`
	// DrawScale multiplies the standard deviation of thompson's draws.
	DrawScale []float64 `yaml:"draw_scale,omitempty" as:"draw.scale"`
	// Floor is the least estimate of σ.
	Floor []float64 `yaml:"floor,omitempty" as:"noise.floor"`
	// Held is the share of the variance of thompson's draws that is held.
	Held []float64 `yaml:"held,omitempty" as:"draw.held"`
	// Dither is the noise on each element of z in each plan of thompson, in units of ‖z‖.
	Dither []float64 `yaml:"dither,omitempty" as:"draw.dither"`
	// Hold is the number of steps for which that part of thompson's draws stays the same.
	Hold []int `yaml:"hold,omitempty" as:"draw.hold_ticks"`

	// Beta is the weight of the uncertainty bonus of ucb*; default 1.
	Beta []float64 `yaml:"beta,omitempty" as:"beta.value"`
	// Sigma is the standard deviation of a label's noise; default that of the preset, and in the
	// preset paper 0.1 for thompson* and 1 for others.
	Sigma []float64 `yaml:"sigma,omitempty" as:"sigma"`
	// Lambda is the prior; default 1.
	Lambda []float64 `yaml:"lambda,omitempty" as:"lambda"`
	// Rho is the weight of a label after one step; default 1.
	Rho []float64 `yaml:"rho,omitempty" as:"rho"`
	// Candidates of a search; default 128 for ucb and ucb_ep, 512 for ucb_sphere.
	Candidates []int `yaml:"candidates,omitempty" as:"candidates"`
	// GradientSteps of a plan of ucb_gradient; default 8.
	GradientSteps []int `yaml:"gradient_steps,omitempty" as:"gradient.steps"`
	// GradientRate is the learning rate of ucb_gradient; default 0.01.
	GradientRate []float64 `yaml:"gradient_rate,omitempty" as:"gradient.learning_rate"`
	// GradientScale of that rate is relative (default), to ‖z‖/√d, or absolute, as in the paper.
	GradientScale []string `yaml:"gradient_scale,omitempty" rule:"relative|absolute"`
	// Sampler of ucb, thompson and their _ep is correct (default) or transposed, a mistake: R⁻ᵀ for
	// R⁻¹.
	Sampler []string `yaml:"sampler,omitempty" rule:"correct|transposed"`
	// ReplanEvery is the number of steps with the same z; default 1.
	ReplanEvery []int `yaml:"replan_every,omitempty" rule:"[1, 1e6]"`
	// PlanAge is the age of z in steps when the agent follows it; default 0, lockstep.
	PlanAge []int `yaml:"plan_age,omitempty" rule:"[0, 1000]"`
	// WarmStart is the number of labelled states in the belief at the start; default 0.
	WarmStart []int `yaml:"warm_start,omitempty" rule:"[0, 1e7]"`
	// Moments of Adam in ucb_gradient: reset (default) at the start of an episode, or kept, as in
	// the paper.
	Moments []string `yaml:"moments,omitempty" rule:"reset|kept"`
	// Draw is how labelled states are drawn: independent (default), as the paper does for the
	// oracle and for warm starts, or episodes, whole and in random order, as its program does for
	// data efficiency.
	Draw []string `yaml:"draw,omitempty" rule:"independent|episodes"`

	// Labels.

	// Answers replaces controller.CreditConfig.Answers.
	Answers []string `yaml:"answers,omitempty" as:"credit.answers"`
	// Hypotheses replaces controller.Config.Hypotheses.
	Hypotheses []int `yaml:"hypotheses,omitempty" rule:"0|1"`
	// Residuals 0 ignores the residuals of the task prior.
	Residuals []int `yaml:"residuals,omitempty" rule:"0|1"`
	// StopWhenLearnt 1 stops asking when the task is learnt; default 0.
	StopWhenLearnt []int `yaml:"stop_when_learnt,omitempty" rule:"0|1"`
	// Relearn 1 forgets the task when labels contradict it.
	Relearn []int `yaml:"relearn,omitempty" rule:"0|1"`
	// Kappa is the least D-gap of a request, nats. Missing: every step is labelled.
	Kappa []float64 `yaml:"kappa,omitempty" as:"gate.kappa"`
	// LabelsPerMinute adapts κ to so many requests per minute of simulated time; 0: κ is kappa.
	LabelsPerMinute []float64 `yaml:"labels_per_minute,omitempty" as:"gate.labels_per_minute"`
	// Operator is simple (default), with the flaws below, or person, who reacts, remembers, drifts
	// and tires in addition. A person has other defaults: mistakes 0.1, silence 0.25, bias 0.2,
	// levels 5. With comparing it says whether a state is better or worse than the one 2 s before.
	Operator []string `yaml:"operator,omitempty" rule:"simple|person|comparing"`
	// Noise is the standard deviation of Gaussian noise on each label; default 0.
	Noise []float64 `yaml:"noise,omitempty" rule:"[0, 1000]"`
	// MaxLabels is the number of labels after which the operator is silent; 0: no limit.
	MaxLabels []int `yaml:"max_labels,omitempty" rule:"[0, 1e9]"`
	// Delay is the time from the state to its label, s; default 0. That of a person is longer by
	// its reaction, 0.3 to 1.5 s. The limit keeps the waiting labels below the 4,096 of a simulated
	// operator, also in the fastest environment, with 100 steps per second.
	Delay []float64 `yaml:"delay_s,omitempty" rule:"[0, 39]"`
	// Mistakes is the probability that good and bad are confused; default 0.
	Mistakes []float64 `yaml:"mistakes,omitempty" rule:"[0, 1]"`
	// Silence is the share of each minute in which the operator is away, in [0, 1); default 0.
	Silence []float64 `yaml:"silence,omitempty" rule:"[0, 0.99]"`
	// Bias is the generosity of labels, in parts of the rewards' range; default 0. It is added to
	// each label of a simple operator; a person adds it to its judgement, before it chooses a
	// level.
	Bias []float64 `yaml:"bias,omitempty" rule:"[-100, 100]"`
	// Levels of labels, evenly spaced over the rewards' range; default 0, exact.
	Levels []int `yaml:"levels,omitempty" rule:"0|[2, 1000]"`

	// World and model.

	// Nonlinearity is α in r_α = z_rᵀφ + α (r - z_rᵀφ). Missing: r.
	Nonlinearity []float64 `yaml:"nonlinearity,omitempty" rule:"[0, 1e6]"`
	// Inaccuracy is α in ψ + α·MLP(z), a random network, for ucb, ucb_ep and ucb_sphere; default 0.
	Inaccuracy []float64 `yaml:"inaccuracy,omitempty" rule:"[0, 1e9]"`
	// Error is that network: relu (default), as in the paper, with an output of norm 1, or tanh,
	// whose output has a norm of about √d·0.6.
	Error []string `yaml:"error,omitempty" rule:"relu|tanh"`

	// ActionStd is the standard deviation with which ucb, ucb_ep and ucb_sphere sample the actions of
	// candidates about the policy's mean, clipped to ±1; default 0, the mean, as in the paper's program.
	ActionStd []float64 `yaml:"action_std,omitempty" rule:"[0, 2]"`

	// Methods oracle and collected.

	// Labels is the number of labels from which z is inferred; default 50,000.
	Labels []int `yaml:"labels,omitempty" rule:"[1, 1e7]"`
	// Ridge is λ of their least squares; default 1. The paper has none: 1e-9.
	Ridge []float64 `yaml:"ridge,omitempty" rule:"[1e-9, 1e9]"`
	// By is the method that collected the labels of collected: ucb (default), thompson, random or
	// rnd.
	By []string `yaml:"by,omitempty" rule:"ucb|thompson|random|rnd"`

	// Method lola (Sikchi et al., 2025).

	// LearningRate of Adam, on the unit sphere; default 0.1.
	LearningRate []float64 `yaml:"learning_rate,omitempty" rule:"[1e-9, 1e3]"`
	// Std is the standard deviation of the search distribution; default 0.1.
	Std []float64 `yaml:"std,omitempty" rule:"[1e-9, 1e3]"`
	// Horizon is the number of steps with the same z; default 100.
	Horizon []int `yaml:"horizon,omitempty" rule:"[1, 1e6]"`
	// Replay is the number of steps between two updates; default 1000.
	Replay []int `yaml:"replay,omitempty" rule:"[1, 1e6]"`
}

// The values of sampler.
const (
	SamplerCorrect    = "correct"
	SamplerTransposed = "transposed"
)

// The values of preset and noise_model.
const (
	PresetPaper    = "paper"
	PresetPerson   = "person"
	noiseFixed     = "fixed"
	noiseEstimated = "estimated"
)

// The values of error and moments.
const (
	errorReLU     = "relu"
	errorTanh     = "tanh"
	momentsReset  = "reset"
	momentsKept   = "kept"
	scaleRelative = "relative"
	scaleAbsolute = "absolute"
)

// The values of draw.
const (
	drawIndependent = "independent"
	drawEpisodes    = "episodes"
)

// RND as a value of by is random network distillation: episodes of a record, rnd.npz, beside the
// model's labelled states.
const RND = "rnd"

// The values of operator.
const (
	OperatorSimple    = "simple"
	OperatorPerson    = "person"
	OperatorComparing = "comparing"
)

// defaultSettings has one value for each key that has a default.
func defaultSettings() Settings {
	return Settings{
		Preset: []string{PresetPaper}, StopWhenLearnt: []int{0},
		Beta: []float64{1}, Lambda: []float64{1}, Rho: []float64{1},
		Candidates: []int{0}, GradientSteps: []int{8}, GradientRate: []float64{0.01}, GradientScale: []string{scaleRelative},
		Sampler: []string{SamplerCorrect}, ReplanEvery: []int{1}, PlanAge: []int{0}, WarmStart: []int{0},
		Draw: []string{drawIndependent}, Moments: []string{momentsReset}, Error: []string{errorReLU},
		Ridge:           []float64{1},
		LabelsPerMinute: []float64{0}, Operator: []string{OperatorSimple}, MaxLabels: []int{0},
		Noise: []float64{0}, Delay: []float64{0}, Mistakes: []float64{0},
		Silence: []float64{0}, Bias: []float64{0}, Levels: []int{0}, Inaccuracy: []float64{0}, ActionStd: []float64{0},
		Labels: []int{50_000}, By: []string{UCB},
		LearningRate: []float64{0.1}, Std: []float64{0.1}, Horizon: []int{100}, Replay: []int{1000},
	}
}

// withDefaults returns a cell with a value for each key that has a default.
func (s Settings) withDefaults() Settings {
	if slices.Contains(s.Operator, OperatorPerson) {
		s = s.over(Settings{
			Mistakes: []float64{0.1}, Silence: []float64{0.25}, Bias: []float64{0.2}, Levels: []int{5},
		})
	}
	return s.over(defaultSettings())
}

// setting is a key with its values.
type setting struct {
	key    string
	values reflect.Value // a slice
	rule   keys.Rule     // of each value
}

// all lists the settings in their order, with or without values.
func (s *Settings) all() []setting {
	v := reflect.ValueOf(s).Elem()
	list := make([]setting, v.NumField())
	for i := range list {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		list[i] = setting{key, v.Field(i), rules()[key]}
	}
	return list
}

// rules are the rules of the settings: those of their tags, or those of the controller's keys in
// their tags "as".
var rules = sync.OnceValue(func() map[string]keys.Rule {
	all, settings := map[string]keys.Rule{}, reflect.ValueOf(Settings{})
	for _, f := range keys.Fields(settings) {
		all[f.Key] = f.Rule
		field, _ := settings.Type().FieldByName(f.Name)
		if path := field.Tag.Get("as"); path != "" {
			all[f.Key] = controllerRule(path)
		}
	}
	return all
})

func controllerRule(path string) keys.Rule {
	v, rule := reflect.ValueOf(controller.DefaultConfig()), keys.Rule{}
	for key := range strings.SplitSeq(path, ".") {
		f, ok := keys.Find(v, key)
		if !ok {
			panic("eval: the controller has no key " + path)
		}
		v, rule = f.Value, f.Rule
	}
	return rule
}

// keys lists the settings that have values.
func (s Settings) keys() (keys []string) {
	for _, x := range s.all() {
		if x.values.Len() > 0 {
			keys = append(keys, x.key)
		}
	}
	return keys
}

// first keeps the first n values of each setting, or all if n is 0.
func (s Settings) first(n int) Settings {
	if n == 0 {
		return s
	}
	for _, x := range s.all() {
		x.values.Set(x.values.Slice(0, min(n, x.values.Len())))
	}
	return s
}

// only keeps the values of some keys.
func (s Settings) only(keys []string) Settings {
	for _, x := range s.all() {
		if !slices.Contains(keys, x.key) {
			x.values.SetZero()
		}
	}
	return s
}

// over returns s with missing settings from base.
func (s Settings) over(base Settings) Settings {
	from := base.all()
	for i, x := range s.all() {
		if x.values.Len() == 0 {
			x.values.Set(from[i].values)
		}
	}
	return s
}

// count returns the number of combinations, at most most.
func (s Settings) count(most int) int {
	n := 1
	for _, x := range s.all() {
		if n *= max(1, x.values.Len()); n > most {
			return most
		}
	}
	return n
}

// cells returns all combinations, each with one value for each key; the last key varies fastest.
func (s Settings) cells() []Settings {
	list := []Settings{{}}
	for i, x := range s.all() {
		n := x.values.Len()
		if n == 0 {
			continue
		}
		next := make([]Settings, 0, len(list)*n)
		for _, cell := range list {
			for k := range n {
				cell.all()[i].values.Set(x.values.Slice(k, k+1))
				next = append(next, cell)
			}
		}
		list = next
	}
	return list
}

// params returns a cell as a row's Params.
func (s Settings) params() string {
	var list []string
	for _, x := range s.all() {
		if x.values.Len() > 0 {
			list = append(list, x.key+"="+formatValue(x.values.Index(0)))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ";")
}

func formatValue(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	}
	return v.String()
}

// problem is an error in the value at a path below the settings.
type problem struct{ path, message string }

// problems lists values that are out of range or repeated.
func (s Settings) problems() (found []problem) {
	for _, x := range s.all() {
		for i := range x.values.Len() {
			path := fmt.Sprintf("%s[%d]", x.key, i)
			if wrong := x.rule.Problem(x.values.Index(i)); wrong != "" {
				found = append(found, problem{path, strings.TrimPrefix(wrong, " ")})
			}
			for k := range i {
				if x.values.Index(k).Equal(x.values.Index(i)) {
					value := formatValue(x.values.Index(i))
					found = append(found, problem{path, fmt.Sprintf("appears twice (%s); keep one", value)})
				}
			}
		}
	}
	return found
}
