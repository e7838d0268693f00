package main

import (
	"fmt"

	"optibfm/controller"
	"optibfm/posterior"
	"optibfm/tflite"
)

// The paper's table of the time that a step takes, as multiples of the policy
// alone, on an RTX 4090.
const (
	paperThompson = 3.6
	paperUCB      = 4.6
)

// stepSection is the step as the paper's table has it: a label and a new z in
// every one. One processor, but for TensorFlow.
type stepSection struct {
	rows   []*timed
	policy *timed
	paper  map[*timed]float64 // multiples of the policy alone
}

func (b *benchmark) openSteps() error {
	network, err := b.network(1)
	if err != nil {
		return err
	}
	d := b.model.Dims()
	z, action := make([]float64, d.Latent), make([]float32, d.Action)
	b.cases.belief.Mean(z)
	policy := newTimed("policy only", func() error { return network.Act(action, b.cases.next(), z) })
	b.steps = stepSection{rows: []*timed{policy}, policy: policy, paper: map[*timed]float64{policy: 1}}
	for _, strategy := range b.strategies() {
		planning, err := b.stepModel()
		if err != nil {
			return err
		}
		row, err := b.newStep(strategy, b.stepName(strategy), planning)
		if err != nil {
			return err
		}
		switch strategy {
		case controller.Thompson:
			b.steps.paper[row] = paperThompson
		case controller.UCB:
			b.steps.paper[row] = paperUCB
		}
	}
	if b.tf != nil && b.native() != nil {
		_, err = b.newStep(controller.UCB, "ucb, TensorFlow", b.tf)
	}
	return err
}

// stepModel is what a step's plan is made with.
func (b *benchmark) stepModel() (tflite.Model, error) {
	if b.native() == nil && b.tf != nil {
		return b.tf, nil
	}
	return b.network(1)
}

// strategies are those of the paper's table that the model can do.
func (b *benchmark) strategies() []string {
	strategies := []string{controller.Thompson, controller.UCB}
	if b.native() != nil {
		strategies = append(strategies, controller.UCBGradient)
	}
	return strategies
}

func (b *benchmark) stepName(strategy string) string {
	switch strategy {
	case controller.UCB:
		return fmt.Sprintf("ucb, %d candidates", b.searched())
	case controller.UCBGradient:
		return fmt.Sprintf("ucb_gradient, %d steps", b.file.Controller.Gradient.Steps)
	}
	return strategy
}

// newStep adds a row for a strategy whose planner has the model.
func (b *benchmark) newStep(strategy, name string, model tflite.Model) (*timed, error) {
	cfg := b.planning(strategy)
	if strategy == controller.UCB {
		cfg.Candidates = b.searched()
	}
	step, err := b.newBenchStep(cfg, model)
	if err != nil {
		return nil, err
	}
	row := newTimed(name, step.step)
	b.steps.rows = append(b.steps.rows, row)
	return row, nil
}

// planning is the configuration of a planner that plans for every state.
func (b *benchmark) planning(strategy string) controller.Config {
	cfg := b.file.Controller
	cfg.Strategy, cfg.Replan = strategy, 1
	return cfg
}

// benchStep makes steps without a robot.
type benchStep struct {
	cases   *benchCases
	network tflite.Model // of φ and π
	planner *controller.Planner
	belief  *posterior.Belief
	state   *controller.State
	plan    *controller.Plan
	phi     []float64
	action  []float32
}

func (b *benchmark) newBenchStep(cfg controller.Config, model tflite.Model) (*benchStep, error) {
	network, err := b.network(1)
	if err != nil {
		return nil, err
	}
	planner, err := controller.NewPlanner(cfg, model)
	if err != nil {
		return nil, err
	}
	d := b.model.Dims()
	s := &benchStep{
		cases: b.cases, network: network, planner: planner, belief: b.cases.belief.Clone(),
		state: controller.NewState(b.shape()), plan: controller.NewPlan(b.shape()),
		phi: make([]float64, d.Latent), action: make([]float32, d.Action),
	}
	s.state.Valid = 1
	return s, nil
}

// step makes what the paper times: φ(s), a label, a plan, π(s).
func (s *benchStep) step() error {
	obs := s.cases.next()
	if s.state.Next%benchLabels == 0 { // or it would know ever more
		s.belief.CopyFrom(s.cases.belief)
	}
	if err := s.network.Phi(s.phi, obs); err != nil {
		return err
	}
	if err := s.belief.Update(s.phi, 0.5, 1); err != nil {
		return err
	}
	if err := s.think(obs); err != nil {
		return err
	}
	return s.network.Act(s.action, obs, s.plan.Z)
}

// think makes the plan for an observation: the state handed over, as to the
// planner's process, and the plan.
func (s *benchStep) think(obs []float32) error {
	s.state.Next++
	s.belief.State(s.state.Belief)
	s.state.Hash = s.belief.Hash()
	copy(s.state.Obs, obs)
	_, err := s.planner.Plan(s.state, s.plan)
	return err
}
