package controller

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"optibfm/posterior"
	"optibfm/tflite"
)

// tinyNorm is the norm below which a z has no direction.
const tinyNorm = 1e-9

// ErrState is returned by Planner.Plan for an invalid state.
var ErrState = errors.New("controller: state")

// Planner is the half of the controller that chooses z, in the host process. It
// shares no mutable state with the Agent: it works on untrusted copies of the
// state and the belief.
type Planner struct {
	cfg    Config
	model  tflite.Model
	belief *posterior.Belief
	basis  *Basis  // of the belief; nil: that of z
	scale  float64 // State.Scale
	beta   posterior.Schedule

	planned  bool
	episode  uint32
	switches uint64 // State.Switches
	tick     uint64 // of the current plan
	random   *rand.Rand
	source   *rand.PCG
	sampler  Sampler

	z          []float64 // scratch, [d]
	mean       []float64 // scratch, [d]
	invR       []float64 // scratch, [d, d]
	candidates []float64 // [n, d]
	narrow     []float32 // candidates for the model
	mean32     []float32
	invR32     []float32
	ascent     *ascent     // for ucb_gradient
	appraisal  *appraisal  // nil: none
	hypotheses *hypotheses // nil: none
}

// Sampler draws z from a belief: for ucb from the ellipsoid of a radius around
// ẑ, for thompson from the posterior. [BeliefSampler] is the default.
type Sampler interface {
	// Ellipsoid fills dst [n, d] with n samples.
	Ellipsoid(dst []float64, b *posterior.Belief, radius float64, rng *rand.Rand)
	Gaussian(dst []float64, b *posterior.Belief, scale float64, rng *rand.Rand)
}

// BeliefSampler is the Sampler that calls the methods of the belief.
type BeliefSampler struct{}

// Ellipsoid calls b.SampleEllipsoid.
func (BeliefSampler) Ellipsoid(dst []float64, b *posterior.Belief, radius float64, rng *rand.Rand) {
	b.SampleEllipsoid(dst, radius, rng)
}

// Gaussian calls b.SampleGaussian.
func (BeliefSampler) Gaussian(dst []float64, b *posterior.Belief, scale float64, rng *rand.Rand) {
	b.SampleGaussian(dst, scale, rng)
}

// NewPlanner makes a planner. It must not share model with an Agent.
func NewPlanner(cfg Config, model tflite.Model) (*Planner, error) {
	return NewPlannerWithSampler(cfg, model, BeliefSampler{})
}

// NewPlannerWithSampler is NewPlanner with another Sampler, for experiments.
func NewPlannerWithSampler(cfg Config, model tflite.Model, sampler Sampler) (*Planner, error) {
	d := model.Dims().Latent
	if err := cfg.Validate(d); err != nil {
		return nil, err
	}
	belief, err := cfg.NewBelief(d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	schedule, err := cfg.Beta.schedule()
	if err != nil {
		return nil, fmt.Errorf("%w: beta: %w", ErrConfig, err)
	}
	source := rand.NewPCG(cfg.Seed, 0)
	p := &Planner{
		cfg: cfg, model: model, belief: belief, basis: cfg.basis(), beta: schedule,
		source: source, random: rand.New(source), sampler: sampler,
		z: make([]float64, d), mean: make([]float64, d), appraisal: newAppraisal(cfg, model),
		hypotheses: newHypotheses(cfg, d),
	}
	if cfg.Strategy == UCB || cfg.Strategy == UCBSphere {
		n := cfg.NumCandidates()
		p.candidates = make([]float64, n*d)
		p.narrow = make([]float32, n*d)
	}
	if cfg.Strategy == UCBGradient {
		if p.ascent, err = newAscent(cfg.Gradient, model); err != nil {
			return nil, err
		}
	}
	if p.candidates != nil || p.ascent != nil {
		p.invR = make([]float64, d*d)
		p.invR32 = make([]float32, d*d)
		p.mean32 = make([]float32, d)
	}
	return p, nil
}

// due reports whether s needs a new plan: at the first state, at the start of an
// episode, after a switch of the task, and every replan_every_ticks.
func (p *Planner) due(s *State) bool {
	if !p.planned || s.Episode != p.episode || s.Switches != p.switches {
		return true
	}
	return p.cfg.Replan > 0 && s.Tick()-p.tick >= p.cfg.Replan
}

// Plan updates dst, which holds the plan of the previous call. If a plan is due,
// it computes a new z and fresh is true; otherwise it confirms the old one. The
// same configuration, model and state give the same plan, with hypotheses up to
// rounding; with ucb_gradient the plan also depends on earlier plans of the episode, through the
// optimizer's state, and Known averages over the states of earlier plans. The caller, who has a
// clock, sets ElapsedNS. After an error dst is invalid and a new plan is due.
func (p *Planner) Plan(s *State, dst *Plan) (fresh bool, err error) {
	if s.Valid == 0 || s.Next == 0 {
		return false, fmt.Errorf("%w: before tick %d: no observation; wait for the next one", ErrState, s.Next)
	}
	if !p.due(s) {
		dst.Confirmed = s.Tick()
		return false, nil
	}
	p.planned = false
	if err := p.belief.Restore(s.Belief); err != nil {
		return false, fmt.Errorf("%w: of tick %d: %w", ErrState, s.Tick(), err)
	}
	if hash := p.belief.Hash(); hash != s.Hash {
		return false, fmt.Errorf("%w: of tick %d: the belief was damaged in transfer (hash %#x, sent with %#x)",
			ErrState, s.Tick(), hash, s.Hash)
	}
	if p.scale = s.Scale; !(p.scale > 0 && p.scale <= maxReward) {
		return false, fmt.Errorf("%w: of tick %d: the scale of the belief was damaged in transfer (%g)",
			ErrState, s.Tick(), s.Scale)
	}
	p.seed(s)
	dst.Score, dst.Beta = 0, 0
	if err := p.choose(s, dst); err != nil {
		return false, fmt.Errorf("controller: plan for tick %d: %w", s.Tick(), err)
	}
	if dst.Known = (Interval{}); p.appraisal != nil {
		if s.Switches != p.switches {
			p.appraisal.restart()
		}
		p.appraisal.add(p, s)
		dst.Known = p.appraisal.share()
	}
	p.planned, p.episode, p.switches, p.tick = true, s.Episode, s.Switches, s.Tick()
	dst.Tick, dst.Confirmed = s.Tick(), s.Tick()
	return true, nil
}

func (p *Planner) choose(s *State, dst *Plan) error {
	switch p.cfg.Strategy {
	case Fixed:
		copy(dst.Z, p.cfg.FixedZ)
	case Random:
		randomDirection(dst.Z, p.random)
	case Thompson:
		p.draw(dst.Z, s)
		return p.dither(dst.Z, s)
	case UCB, UCBSphere:
		return p.search(s, dst)
	case UCBGradient:
		return p.ascend(s, dst)
	}
	return nil
}

// heldStream is the stream of the held parts of draws.
const heldStream = 0x68656c64

// draw draws z from the belief. A part of its deviation from ẑ follows from the tick, another from
// the ticks that share it: z still follows new labels, and moves less from plan to plan. A drawn
// hypothesis and its amplitude are held as a whole. For a learnt task z is ẑ.
func (p *Planner) draw(z []float64, s *State) {
	c := p.cfg.Draw
	if s.Learnt == 1 || c.Scale == 0 {
		p.estimate(z, s.Scale)
		return
	}
	fresh, held := math.Sqrt(1-c.Held)*c.Scale*s.Scale, math.Sqrt(c.Held)*c.Scale*s.Scale
	if p.hypotheses.weigh(p.belief, s.Scale) {
		if c.Held > 0 {
			p.hold(s)
		}
		p.hypotheses.choose(z, p.random)
		p.hypotheses.around(z, held, p.random)
		if c.Held > 0 {
			p.seed(s)
		}
		p.hypotheses.around(z, fresh, p.random)
		p.toTask(z)
		return
	}
	if c.Held > 0 {
		p.hold(s)
		p.sampler.Gaussian(p.z, p.belief, held, p.random)
		p.seed(s)
	}
	p.sampler.Gaussian(z, p.belief, fresh, p.random)
	if c.Held > 0 {
		p.belief.Mean(p.mean)
		for i, x := range p.z {
			z[i] += x - p.mean[i]
		}
	}
	p.toTask(z)
}

// dither adds isotropic noise to z in a poor state, unless the task is learnt: see
// DrawConfig.Dither.
func (p *Planner) dither(z []float64, s *State) error {
	scale := p.cfg.Draw.Dither * norm(z)
	if scale == 0 || s.Learnt == 1 {
		return nil
	}
	if err := p.model.Phi(p.mean, s.Obs); err != nil {
		return err
	}
	if p.cfg.Expected(p.mean, z, 0) > 0 {
		return nil
	}
	for i := range z {
		z[i] += scale * p.random.NormFloat64()
	}
	return nil
}

// seed seeds the generator for each tick: a plan does not depend on earlier plans.
func (p *Planner) seed(s *State) { p.source.Seed(p.cfg.Seed, splitMix64(s.Tick())) }

// hold seeds the generator with what the ticks have in common that share a held draw.
func (p *Planner) hold(s *State) {
	p.source.Seed(p.cfg.Seed^heldStream, splitMix64(s.Tick()/p.cfg.Draw.Ticks))
}

// estimate writes ẑ, weighed over the hypotheses, to dst [d].
func (p *Planner) estimate(dst []float64, scale float64) {
	if p.hypotheses.weigh(p.belief, scale) {
		p.hypotheses.mean(dst)
		p.toTask(dst)
		return
	}
	p.cfg.Mean(dst, p.belief)
}

// toTask replaces u by z.
func (p *Planner) toTask(u []float64) {
	if p.basis != nil {
		p.basis.task(u)
	}
}

// beliefForModel converts the belief for the model.
func (p *Planner) beliefForModel(beta float64) tflite.Belief {
	p.cfg.Mean(p.z, p.belief)
	toFloat32(p.mean32, p.z)
	p.cfg.Spread(p.invR, p.belief, p.scale)
	toFloat32(p.invR32, p.invR)
	return tflite.Belief{Mean: p.mean32, InvR: p.invR32, Beta: float32(beta)}
}

// search draws candidates and takes the best.
func (p *Planner) search(s *State, dst *Plan) error {
	beta := p.beta.Beta(p.belief)
	dst.Beta = beta
	p.sampleCandidates(beta)
	toFloat32(p.narrow, p.candidates)
	best, score, err := p.model.Search(s.Obs, p.narrow, p.beliefForModel(beta))
	if err != nil {
		return err
	}
	d := len(dst.Z)
	if n := len(p.candidates) / d; best < 0 || best >= n {
		return fmt.Errorf("the model chose candidate %d of %d", best, n)
	}
	if !finite(float64(score)) {
		return fmt.Errorf("the best score is %v; check the bundle with `optibfm model check`", score)
	}
	copy(dst.Z, p.candidates[best*d:(best+1)*d])
	dst.Score = float64(score)
	return nil
}

// sampleCandidates draws the candidates from the ellipsoid of radius 2β around
// ẑ, or from the sphere. A random direction replaces a candidate without one.
func (p *Planner) sampleCandidates(beta float64) {
	sphere := p.cfg.Strategy == UCBSphere
	if !sphere {
		p.sampler.Ellipsoid(p.candidates, p.belief, 2*beta*p.scale, p.random)
	}
	d := len(p.z)
	for i := 0; i < len(p.candidates); i += d {
		z := p.candidates[i : i+d]
		if !sphere {
			p.toTask(z)
		}
		if sphere || norm(z) < tinyNorm {
			randomDirection(z, p.random)
		}
	}
}

// randomDirection fills z with a uniform direction of norm √d, the scale to
// which the models' networks normalise z.
func randomDirection(z []float64, random *rand.Rand) {
	for {
		for i := range z {
			z[i] = random.NormFloat64()
		}
		if n := norm(z); n > tinyNorm {
			s := math.Sqrt(float64(len(z))) / n
			for i := range z {
				z[i] *= s
			}
			return
		}
	}
}

func norm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

func toFloat32(dst []float32, src []float64) {
	for i, x := range src {
		dst[i] = float32(x)
	}
}

// splitMix64 is the finalizer of SplitMix64 (Steele et al. 2014). It decorrelates
// the seeds of successive ticks: streams of PCG with adjacent seeds are similar.
func splitMix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
