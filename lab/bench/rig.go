package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"optibfm/controller"
	"optibfm/hal/haltest"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/scripted"
)

// rig is a controller with its planner, a robot and an operator in one goroutine.
type rig struct {
	*controller.Lockstep
	b       *benchmark
	agent   *controller.Agent
	tick    *controller.Tick
	learner *controller.Learner // like the agent's, to time its update alone
	mean    []float64

	took, plan, update time.Duration // of the last step
}

// newRig returns a rig after its warm-up.
func (b *benchmark) newRig(strategy string) (*rig, error) {
	cfg, dims := b.Controller, b.Control.Dims()
	cfg.Strategy, cfg.Replan = strategy, 1
	planner, plannerErr := controller.NewPlanner(cfg, b.planner)
	operator, operatorErr := scripted.New(scripted.DefaultConfig())
	learner, learnerErr := controller.NewLearner(cfg, dims.Latent, b.Period)
	spec := haltest.Spec(dims.Obs, dims.Action)
	spec.Period = b.Period
	if err := errors.Join(plannerErr, operatorErr, learnerErr, spec.Validate()); err != nil {
		return nil, err
	}
	robot := haltest.NewSimulator(spec)
	robot.Observe = func(n int, obs []float32) error { copy(obs, b.states[n%len(b.states)]); return nil }
	robot.RewardOf = func(obs []float32) float64 { return float64(obs[0]) }
	r := &rig{Lockstep: controller.NewLockstep(planner), b: b, learner: learner, mean: make([]float64, dims.Latent)}
	agent, err := controller.NewAgent(cfg, controller.Parts{Robot: robot, Source: operator, Model: b.control, Plans: r})
	if err != nil {
		return nil, err
	}
	r.agent, r.tick = agent, controller.NewTick(agent.Shape())
	r.tick.Elapsed = 1
	err = agent.Arm(0)
	for i := 0; i < warmUp && err == nil; i++ {
		err = r.step()
	}
	return r, err
}

// step runs one tick and times its parts.
func (r *rig) step() error {
	control, planner := r.b.control, r.b.planner
	control.phi, control.act, planner.search = calls{}, calls{}, calls{}
	start := time.Now()
	if err := r.agent.Step(r.tick); err != nil {
		return err
	}
	r.took = time.Since(start)
	r.tick.Index++
	start = time.Now()
	r.learner.Advance(1)
	r.learner.Gain(r.tick.Phi, r.tick.Obs)
	r.learner.Observe(r.tick.Index, r.tick.SenseAt, r.tick.Phi, r.tick.Obs)
	applied := r.learner.Apply(rewardsrc.Label{
		ID: r.tick.Index, Kind: rewardsrc.Value, Tick: r.tick.Index, Value: r.tick.Reward,
	}, 0)
	r.learner.Settle(r.tick.Index)
	r.learner.Belief().Mean(r.mean)
	r.update = time.Since(start)
	if applied.Outcome != controller.Applied {
		return fmt.Errorf("bench: label of tick %d: %v", r.tick.Index, applied.Outcome)
	}
	return nil
}

// Offer makes the plan within the tick.
func (r *rig) Offer() error {
	start := time.Now()
	err := r.Lockstep.Offer()
	r.plan = time.Since(start)
	return err
}

// ServeSteps answers requests for steps, for a comparison with other programs. A request is a line
// of in with a step and a count, such as "ucb 10"; its answer is a JSON array of the times of so
// many steps in nanoseconds. The steps:
//
//	policy         π
//	tick           a control tick, without the planner
//	ucb, thompson  a control tick with the plan of that strategy
//	search         the search of ucb alone
func ServeSteps(o Options, in io.Reader, out io.Writer) error {
	b, answers := newBenchmark(o), json.NewEncoder(out)
	for {
		var name string
		var count int
		_, err := fmt.Fscanln(in, &name, &count)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("bench: request: %w; write a step and a count, such as: ucb 10", err)
		}
		times, err := b.steps(name, count)
		if err != nil {
			return fmt.Errorf("bench: request: %w", err)
		}
		if err := answers.Encode(times); err != nil {
			return fmt.Errorf("bench: answer: %w", err)
		}
	}
}

// steps makes the steps of one request.
func (b *benchmark) steps(name string, count int) ([]time.Duration, error) {
	strategy := controller.Thompson
	if name == "ucb" || name == "search" {
		strategy = controller.UCB
	}
	times := []time.Duration{}
	var r *rig
	for i := range count {
		var err error
		if i%labels == 0 {
			r, err = b.newRig(strategy)
		}
		if err == nil {
			err = r.step()
		}
		if err != nil {
			return nil, err
		}
		took, ok := map[string]time.Duration{
			"policy": b.control.act.took, "tick": r.took - r.plan, "ucb": r.took, "thompson": r.took,
			"search": b.planner.search.took,
		}[name]
		if !ok {
			return nil, fmt.Errorf("unknown step (%q); use policy, tick, ucb, thompson or search", name)
		}
		times = append(times, took)
	}
	return times, nil
}
