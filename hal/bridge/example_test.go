package bridge_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"optibfm/hal/bridge"
	"optibfm/hal/haltest"
)

// A robot written in Go is served to another process, here to ourselves.
func Example() {
	folder, err := os.MkdirTemp("", "bridge")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	address := "unix:" + filepath.Join(folder, "robot.sock")

	listener, err := bridge.Listen(address)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sim := haltest.NewSimulator(haltest.Spec(2, 1))
	sim.Script([]float32{0, 0}, []float32{0.5, 1})
	sim.RewardOf = func(obs []float32) float64 { return float64(obs[0]) }
	go func() { _ = bridge.Serve(ctx, listener, sim, nil) }()

	robot, err := bridge.Dial(ctx, bridge.Config{Address: address, Mode: bridge.Lockstep})
	if err != nil {
		log.Fatal(err)
	}
	defer robot.Close()
	if err := robot.Reset(1); err != nil {
		log.Fatal(err)
	}
	if err := robot.Arm(); err != nil {
		log.Fatal(err)
	}
	obs := make([]float32, len(robot.Spec().Obs))
	for range 2 {
		at, err := robot.Sense(obs)
		if err != nil {
			log.Fatal(err)
		}
		reward, _ := robot.Reward()
		fmt.Println(at, obs, reward)
		if err := robot.Act([]float32{0.25}); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 20000000 [0 0] 0
	// 40000000 [0.5 1] 0.5
}
