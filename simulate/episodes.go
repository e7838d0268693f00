package simulate

import (
	"fmt"
	"math/rand/v2"

	"optibfm/controller"
	"optibfm/hal"
)

// Episodes divides a simulator's run: an episode of n steps has n+1 ticks, of
// which the last senses and rewards the final state and does not act. A robot
// without episodes has one that never ends; that is also the zero value.
type Episodes struct {
	// Robot is reset where an episode starts; nil: there are no episodes.
	Robot hal.Resetter
	// Steps is n, at least 1.
	Steps uint32
	// Limit is the number of episodes in a run; 0: no limit.
	Limit uint32
	// Seed is that of the run, from which each episode's own follows.
	Seed uint64

	episode, step uint32
	begun         bool // the robot was reset for this episode
}

// Begin prepares t, and resets the robot where an episode starts. over is true
// when the run has had all of its episodes; t is then not to be used.
func (e *Episodes) Begin(t *controller.Tick) (over bool, err error) {
	if e.Robot != nil && e.step > e.Steps {
		e.episode++
		e.step = 0
		e.begun = false
	}
	if e.Robot != nil && e.Limit > 0 && e.episode >= e.Limit {
		return true, nil
	}
	t.Flags, t.Episode, t.Step = 0, e.episode, e.step
	if !e.begun {
		t.Flags |= controller.FlagEpisodeStart
		if err := e.reset(); err != nil {
			return false, err
		}
	}
	if e.Robot != nil && e.step == e.Steps {
		t.Flags |= controller.FlagEpisodeEnd
	}
	return false, nil
}

func (e *Episodes) reset() error {
	e.begun = true
	if e.Robot == nil {
		return nil
	}
	if err := e.Robot.Reset(EpisodeSeed(e.Seed, e.episode)); err != nil {
		return fmt.Errorf("robot: reset for episode %d: %w", e.episode, err)
	}
	return nil
}

// End closes a tick that Begin prepared. A tick of a disarmed robot does not
// count as a step.
func (e *Episodes) End(t *controller.Tick) {
	if !t.Flags.Has(controller.FlagArmed) {
		return
	}
	e.step++
}

// EpisodeSeed gives each episode of each run a seed of its own; it fits 32
// bits, which is all that some simulators take.
func EpisodeSeed(run uint64, episode uint32) uint64 {
	var draw rand.PCG // no rand.Rand around it, which would be allocated
	draw.Seed(run, uint64(episode))
	return draw.Uint64() >> 32
}

// Resetter returns the robot as a simulator with episodes, or nil. A robot in
// another process says by CanReset whether it is one.
func Resetter(r hal.Robot) hal.Resetter {
	if remote, ok := r.(interface{ CanReset() bool }); ok && !remote.CanReset() {
		return nil
	}
	s, _ := r.(hal.Resetter)
	return s
}
