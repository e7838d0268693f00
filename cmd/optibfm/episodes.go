package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
)

// episodes divides a simulator's run: an episode of n steps has n+1 ticks, of
// which the last senses and rewards the final state and does not act. A robot
// without episodes has one that never ends.
type episodes struct {
	robot hal.Resetter // nil: no episodes
	steps uint32       // n
	limit uint32       // episodes in a run, 0: no limit
	seed  uint64

	episode, step uint32
	begun         bool // the robot was reset for this episode
}

// newEpisodes divides a run as configured. Only a simulator has episodes.
func newEpisodes(robot hal.Robot, run configs.Run) episodes {
	spec := robot.Spec()
	steps := run.Steps(spec.Period)
	if steps == 0 {
		return episodes{}
	}
	return episodes{robot: resetter(robot), steps: uint32(min(steps, math.MaxUint32-1)), limit: uint32(run.Episodes), seed: run.Seed}
}

// begin prepares t, and resets the robot where an episode starts. over is true
// when the run has had all of its episodes; t is then not to be used.
func (e *episodes) begin(t *controller.Tick) (over bool, err error) {
	if e.robot != nil && e.step > e.steps {
		e.episode++
		e.step = 0
		e.begun = false
	}
	if e.robot != nil && e.limit > 0 && e.episode >= e.limit {
		return true, nil
	}
	t.Flags, t.Episode, t.Step = 0, e.episode, e.step
	if !e.begun {
		t.Flags |= controller.FlagEpisodeStart
		if err := e.reset(); err != nil {
			return false, err
		}
	}
	if e.robot != nil && e.step == e.steps {
		t.Flags |= controller.FlagEpisodeEnd
	}
	return false, nil
}

func (e *episodes) reset() error {
	e.begun = true
	if e.robot == nil {
		return nil
	}
	if err := e.robot.Reset(episodeSeed(e.seed, e.episode)); err != nil {
		return fmt.Errorf("robot: reset for episode %d: %w", e.episode, err)
	}
	return nil
}

// end closes a tick that begin prepared. A tick of a disarmed robot does not
// count as a step.
func (e *episodes) end(t *controller.Tick) {
	if !t.Flags.Has(controller.FlagArmed) {
		return
	}
	e.step++
}

// episodeSeed gives each episode of each run a seed of its own; it fits 32
// bits, which is all that some simulators take.
func episodeSeed(run uint64, episode uint32) uint64 {
	var draw rand.PCG // no rand.Rand around it, which would be allocated
	draw.Seed(run, uint64(episode))
	return draw.Uint64() >> 32
}
