package eval

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"optibfm/controller"
	"optibfm/posterior"
	"optibfm/tflite"
)

// Streams of random numbers from the seed of a trial, beside those of the controller and the
// operator.
const (
	statesStream    = 0x737461746573
	errorStream     = 0x6572726f72
	actionStream    = 0x616374696f6e
	searchStream    = 0x7365617263
	collectStream   = 0x636f6c6c656374
	directionStream = 0x646972656374
)

// tinyNorm is the norm of a z without a direction, as in package controller.
const tinyNorm = 1e-9

// answerMarginS is the time that a request stays open beyond the operator's delay, s.
const answerMarginS = 1

// buildAgent builds the shipped controller with the extensions of the trial's method.
func (r *trialRun) buildAgent(bundle *tflite.Bundle) (agent *controller.Agent, err error) {
	if r.config, err = r.controllerConfig(); err != nil {
		return nil, err
	}
	if err := r.buildPlans(bundle); err != nil {
		return nil, err
	}
	agent, err = controller.NewAgent(r.config, controller.Parts{
		Robot: r.robot, Source: r.source, Model: r.network, Plans: r.plans, Assembler: r.observe,
		Safety: controller.Safety{Simulated: true},
	})
	if err != nil {
		return nil, err
	}
	return agent, r.warmStart(agent.Learner())
}

// buildPlans sets r.plans, which chooses z, and r.source, the labels.
func (r *trialRun) buildPlans(bundle *tflite.Bundle) (err error) {
	switch r.trial.Method {
	case LoLA:
		l := newLoLA(r.network, bundle.Gamma, r.trial, r.robot)
		r.plans, r.source = l, l
		return nil
	case Random, Oracle, Collected:
		r.source = silent{}
	default:
		if r.source, err = newOperator(r.trial); err != nil {
			return err
		}
	}
	r.plans, err = r.buildPlanner(bundle)
	return err
}

// random returns a stream of random numbers of the trial.
func (t Trial) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(t.Seed, stream)) }

// controllerConfig returns the configuration of the trial's method.
func (r *trialRun) controllerConfig() (controller.Config, error) {
	m, s := methods[r.trial.Method], r.trial.settings
	c, err := r.beliefConfig()
	if err != nil {
		return c, err
	}
	c.Strategy, c.Seed = m.strategy, r.trial.Seed
	c.Replan = uint64(s.ReplanEvery[0])
	if m.everyEp {
		c.Replan = 0
	}
	c.Beta.Value = s.Beta[0]
	c.Lambda, c.Rho = s.Lambda[0], s.Rho[0]
	c.Candidates = s.Candidates[0]
	c.Gradient = controller.GradientConfig{
		Steps: s.GradientSteps[0], LearningRate: s.GradientRate[0],
		Absolute: s.GradientScale[0] == scaleAbsolute, KeepMoments: s.Moments[0] == momentsKept,
	}
	c.Gate = gateConfig(s, c.Gate)
	c.MaxPlanAge += uint64(s.PlanAge[0])
	if _, err := c.NewBelief(r.network.Dims().Latent); errors.Is(err, posterior.ErrForgetsPrior) {
		c.ExactRestore = true
	}
	switch r.trial.Method {
	case Oracle:
		z, err := r.library.oracle(r.trial, s.Labels[0])
		c.FixedZ = r.trial.direction(z)
		return c, err
	case Collected:
		c.FixedZ = r.trial.direction(r.inferred)
	case LoLA:
		c.Strategy = controller.Random // not used: lola has its own plans
	}
	return c, nil
}

// beliefConfig returns the preset of the trial, with the settings that replace its values.
func (r *trialRun) beliefConfig() (c controller.Config, err error) {
	s := r.trial.settings
	c = controller.DefaultConfig()
	if s.Preset[0] == PresetPerson {
		c = controller.PersonConfig()
	} else if methods[r.trial.Method].strategy == controller.Thompson {
		c.Sigma = paperSigma
	}
	replace(&c.Prior, s.Prior)
	replace(&c.Offset, s.Offset)
	c.LabelRange.Bad, c.LabelRange.Good = r.trial.rewardRange()
	c.Labels = controller.LabelsConfig(c.LabelRange) // as they are
	if len(s.LabelsBad) > 0 {
		c.Labels.Bad = s.LabelsBad[0]
	}
	replace(&c.Sigma, s.Sigma)
	replace(&c.Noise.Freedom, s.Freedom)
	replace(&c.Draw.Scale, s.DrawScale)
	replace(&c.Draw.Held, s.Held)
	replace(&c.Draw.Dither, s.Dither)
	replace(&c.Noise.Floor, s.Floor)
	if c.Credit.Answers == controller.Estimated && s.Operator[0] != OperatorPerson {
		c.Credit.Answers = controller.AtRequest // it judges that state, as with the page, which repeats the moment
	}
	replace(&c.Credit.Answers, s.Answers)
	if len(s.Hypotheses) > 0 {
		c.Hypotheses = s.Hypotheses[0] == 1
	}
	if len(s.NoiseModel) > 0 {
		c.Noise.Estimate = s.NoiseModel[0] == noiseEstimated
	}
	if len(s.Hold) > 0 {
		c.Draw.Ticks = uint64(s.Hold[0])
	}
	c.Basis, err = r.library.basis(r.trial)
	return c, err
}

// paperSigma is σ of thompson without the setting sigma.
const paperSigma = 0.1

// replace sets dst to the value of a setting, if it has one.
func replace[T any](dst *T, values []T) {
	if len(values) > 0 {
		*dst = values[0]
	}
}

// direction returns z, or a random direction if z is 0 because all rewards were 0.
func (t Trial) direction(z []float64) []float64 {
	if floats.Norm(z, 2) > tinyNorm {
		return z
	}
	random, drawn := t.random(directionStream), make([]float64, len(z))
	for i := range drawn {
		drawn[i] = random.NormFloat64()
	}
	return drawn
}

// gateConfig asks as often as the belief requires, or never if labels need no request.
func gateConfig(s Settings, g controller.GateConfig) controller.GateConfig {
	g.Off = !s.asks()
	g.StopWhenLearnt = s.StopWhenLearnt[0] == 1
	if len(s.Relearn) > 0 {
		g.Relearn = s.Relearn[0] == 1
	}
	g.RequestsPerMinute = 0
	g.TimeoutS = max(g.TimeoutS, s.longestDelay()+answerMarginS) // the learner keeps features for longer than that
	g.LabelsPerMinute = s.LabelsPerMinute[0]
	if len(s.Kappa) > 0 {
		g.Kappa = s.Kappa[0]
	}
	return g
}

func (r *trialRun) buildPlanner(bundle *tflite.Bundle) (controller.Plans, error) {
	s := r.trial.settings
	model, err := r.plannerModel(bundle)
	if err != nil {
		return nil, err
	}
	if r.trial.diagnoses() {
		if r.diagnosis, err = r.diagnose(model); err != nil {
			return nil, err
		}
		model = r.diagnosis
	}
	var sampler controller.Sampler = controller.BeliefSampler{}
	if s.Sampler[0] == SamplerTransposed {
		if sampler, err = newTransposed(model.Dims().Latent); err != nil {
			return nil, err
		}
	}
	planner, err := controller.NewPlannerWithSampler(r.config, model, sampler)
	if err != nil {
		return nil, err
	}
	plans := controller.NewLockstep(planner)
	if age := s.PlanAge[0]; age > 0 {
		return newDelayed(plans, shapeOf(model.Dims()), age), nil
	}
	return plans, nil
}

func shapeOf(d tflite.Dims) controller.Shape {
	return controller.Shape{Obs: d.Obs, Action: d.Action, Latent: d.Latent}
}

// plannerModel returns the planner's own instance of the model.
func (r *trialRun) plannerModel(bundle *tflite.Bundle) (tflite.Model, error) {
	network, err := bundle.NewNetwork()
	if err != nil {
		return nil, err
	}
	var evaluator tflite.Evaluator = network
	s := r.trial.settings
	alpha, std := s.Inaccuracy[0], s.ActionStd[0]
	if std > 0 {
		evaluator = sampled{network, std, r.trial.random(actionStream)}
	}
	if alpha > 0 || std > 0 { // its Search calls Act, also without an error
		return newInaccurate(evaluator, alpha, s.Error[0], r.trial.random(errorStream)), nil
	}
	return network, nil
}

// warmStart gives the belief its labels of before the trial.
func (r *trialRun) warmStart(l *controller.Learner) error {
	n := r.trial.settings.WarmStart[0]
	if n == 0 {
		return nil
	}
	drawn, err := r.library.drawLabelled(r.trial, r.library.labelledStates, n)
	if err != nil {
		return err
	}
	return l.WarmStart(drawn.Phi, drawn.Reward)
}

// defineReward sets the rewards that the protocol defines.
func (r *trialRun) defineReward(bundle *tflite.Bundle) error {
	for _, defined := range []struct {
		reward *Reward
		from   int // the first episode
	}{{r.trial.reward, 0}, {r.trial.becomes, r.run.Episodes / 2}} {
		if defined.reward == nil {
			continue
		}
		own, err := defined.reward.on(bundle.Observation)
		if err != nil {
			return err
		}
		before := r.robot.reward
		r.robot.reward = func(obs []float32, reward float64) (float64, error) {
			if r.robot.episode >= defined.from {
				return own(obs), nil
			}
			if before == nil {
				return reward, nil
			}
			return before(obs, reward)
		}
	}
	return nil
}

// modifyReward sets the reward of the task, and r_α = z_rᵀφ + α (r - z_rᵀφ), where z_r explains the
// reward r best: α = 0 is linear, α = 1 is r.
func (r *trialRun) modifyReward(bundle *tflite.Bundle) error {
	if err := r.defineReward(bundle); err != nil {
		return err
	}
	if len(r.trial.settings.Nonlinearity) == 0 {
		return nil
	}
	alpha := r.trial.settings.Nonlinearity[0]
	z, err := r.library.explain(r.trial)
	if err != nil {
		return err
	}
	phi, task := make([]float64, len(z)), r.robot.reward
	r.robot.reward = func(obs []float32, reward float64) (float64, error) {
		if task != nil {
			var err error
			if reward, err = task(obs, reward); err != nil {
				return 0, err
			}
		}
		if err := r.network.Phi(phi, obs); err != nil {
			return 0, err
		}
		linear := 0.0
		for i, x := range phi {
			linear += x * z[i]
		}
		modified := linear + alpha*(reward-linear)
		if math.IsNaN(modified) || math.IsInf(modified, 0) {
			return 0, fmt.Errorf("eval: reward: not finite (%v)", modified)
		}
		return modified, nil
	}
	return nil
}
