package controller

import (
	"fmt"
	"math"

	"optibfm/tflite"
)

// Adam's constants.
const (
	adamFirst   = 0.9   // decay of the first moment
	adamSecond  = 0.999 // decay of the second moment
	adamEpsilon = 1e-8
)

// ascent maximises the score of ucb by Adam. It keeps the moments of the
// gradient from plan to plan, because the scores of successive states are
// similar.
type ascent struct {
	cfg     GradientConfig
	model   tflite.Differentiable
	episode uint32
	steps   int       // since the moments were 0
	first   []float64 // [d], first moment of the gradient
	second  []float64 // [d], second moment of the gradient
	z       []float64 // [d], present iterate
	z32     []float32 // [d], z for the model
	grad    []float32 // [d], gradient at z
}

func newAscent(cfg GradientConfig, model tflite.Model) (*ascent, error) {
	m, ok := model.(tflite.Differentiable)
	if !ok {
		return nil, fmt.Errorf("%w: strategy: %s needs a model with gradients (found %T); use %s",
			ErrConfig, UCBGradient, model, UCB)
	}
	d := model.Dims().Latent
	return &ascent{
		cfg: cfg, model: m,
		first: make([]float64, d), second: make([]float64, d), z: make([]float64, d),
		z32: make([]float32, d), grad: make([]float32, d),
	}, nil
}

// reset clears the moments.
func (a *ascent) reset() {
	a.steps = 0
	clear(a.first)
	clear(a.second)
}

// run maximises from a.z. It writes the best iterate, the start included, and
// returns its score.
func (a *ascent) run(dst []float64, obs []float32, belief tflite.Belief) (score float64, err error) {
	rate := a.cfg.LearningRate
	if !a.cfg.Absolute {
		// The learning rate holds for ‖z‖ = √d. If the model normalises z, the
		// scale of the rewards, and therefore of ẑ, has no effect.
		rate *= norm(a.z) / math.Sqrt(float64(len(a.z)))
	}
	score = math.Inf(-1)
	for range a.cfg.Steps {
		toFloat32(a.z32, a.z)
		at, err := a.model.Gradient(a.grad, obs, a.z32, belief)
		if err != nil {
			return 0, err
		}
		score = a.keep(dst, score, float64(at))
		a.step(rate)
	}
	toFloat32(a.z32, a.z)
	_, at, err := a.model.Search(obs, a.z32, belief)
	if err != nil {
		return 0, err
	}
	return a.keep(dst, score, float64(at)), nil
}

// keep copies a.z to dst if its score is the best so far, and returns the best score.
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
	for i, g := range a.grad {
		g := float64(g)
		a.first[i] += (1 - adamFirst) * (g - a.first[i])
		a.second[i] += (1 - adamSecond) * (g*g - a.second[i])
		a.z[i] += rate * a.first[i] / correctFirst / (math.Sqrt(a.second[i]/correctSecond) + adamEpsilon)
	}
}

// ascend maximises from ẑ, or from a random direction if ẑ has none.
func (p *Planner) ascend(s *State, dst *Plan) error {
	dst.Beta = p.beta.Beta(p.belief)
	belief := p.beliefForModel(dst.Beta)
	begins := s.Episode != p.ascent.episode && !p.ascent.cfg.KeepMoments
	if begins || s.Switches != p.switches {
		p.ascent.reset()
		p.ascent.episode = s.Episode
	}
	copy(p.ascent.z, p.z)
	if norm(p.z) < tinyNorm {
		randomDirection(p.ascent.z, p.random)
	}
	score, err := p.ascent.run(dst.Z, s.Obs, belief)
	if err != nil {
		p.ascent.reset()
		return err
	}
	if !finite(score) {
		return fmt.Errorf("the best score is %v; check the bundle with `optibfm model check`", score)
	}
	dst.Score = score
	return nil
}
