package theory_test

import (
	"fmt"

	"optibfm/controller"
	"optibfm/lab/theory"
)

// An optimistic robot finds the best of eight rooms. One that follows the mean of its belief stays
// in a good one.
func ExampleTrial() {
	solution, err := theory.Solve(theory.Fork(3))
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := controller.DefaultConfig()
	cfg.Replan = 0 // one z for each episode
	cfg.Sigma = 0.3
	cfg.Beta = controller.Beta{Schedule: controller.Theory, S: 1, Delta: 0.1}
	trial := theory.Trial{
		Solution: solution,
		Task:     theory.Task{Z: []float64{0.5, -0.5, 0.5, 0.5}},
		Config:   cfg, Noise: 0.3, Episodes: 400, Seed: 1, Slip: 0.05,
	}
	optimistic, err := trial.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	trial.Config.Beta = controller.Beta{Schedule: controller.Constant}
	greedy, err := trial.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	late := func(t theory.Trace) float64 { return t.Regret[399] - t.Regret[199] }
	fmt.Println("greedy loses ten times as much in the end:", late(greedy) > 10*late(optimistic))
	fmt.Println("optimistic keeps within its bound:", optimistic.Regret[399] <= optimistic.Realised[399])
	// Output:
	// greedy loses ten times as much in the end: true
	// optimistic keeps within its bound: true
}
