package setup

import (
	"math"
	"time"

	"optibfm/configs"
	"optibfm/episodes"
	"optibfm/hal"
)

// Periods converts seconds to whole periods.
func Periods(seconds float64, period time.Duration) uint64 {
	return uint64(seconds*float64(time.Second)/float64(period) + 0.5)
}

// NewEpisodes returns the episodes of a run. Only a simulator has any.
func NewEpisodes(robot hal.Robot, run configs.Run) episodes.Episodes {
	steps := run.Steps(robot.Spec().Period)
	if steps == 0 {
		return episodes.Episodes{}
	}
	return episodes.Episodes{
		Robot: episodes.Resetter(robot), Steps: uint32(min(steps, math.MaxUint32-1)),
		Limit: uint32(run.Episodes), Seed: run.Seed,
	}
}
