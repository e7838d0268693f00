package episodes_test

import (
	"fmt"

	"optibfm/controller"
	"optibfm/episodes"
	"optibfm/hal/haltest"
	"optibfm/rewardsrc/scripted"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// A simulator runs two episodes of 50 steps. The operator labels each state with its reward,
// which is the first channel of the observation.
func Example() {
	robot := haltest.NewSimulator(haltest.Spec(3, 2))
	robot.RewardOf = func(obs []float32) float64 { return float64(obs[0]) }
	agent, err := labelledAgent(robot)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := agent.Arm(0); err != nil {
		fmt.Println(err)
		return
	}
	s := &episodes.Stepper{
		Agent: agent, Period: robot.Spec().Period,
		Episodes: episodes.Episodes{Robot: robot, Steps: 50, Limit: 2, Seed: 1},
	}
	tick := controller.NewTick(agent.Shape())
	labels := uint64(0)
	for {
		ran, err := s.Step(tick)
		if err != nil {
			fmt.Println(err)
			return
		}
		if !ran {
			break
		}
		labels += tick.NumLabels
	}
	if err := agent.Halt(controller.FaultNone); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d ticks, %d actions, %d labels\n", s.Index(), robot.Acts, labels)
	// Output:
	// 102 ticks, 100 actions, 102 labels
}

// labelledAgent returns an agent in lockstep with an operator who labels every tick.
func labelledAgent(robot *haltest.Simulator) (*controller.Agent, error) {
	operator, err := scripted.New(scripted.DefaultConfig())
	if err != nil {
		return nil, err
	}
	cfg := controller.DefaultConfig()
	cfg.Gate.Off = true // the operator labels without being asked
	model := tflitetest.Network(tflite.Dims{Obs: 3, Action: 2, Latent: 8, Ensemble: 2}, 1)
	planner, err := controller.NewPlanner(cfg, model)
	if err != nil {
		return nil, err
	}
	return controller.NewAgent(cfg, controller.Parts{
		Robot: robot, Source: operator, Model: model, Plans: controller.NewLockstep(planner),
	})
}
