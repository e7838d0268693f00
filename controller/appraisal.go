package controller

import (
	"math/rand/v2"
	"slices"

	"optibfm/tflite"
)

const (
	// appraised is the number of draws of the belief that an appraisal follows.
	appraised = 16
	// appraisalRank is the rank of the lower bound among their shares, from 0: the second smallest
	// of 16. The upper bound is the second largest.
	appraisalRank = 1
	// appraisalWidth multiplies the standard deviation of the draws. Labels of a person deviate
	// from the model in ways that σ does not show: mistakes have little weight, and errors of
	// neighbouring labels are alike.
	appraisalWidth = 2
	// appraisalStates is the number of newest states over which a draw's values are averaged.
	appraisalStates = 12
	// appraisalStream is the stream of the draws, directionStream that of the random policies.
	appraisalStream = 0x61707072
	directionStream = 0x64697265
)

// appraisal estimates how much of the attainable value the policy of ẑ attains. Under a draw z of
// the belief, that is
//
//	(value of π_ẑ - value of a random policy) / (value of π_z - value of a random policy)
//
// where the value of a policy π_y for the reward φᵀz is ψ(s, π_y(s), y)ᵀz, the mean of the
// ensemble, averaged over the newest states. A constant reward cancels out. Each plan costs three
// evaluations of ψ.
type appraisal struct {
	model      tflite.Evaluator
	hypotheses *hypotheses // of the wider draws; nil: none
	source     *rand.PCG
	random     *rand.Rand
	plans      uint64
	draws      [appraised]appraisedDraw
	shares     [appraised]float64 // scratch

	mean, z, direction []float64 // scratch, [d]
	action             []float32 // scratch, [A]
	psi                []float32 // scratch, [E, d]
}

// appraisedDraw has the values of the policies of ẑ and of a draw, above those of random policies:
// sums over states, older ones with less weight.
type appraisedDraw struct {
	states               uint64
	attained, attainable float64
}

// newAppraisal returns nil for a model without ψ and for a strategy without a belief.
func newAppraisal(cfg Config, model tflite.Model) *appraisal {
	evaluator, ok := model.(tflite.Evaluator)
	if !ok || model.Dims().Ensemble == 0 || !cfg.Gate.StopWhenLearnt || cfg.Strategy == Random || cfg.Strategy == Fixed {
		return nil
	}
	d := model.Dims()
	source := rand.NewPCG(0, 0)
	return &appraisal{
		model: evaluator, hypotheses: newHypotheses(cfg, d.Latent), source: source, random: rand.New(source),
		mean: make([]float64, d.Latent), z: make([]float64, d.Latent), direction: make([]float64, d.Latent),
		action: make([]float32, d.Action), psi: make([]float32, d.Ensemble*d.Latent),
	}
}

// restart forgets the states: their values are of another task.
func (a *appraisal) restart() { a.draws = [appraised]appraisedDraw{} }

// add adds a state to the values of one draw. It leaves out a state that the model cannot evaluate.
func (a *appraisal) add(p *Planner, s *State) {
	p.estimate(a.mean, s.Scale)
	if norm(a.mean) < tinyNorm {
		return
	}
	k := a.plans % appraised
	a.plans++
	// Each draw keeps its random numbers. Without hypotheses, its deviation from ẑ in units of the
	// belief's deviation then stays the same.
	a.source.Seed(p.cfg.Seed^appraisalStream, splitMix64(k))
	scale := appraisalWidth * s.Scale
	if a.hypotheses.weigh(p.belief, scale) {
		a.hypotheses.choose(a.z, a.random)
		a.hypotheses.around(a.z, scale, a.random)
	} else {
		p.sampler.Gaussian(a.z, p.belief, scale, a.random)
	}
	p.toTask(a.z)
	a.source.Seed(p.cfg.Seed^directionStream, splitMix64(s.Tick()))
	randomDirection(a.direction, a.random)
	random, ok := a.value(s.Obs, a.direction)
	attained, ok1 := a.value(s.Obs, a.mean)
	attainable, ok2 := a.value(s.Obs, a.z)
	if !ok || !ok1 || !ok2 {
		return
	}
	const keep = 1 - 1.0/appraisalStates
	draw := &a.draws[k]
	draw.states++
	draw.attained = draw.attained*keep + attained - random
	draw.attainable = draw.attainable*keep + attainable - random
}

// value returns the value of the policy of y [d] for the reward φᵀz with z in a.z.
func (a *appraisal) value(obs []float32, y []float64) (value float64, ok bool) {
	if a.model.Act(a.action, obs, y) != nil || a.model.Psi(a.psi, obs, a.action, y) != nil {
		return 0, false
	}
	d := len(a.z)
	for i, x := range a.psi {
		value += float64(x) * a.z[i%d]
	}
	value *= float64(d) / float64(len(a.psi))
	return value, finite(value)
}

// share returns the share of the attainable value that ẑ attains, zero before there are enough
// states.
func (a *appraisal) share() Interval {
	for k, d := range a.draws {
		if d.states < appraisalStates/2 {
			return Interval{}
		}
		a.shares[k] = min(1, max(0, d.attained/max(d.attainable, tinyNorm)))
	}
	slices.Sort(a.shares[:])
	return Interval{a.shares[appraisalRank], a.shares[appraised/2], a.shares[appraised-1-appraisalRank]}
}
