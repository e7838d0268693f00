// Robot is a robot of your own with everything that optibfm has: a type that implements hal.Robot,
// and one call.
//
//	go run ./examples/robot run                        # in one terminal: a simulated operator
//	go run ./examples/robot arm                        # in another one: the robot may move
//	go run ./examples/robot run --operator keyboard    # you label: + good, - bad
//	go run ./examples/robot replay logs/FILE.mcap      # verify what it did
//
// The robot is a simulated vehicle with two wheels: replace its methods with your bus. It has the
// channels of the embedded rover model; another robot needs a model with its own channels. `optibfm
// new-robot --go NAME` writes a copy of this program.
package main

import (
	_ "embed"

	"optibfm"
	"optibfm/hal"
	"optibfm/hal/rover"
)

//go:embed vehicle.yaml
var ready string

func main() {
	optibfm.RegisterRobot("vehicle", vehicleConfig{TopSpeedMPS: 1.5, TrackM: 0.5},
		func(c vehicleConfig) (hal.Robot, error) { return &vehicle{config: c}, nil })
	optibfm.RegisterModel("embedded:rover", rover.Model())
	optibfm.RegisterConfig("vehicle", ready)
	optibfm.Main()
}
