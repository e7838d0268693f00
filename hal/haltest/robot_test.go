package haltest_test

import (
	"fmt"

	"optibfm/hal/haltest"
)

func Example() {
	robot := haltest.New(haltest.Spec(1, 2))
	robot.Script([]float32{0.5}, []float32{0.25})

	obs := make([]float32, 1)
	fmt.Println(robot.Act([]float32{1, -1}))
	_ = robot.Arm()
	for range 3 {
		at, _ := robot.Sense(obs)
		_ = robot.Act([]float32{obs[0], 0})
		fmt.Println(at, obs, robot.Output)
	}
	_ = robot.Halt()
	fmt.Println(robot.Acts, robot.Refused, robot.Output, robot.Action(0))
	// Output:
	// hal: the robot is halted: arm it before acting
	// 20000000 [0.5] [0.5 0]
	// 40000000 [0.25] [0.25 0]
	// 60000000 [0.25] [0.25 0]
	// 3 1 [0 0] [0.5 0]
}
