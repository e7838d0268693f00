package collect_test

import (
	"fmt"
	"log"

	"optibfm/hal/collect"
	"optibfm/hal/rover"
)

func Example() {
	robot, err := rover.New(rover.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	recorded, err := collect.Record(robot, 1000, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(recorded.Len(), "transitions,", len(recorded.Obs), "numbers observed,",
		len(recorded.Action), "commanded")
	// Output: 1000 transitions, 6000 numbers observed, 2000 commanded
}
