package rover_test

import (
	"fmt"
	"log"

	"optibfm/hal/rover"
)

// Turn left on the spot for two simulated seconds.
func Example() {
	cfg := rover.DefaultConfig()
	cfg.Task = "spin"
	r, err := rover.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	if err := r.Arm(); err != nil { // a robot starts halted
		log.Fatal(err)
	}
	obs := make([]float32, len(r.Spec().Obs))
	for range 40 {
		if err := r.Act([]float32{-1, 1}); err != nil {
			log.Fatal(err)
		}
		if _, err := r.Sense(obs); err != nil {
			log.Fatal(err)
		}
	}
	reward, _ := r.Reward()
	fmt.Printf("turning left at %.1f of the top yaw rate\n", reward)
	fmt.Println(r.Halt())
	// Output:
	// turning left at 1.0 of the top yaw rate
	// <nil>
}
