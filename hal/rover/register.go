package rover

import (
	"context"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/internal/registry"
)

// Register registers the driver rover and its model, embedded:rover.
func Register() {
	registry.AddRobot("rover", "Rover is the built-in simulated robot.", DefaultConfig(),
		func(_ context.Context, c Config, o registry.Opening) (hal.Robot, error) {
			c.Now = o.Now
			return New(c)
		})
	registry.AddModel("embedded:rover", Model())
}

// Simulated is true.
func (Config) Simulated() bool { return true }

// LoopPeriodMS returns PeriodMS.
func (c Config) LoopPeriodMS() float64 { return c.PeriodMS }

// StandsStill returns failsafe: the commands are speeds.
func (Config) StandsStill() string { return "failsafe" }

// Describe describes the rover. Its period is its own.
func (c Config) Describe(time.Duration) (hal.Spec, error) {
	robot, err := New(c)
	if err != nil {
		return hal.Spec{}, err
	}
	return robot.Spec(), nil
}

// Side returns ArenaM.
func (c Config) Side() float64 { return c.ArenaM }

// Pose returns the pose of an observation.
func (c Config) Pose(obs []float32) (x, y, heading float64) {
	p := PoseFromObs(obs, c.ArenaM)
	return p.X, p.Y, p.Heading
}

// DescribeTask describes a task, "" if there is none with that name.
func (Config) DescribeTask(task string) string {
	t, _ := findTask(task)
	return t.Description
}

// BestReward is the largest reward of a task at a place, over headings and speeds. x and y are in
// half arenas.
func (Config) BestReward(task string, x, y float64) float64 {
	best := math.Inf(-1)
	for heading := 0.0; heading < 2*math.Pi; heading += math.Pi / 4 {
		for _, speed := range []float32{0, 1} {
			obs := []float32{float32(x), float32(y), float32(math.Cos(heading)), float32(math.Sin(heading)), speed, 0}
			r, err := Reward(task, obs)
			if err != nil {
				return 0
			}
			best = max(best, r)
		}
	}
	return best
}

// RewardOf returns the reward of Task for an observation.
func (c Config) RewardOf(obs []float32) (float64, error) { return Reward(c.Task, obs) }
