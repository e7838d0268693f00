package eval

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Settings are what may be varied: each key has the values to be tried, one by
// one, in every combination. A key that is left out has its default, and does
// not distinguish the results.
type Settings struct {
	// Of the belief and of how it is used.
	Beta          []float64 `yaml:"beta,omitempty"`           // ucb*: weight of the uncertainty bonus; default 1
	Sigma         []float64 `yaml:"sigma,omitempty"`          // thompson*: standard deviation of a label's noise; default 0.1
	Lambda        []float64 `yaml:"lambda,omitempty"`         // the prior; default 1
	Rho           []float64 `yaml:"rho,omitempty"`            // weight of a label after one step; default 1
	Robust        []float64 `yaml:"robust,omitempty"`         // a label that is off by more than this counts less, in proportion; 0 or at least 1e-6; default 0, all count alike
	Candidates    []int     `yaml:"candidates,omitempty"`     // ucb, ucb_ep: 128; ucb_sphere: 512
	GradientSteps []int     `yaml:"gradient_steps,omitempty"` // ucb_gradient: gradients of a plan; default 8
	GradientRate  []float64 `yaml:"gradient_rate,omitempty"`  // ucb_gradient: learning rate; default 0.1
	Sampler       []string  `yaml:"sampler,omitempty"`        // ucb, thompson and their _ep: correct (default), or transposed: draws with R⁻ᵀ for R⁻¹, a mistake
	ReplanEvery   []int     `yaml:"replan_every,omitempty"`   // ucb, thompson, ucb_gradient, ucb_sphere: steps for which a z is kept; default 1
	PlanAge       []int     `yaml:"plan_age,omitempty"`       // how many steps old z is when it is followed; default 0, lockstep
	WarmStart     []int     `yaml:"warm_start,omitempty"`     // labelled states that the belief knows beforehand; default 0

	// Of the labels.
	Kappa           []float64 `yaml:"kappa,omitempty"`             // ask only where the D-gap is at least this, nats; left out: every step is labelled
	LabelsPerMinute []float64 `yaml:"labels_per_minute,omitempty"` // κ follows the operator: so many requests a minute of simulated time; 0: κ is kappa
	Noise           []float64 `yaml:"noise,omitempty"`             // standard deviation of Gaussian noise on each label; default 0
	Delay           []float64 `yaml:"delay_s,omitempty"`           // s from what was seen to the label, at most 40; default 0
	Mistakes        []float64 `yaml:"mistakes,omitempty"`          // how often good and bad are confused, in [0, 1]; default 0
	Silence         []float64 `yaml:"silence,omitempty"`           // part of the time in which the operator is away, a stretch of each minute, in [0, 1); default 0
	Bias            []float64 `yaml:"bias,omitempty"`              // added to each label, in parts of the rewards' range; default 0
	Levels          []int     `yaml:"levels,omitempty"`            // of labels, evenly spaced over the rewards' range; default 0, exact

	// Of the world and of the model.
	Nonlinearity []float64 `yaml:"nonlinearity,omitempty"` // α in r_α = z_rᵀφ + α (r - z_rᵀφ); left out: r
	Inaccuracy   []float64 `yaml:"inaccuracy,omitempty"`   // α in ψ + α·MLP(z), a random network, for ucb, ucb_ep and ucb_sphere; default 0

	// Of oracle and collected: what z is inferred from.
	Labels []int    `yaml:"labels,omitempty"` // how many; default 50,000
	By     []string `yaml:"by,omitempty"`     // collected: what collected them, one of ucb (default), thompson, random, rnd

	// Of lola (Sikchi et al., 2025).
	LearningRate []float64 `yaml:"learning_rate,omitempty"` // of Adam, on the unit sphere; default 0.1
	Std          []float64 `yaml:"std,omitempty"`           // of the search distribution; default 0.1
	Horizon      []int     `yaml:"horizon,omitempty"`       // steps with one z; default 100
	Replay       []int     `yaml:"replay,omitempty"`        // steps between two updates, and what they learn from; default 1000
}

// The values of sampler.
const (
	SamplerCorrect    = "correct"
	SamplerTransposed = "transposed"
)

// RND as what collected labels is random network distillation: episodes of a
// record, rnd.npz, beside the model's labelled states.
const RND = "rnd"

// defaultSettings has one value for each key that has a default.
func defaultSettings() Settings {
	return Settings{
		Beta: []float64{1}, Sigma: []float64{0.1}, Lambda: []float64{1}, Rho: []float64{1}, Robust: []float64{0},
		Candidates: []int{0}, GradientSteps: []int{8}, GradientRate: []float64{0.1},
		Sampler: []string{SamplerCorrect}, ReplanEvery: []int{1}, PlanAge: []int{0}, WarmStart: []int{0},
		LabelsPerMinute: []float64{0}, Noise: []float64{0}, Delay: []float64{0}, Mistakes: []float64{0},
		Silence: []float64{0}, Bias: []float64{0}, Levels: []int{0}, Inaccuracy: []float64{0},
		Labels: []int{50_000}, By: []string{UCB},
		LearningRate: []float64{0.1}, Std: []float64{0.1}, Horizon: []int{100}, Replay: []int{1000},
	}
}

// setting is a key with its values.
type setting struct {
	key    string
	values reflect.Value // a slice
}

// all lists the settings in their order, also those without values.
func (s *Settings) all() []setting {
	v := reflect.ValueOf(s).Elem()
	list := make([]setting, v.NumField())
	for i := range list {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		list[i] = setting{key, v.Field(i)}
	}
	return list
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

// first keeps the first n values of each setting, or all where n is 0.
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

// over is s, with what it leaves out taken from base.
func (s Settings) over(base Settings) Settings {
	from := base.all()
	for i, x := range s.all() {
		if x.values.Len() == 0 {
			x.values.Set(from[i].values)
		}
	}
	return s
}

// count is the number of combinations, or most where there are more.
func (s Settings) count(most int) int {
	n := 1
	for _, x := range s.all() {
		if n *= max(1, x.values.Len()); n > most {
			return most
		}
	}
	return n
}

// cells are all combinations of the values, each with one value a key; the last
// key varies fastest.
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

// params writes a cell as a row's Params.
func (s Settings) params() string {
	var list []string
	for _, x := range s.all() {
		if x.values.Len() > 0 {
			list = append(list, x.key+"="+text(x.values.Index(0)))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ";")
}

func text(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	}
	return v.String()
}

// maxDelayS keeps the labels that wait to a simulated operator's 4,096, also in
// the fastest environment, at 100 steps a second.
const maxDelayS = 40

// ranges are the least and the greatest value of each setting that is a number.
var ranges = map[string][2]float64{
	"beta": {0, 1e9}, "sigma": {1e-6, 1e6}, "lambda": {1e-9, 1e9}, "rho": {1e-6, 1}, "robust": {0, 1e6},
	"candidates": {1, 1 << 16}, "gradient_steps": {1, 1000}, "gradient_rate": {1e-9, 10},
	"replan_every": {1, 1e6}, "plan_age": {0, 1000}, "warm_start": {0, 1e7},
	"kappa": {0, 1e6}, "labels_per_minute": {0, 1000}, "noise": {0, 1000}, "delay_s": {0, maxDelayS},
	"mistakes": {0, 1}, "silence": {0, 0.99}, "bias": {-100, 100}, "levels": {0, 1000},
	"nonlinearity": {0, 1e6}, "inaccuracy": {0, 1e9}, "labels": {1, 1e7},
	"learning_rate": {1e-9, 1e3}, "std": {1e-9, 1e3}, "horizon": {1, 1e6}, "replay": {1, 1e6},
}

// choices are the values of each setting that is a name.
var choices = map[string][]string{
	"sampler": {SamplerCorrect, SamplerTransposed},
	"by":      {UCB, Thompson, Random, RND},
}

// problem is what is wrong with the value at a path below a setting's section.
type problem struct{ path, text string }

// problems lists the values that are out of range or there twice.
func (s Settings) problems() (found []problem) {
	for _, x := range s.all() {
		for i := range x.values.Len() {
			path := fmt.Sprintf("%s[%d]", x.key, i)
			if wrong := outOfRange(x.key, x.values.Index(i)); wrong != "" {
				found = append(found, problem{path, wrong})
			}
			for k := range i {
				if x.values.Index(k).Equal(x.values.Index(i)) {
					found = append(found, problem{path, fmt.Sprintf("is there twice (%s): keep one", text(x.values.Index(i)))})
				}
			}
		}
	}
	return found
}

func outOfRange(key string, v reflect.Value) string {
	if v.Kind() == reflect.String {
		if choices := choices[key]; !slices.Contains(choices, v.String()) {
			return fmt.Sprintf("is unknown (%q): use one of %s", v.String(), strings.Join(choices, ", "))
		}
		return ""
	}
	x := 0.0
	if v.CanInt() {
		x = float64(v.Int())
	} else {
		x = v.Float()
	}
	if key == "levels" && x == 1 { // one button says nothing
		return "is out of range (1): use 0 for exact labels, or 2 to 1000"
	}
	if key == "robust" && x > 0 && x < 1e-6 { // the controller's least
		return fmt.Sprintf("is out of range (%s): use 0 to believe all labels alike, or 1e-6 to 1e6", text(v))
	}
	if r := ranges[key]; !(x >= r[0] && x <= r[1]) || math.IsNaN(x) {
		return fmt.Sprintf("is out of range (%s): use a value from %g to %g", text(v), r[0], r[1])
	}
	return ""
}
