package controller

import (
	"fmt"
	"math"
	"time"

	"optibfm/hal"
)

// guard stands before and behind the decision: it lets no implausible
// observation in and no implausible action out.
type guard struct {
	obs      []hal.Channel
	action   []hal.Channel
	step     []float32 // largest change of an action in one period; +Inf: none
	last     []float32 // what was sent last, in the robot's units: the last good action
	maxBad   int
	badTicks int // consecutive
}

func newGuard(cfg GuardConfig, spec hal.Spec) *guard {
	g := &guard{
		obs: spec.Obs, action: spec.Action,
		step: make([]float32, len(spec.Action)), last: make([]float32, len(spec.Action)),
		maxBad: cfg.MaxBadTicks,
	}
	for i, c := range spec.Action {
		g.step[i] = rateStep(c.MaxRate, spec.Period)
	}
	g.restart()
	return g
}

func rateStep(perSecond float64, period time.Duration) float32 {
	if perSecond <= 0 {
		return float32(math.Inf(1))
	}
	return float32(perSecond * period.Seconds())
}

// restart starts from the failsafe output, where the actuators are after Halt
// and at the start of an episode.
func (g *guard) restart() {
	for i, c := range g.action {
		g.last[i] = float32(c.Failsafe)
	}
	g.badTicks = 0
}

// restartDisarmed starts from the disarmed output, or the limit next to it.
func (g *guard) restartDisarmed() {
	for i, c := range g.action {
		g.last[i] = float32(min(max(c.Disarmed, c.Min), c.Max))
	}
	g.badTicks = 0
}

// admits reports whether an observation is finite and plausible.
func (g *guard) admits(obs []float32) bool {
	for i, x := range obs {
		v := float64(x)
		if !finite(v) {
			return false
		}
		if c := &g.obs[i]; c.Min < c.Max && (v < c.Min || v > c.Max) {
			return false
		}
	}
	return true
}

// limit turns the policy's action in [-1, 1], in place, into the robot's
// units within its value and rate limits. ok is false, and the action the last
// good one, where a number is not finite.
func (g *guard) limit(action []float32) (limited, ok bool) {
	for _, x := range action {
		if !finite(float64(x)) {
			g.repeat(action)
			return false, false
		}
	}
	for i, c := range g.action {
		wanted := float32((c.Max+c.Min)/2 + float64(action[i])*((c.Max-c.Min)/2))
		x := min(max(wanted, float32(c.Min)), float32(c.Max))
		x = min(max(x, g.last[i]-g.step[i]), g.last[i]+g.step[i])
		limited = limited || x != wanted
		action[i] = x
	}
	return limited, true
}

// sent notes what went to the actuators.
func (g *guard) sent(action []float32) { copy(g.last, action) }

// repeat answers with the last good action.
func (g *guard) repeat(action []float32) { copy(action, g.last) }

// tooMany counts consecutive bad ticks and reports whether there were more
// than the limit.
func (g *guard) tooMany(bad bool) bool {
	if !bad {
		g.badTicks = 0
		return false
	}
	g.badTicks++
	return g.badTicks > g.maxBad
}

// checkSpec refuses a robot that does not fit the model.
func checkSpec(spec hal.Spec, obs, action int) error {
	if err := spec.Validate(); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if len(spec.Obs) != obs || len(spec.Action) != action {
		return fmt.Errorf("controller: robot %q does not fit the model: found %d observation and %d action channels, the model has %d and %d: use a bundle trained for this robot",
			spec.Name, len(spec.Obs), len(spec.Action), obs, action)
	}
	return nil
}
