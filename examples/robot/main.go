// Robot runs the controller on a robot of your own: a type that implements hal.Robot.
//
//	go run ./examples/robot -time 20s
//
// The robot here is a simulated vehicle with two wheels. Replace its methods with your bus. It has
// the channels of the embedded rover model; another robot needs a model with its own channels. A
// simulated operator answers requests with the reward of the task: turn left on the spot.
//
// Everything runs in one process here. The program optibfm plans in a second process, so that neither
// a crash nor a garbage collection there delays the control loop. On a robot that can hurt somebody,
// use that program with hal/bridge (examples/puck).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"optibfm/controller"
	"optibfm/hal/rover"
	"optibfm/rewardsrc/scripted"
	"optibfm/rtloop"
	"optibfm/tflite"
)

func main() {
	duration := flag.Duration("time", 20*time.Second, "length of the run")
	flag.Parse()
	log.SetFlags(0)
	if err := run(*duration); err != nil {
		log.Fatal(err)
	}
}

func run(duration time.Duration) error {
	robot := &vehicle{}
	agent, err := newAgent(robot)
	if err != nil {
		return err
	}
	config := rtloop.DefaultConfig()
	config.PeriodMS = float64(robot.Spec().Period) / float64(time.Millisecond)
	config.MaxMissed = rtloop.NoLimit // nothing can break; keep the default for a real robot
	loop, granted, err := rtloop.Prepare(config)
	if err != nil {
		return err
	}
	fmt.Printf("real-time settings that were refused: %d\n", len(granted.Missing()))
	var haltErr error
	loop.Halt = func(error) { haltErr = agent.Halt(controller.FaultNone) }
	loop.OnStuck = func(s rtloop.Stall) { log.Fatalf("control thread stuck: %v", s) }
	if err := agent.Arm(0); err != nil {
		loop.Close()
		return err
	}

	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	tick := controller.NewTick(agent.Shape())
	reward, labels := 0.0, uint64(0)
	report, runErr := loop.Run(ctx, func(beat rtloop.Beat) error {
		tick.Index, tick.Elapsed, tick.Flags = beat.Index, beat.Elapsed, 0
		tick.Deadline, tick.Wake = beat.Deadline, beat.Wake
		if err := agent.Step(tick); err != nil {
			return err
		}
		reward += tick.Reward
		labels += tick.NumLabels
		if n := tick.Index + 1; n%20 == 0 { // each second; a real loop prints on another thread
			fmt.Printf("%3d s: mean reward %+.2f, labels %3d, D-gap %.3f\n", n/20, reward/20, labels, tick.DGap)
			reward = 0
		}
		return nil
	})
	fmt.Println(report)
	return errors.Join(runErr, haltErr)
}

// newAgent joins the robot, an operator, the model and the planner.
func newAgent(robot *vehicle) (*controller.Agent, error) {
	bundle, err := tflite.Load(rover.Model())
	if err != nil {
		return nil, err
	}
	// Each half has its own instance of the model.
	model, err := bundle.NewNetwork()
	if err != nil {
		return nil, err
	}
	search, err := bundle.NewNetwork()
	if err != nil {
		return nil, err
	}
	// Compare the channels by name before anything moves.
	if err := controller.CheckChannels(robot.Spec(), bundle.Observation, bundle.Action); err != nil {
		return nil, err
	}
	person := scripted.DefaultConfig()
	person.Mode, person.DelayS = scripted.WhenAsked, 0.3
	operator, err := scripted.New(person)
	if err != nil {
		return nil, err
	}
	config := controller.DefaultConfig()
	config.Gate.RequestsPerMinute = 0 // a simulated operator never tires
	planner, err := controller.NewPlanner(config, search)
	if err != nil {
		return nil, err
	}
	return controller.NewAgent(config, controller.Parts{
		Robot: robot, Source: operator, Model: model, Plans: controller.NewLockstep(planner),
	})
}
