package controller_test

import (
	"fmt"
	"math/rand/v2"

	"optibfm/controller"
	"optibfm/hal/haltest"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/scripted"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// A simulated robot infers its task in lockstep: the operator labels every state
// at once, and every z is planned for its own tick.
func Example() {
	agent, robot, err := newExampleAgent()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := agent.Arm(0); err != nil {
		fmt.Println(err)
		return
	}
	tick := controller.NewTick(agent.Shape())
	labels, first := uint64(0), 0.0
	for i := range uint64(100) {
		tick.Index, tick.Elapsed, tick.Flags = i, min(i, 1), 0
		if err := agent.Step(tick); err != nil {
			fmt.Println(err)
			return
		}
		if i == 0 {
			first = tick.DGap
		}
		labels += tick.NumLabels
	}
	if err := agent.Halt(controller.FaultNone); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d actions, %d labels\n", robot.Acts, labels)
	fmt.Printf("z of tick %d was planned at tick %d\n", tick.Index, tick.PlanTick)
	fmt.Printf("information gain below a fifth of the first: %v\n", tick.DGap < first/5)
	// Output:
	// 100 actions, 100 labels
	// z of tick 99 was planned at tick 99
	// information gain below a fifth of the first: true
}

// newExampleAgent returns an agent with a simulated robot that senses random
// states. The reward is the first channel of the observation.
func newExampleAgent() (*controller.Agent, *haltest.Simulator, error) {
	dims := tflite.Dims{Obs: 3, Action: 2, Latent: 8, Ensemble: 2}
	robot := haltest.NewSimulator(haltest.Spec(dims.Obs, dims.Action))
	random := rand.New(rand.NewPCG(1, 1))
	robot.Observe = func(_ int, obs []float32) error {
		for i := range obs {
			obs[i] = float32(random.NormFloat64())
		}
		return nil
	}
	robot.RewardOf = func(obs []float32) float64 { return float64(obs[0]) }
	operator, err := scripted.New(scripted.DefaultConfig())
	if err != nil {
		return nil, nil, err
	}
	cfg := controller.DefaultConfig()
	cfg.Gate.Off = true // the operator labels every tick unasked

	// The halves do not share a model: they can run in two processes.
	planner, err := controller.NewPlanner(cfg, tflitetest.Network(dims, 1))
	if err != nil {
		return nil, nil, err
	}
	agent, err := controller.NewAgent(cfg, controller.Parts{
		Robot: robot, Source: operator, Model: tflitetest.Network(dims, 1), Plans: controller.NewLockstep(planner),
	})
	return agent, robot, err
}

// The gate opens a request only if a label is informative: a larger κ needs fewer
// labels.
func ExampleGate() {
	for _, kappa := range []float64{0.05, 0.2} {
		cfg := controller.DefaultConfig()
		cfg.Gate.Kappa = kappa
		cfg.Gate.RequestsPerMinute = 0
		learner, err := controller.NewLearner(cfg, 2, 20e6)
		if err != nil {
			fmt.Println(err)
			return
		}
		gate := controller.NewGate(cfg.Gate, learner.LabelWeight(), 20e6)
		asked := 0
		for tick := range uint64(1000) {
			phi := []float64{1, float64(tick%3) - 1}
			learner.Observe(tick, int64(tick)*20e6, phi, nil)
			if !gate.Passes(learner.Belief().NormSq(phi)) {
				continue
			}
			if request, ok := gate.Ask(tick, 0, 0); ok {
				asked++
				learner.Apply(rewardsrc.Label{Kind: rewardsrc.Value, Request: request.ID, Value: phi[1]}, request.Tick)
				gate.Answer(request.ID)
			}
		}
		fmt.Printf("κ = %g: %d labels\n", kappa, asked)
	}
	// Output:
	// κ = 0.05: 42 labels
	// κ = 0.2: 9 labels
}
