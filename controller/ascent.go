package controller

import (
	"fmt"
	"math"

	"optibfm/tflite"
)

// Adam's constants.
const (
	adamFirst   = 0.9   // weight that the mean of the gradients keeps
	adamSecond  = 0.999 // weight that the mean of their squares keeps
	adamEpsilon = 1e-8
)

// ascent climbs the score of ucb by Adam. Its means of the gradients are kept
// from plan to plan: neighbouring states have neighbouring scores.
type ascent struct {
	cfg     GradientConfig
	model   tflite.Differentiable
	episode uint32
	steps   int       // since the means were 0
	first   []float64 // [d], mean of the gradients
	second  []float64 // [d], mean of their squares
	z       []float64 // [d], where the climb is
	narrow  []float32 // [d], the same
	slope   []float32 // [d], the gradient there
}

func newAscent(cfg GradientConfig, model tflite.Model) (*ascent, error) {
	m, ok := model.(tflite.Differentiable)
	if !ok {
		return nil, fmt.Errorf("%w: strategy: %s needs a model that gives gradients, %T does not: use %s", ErrConfig, UCBGradient, model, UCB)
	}
	d := model.Dims().Latent
	return &ascent{
		cfg: cfg, model: m,
		first: make([]float64, d), second: make([]float64, d), z: make([]float64, d),
		narrow: make([]float32, d), slope: make([]float32, d),
	}, nil
}

// forget clears the means.
func (a *ascent) forget() {
	a.steps = 0
	clear(a.first)
	clear(a.second)
}

// run climbs from a.z, writes the best z on the way, its start included, and
// returns that one's score.
func (a *ascent) run(dst []float64, obs []float32, belief tflite.Belief) (score float64, err error) {
	// A step is as long as the learning rate says where ‖z‖ is √d: the scale of
	// the rewards, and so of ẑ, changes nothing where the model normalises z.
	unit := a.cfg.LearningRate * norm(a.z) / math.Sqrt(float64(len(a.z)))
	score = math.Inf(-1)
	for range a.cfg.Steps {
		narrow(a.narrow, a.z)
		at, err := a.model.Gradient(a.slope, obs, a.narrow, belief)
		if err != nil {
			return 0, err
		}
		score = a.keep(dst, score, float64(at))
		a.step(unit)
	}
	narrow(a.narrow, a.z)
	_, at, err := a.model.Search(obs, a.narrow, belief)
	if err != nil {
		return 0, err
	}
	return a.keep(dst, score, float64(at)), nil
}

// keep writes a.z if its score is above the best so far, and returns the best.
func (a *ascent) keep(dst []float64, best, score float64) float64 {
	if score > best {
		copy(dst, a.z)
		return score
	}
	return best
}

// step moves a.z by one step of Adam.
func (a *ascent) step(rate float64) {
	a.steps++
	correctFirst := 1 - math.Pow(adamFirst, float64(a.steps))
	correctSecond := 1 - math.Pow(adamSecond, float64(a.steps))
	for i, g := range a.slope {
		g := float64(g)
		a.first[i] += (1 - adamFirst) * (g - a.first[i])
		a.second[i] += (1 - adamSecond) * (g*g - a.second[i])
		a.z[i] += rate * a.first[i] / correctFirst / (math.Sqrt(a.second[i]/correctSecond) + adamEpsilon)
	}
}

// ascend climbs from ẑ, or from a random direction where ẑ has none.
func (p *Planner) ascend(s *State, dst *Plan) error {
	dst.Beta = p.beta.Beta(p.belief)
	belief := p.narrowBelief(dst.Beta)
	if s.Episode != p.climb.episode {
		p.climb.forget()
		p.climb.episode = s.Episode
	}
	copy(p.climb.z, p.z)
	if norm(p.z) < tinyNorm {
		direction(p.climb.z, p.random)
	}
	score, err := p.climb.run(dst.Z, s.Obs, belief)
	if err != nil {
		p.climb.forget()
		return err
	}
	if !finite(score) {
		return fmt.Errorf("the best score is %v: check the bundle with `optibfm model check`", score)
	}
	dst.Score = score
	return nil
}
