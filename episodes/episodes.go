package episodes

import (
	"fmt"
	"math/rand/v2"

	"optibfm/controller"
	"optibfm/hal"
)

// Episodes divides the run of a simulator. An episode of n steps has n+1 ticks.
// The last one senses and rewards the final state and does not act. The zero
// value is one endless episode, for a robot without episodes.
type Episodes struct {
	// Robot is reset at the start of each episode; nil: no episodes.
	Robot hal.Resetter
	// Steps is n, at least 1.
	Steps uint32
	// Limit is the number of episodes in a run; 0: no limit.
	Limit uint32
	// Seed of the run; see EpisodeSeed.
	Seed uint64

	episode, step uint32
	begun         bool // the robot was reset for this episode
}

// Begin prepares t, and resets the robot at the start of an episode. over is true
// after the last episode; t is then undefined.
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

// End finishes a tick of Begin. A tick of a disarmed robot is not a step.
func (e *Episodes) End(t *controller.Tick) {
	if !t.Flags.Has(controller.FlagArmed) {
		return
	}
	e.step++
}

// EpisodeSeed returns the seed of an episode. It has 32 bits, the limit of some
// simulators.
func EpisodeSeed(run uint64, episode uint32) uint64 {
	var draw rand.PCG // rand.New would allocate
	draw.Seed(run, uint64(episode))
	return draw.Uint64() >> 32
}

// Resetter returns the robot as a simulator with episodes, or nil. A robot in
// another process reports with CanReset whether it has episodes.
func Resetter(r hal.Robot) hal.Resetter {
	if remote, ok := r.(interface{ CanReset() bool }); ok && !remote.CanReset() {
		return nil
	}
	s, _ := r.(hal.Resetter)
	return s
}
