package controller

import (
	"fmt"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/tflite"
)

// guard rejects implausible observations, and limits the value and the rate of
// actions.
type guard struct {
	obs      []hal.Channel
	action   []hal.Channel
	step     []float32 // largest change of an action in one period; +Inf: no limit
	last     []float32 // the last action sent, in the robot's units
	idle     []float32 // the disarmed output, or the failsafe output of a robot without one; within limits
	maxBad   int
	badTicks int // consecutive
}

func newGuard(cfg GuardConfig, spec hal.Spec, disarms bool) *guard {
	g := &guard{
		obs: spec.Obs, action: spec.Action,
		step: make([]float32, len(spec.Action)), last: make([]float32, len(spec.Action)),
		idle:   make([]float32, len(spec.Action)),
		maxBad: cfg.MaxBadTicks,
	}
	for i, c := range spec.Action {
		g.step[i] = rateStep(c.MaxRate, spec.Period)
		idle := c.Failsafe
		if disarms {
			idle = min(max(c.Disarmed, c.Min), c.Max)
		}
		g.idle[i] = float32(idle)
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

// restart sets the last action to the failsafe output, where the actuators are
// after Halt and at the start of a simulator's episode.
func (g *guard) restart() {
	for i, c := range g.action {
		g.last[i] = float32(c.Failsafe)
	}
	g.badTicks = 0
}

// begin sets the last action to where the actuators are: their measured positions, else the idle
// outputs. A measured channel whose position is not known stays as it is.
func (g *guard) begin(measured []float32) {
	for i, c := range g.action {
		switch x := measured[i]; {
		case finite(float64(x)):
			g.last[i] = min(max(x, float32(c.Min)), float32(c.Max))
		case c.Measured.Obs == "":
			g.last[i] = g.idle[i]
		}
	}
	g.badTicks = 0
}

// rest sets the last action to the outputs of a disarmed robot: positions stay, the others are
// idle.
func (g *guard) rest() {
	for i := range g.action {
		if !g.action[i].IsPosition() {
			g.last[i] = g.idle[i]
		}
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

// limit converts the policy's action from [-1, 1] to the robot's units, in
// place, and applies its value and rate limits. If a number is not finite, ok
// is false and the action becomes the last one.
func (g *guard) limit(action []float32) (limited, ok bool) {
	if !g.convert(action) {
		return false, false
	}
	for i, wanted := range action {
		action[i] = g.bound(i, wanted)
		limited = limited || action[i] != wanted
	}
	return limited, true
}

// convert converts the policy's action from [-1, 1] to the robot's units, in place. If a number is
// not finite, ok is false and the action becomes the last one.
func (g *guard) convert(action []float32) (ok bool) {
	for _, x := range action {
		if !finite(float64(x)) {
			g.repeat(action)
			return false
		}
	}
	for i, c := range g.action {
		action[i] = float32((c.Max+c.Min)/2 + float64(action[i])*((c.Max-c.Min)/2))
	}
	return true
}

// policyAction writes the action of a policy, from -1 to 1, that gives a command.
func (g *guard) policyAction(dst, command []float32) {
	for i, c := range g.action {
		dst[i] = float32((2*float64(command[i]) - c.Max - c.Min) / (c.Max - c.Min))
	}
}

// bound applies the value and rate limits of a channel to a command.
func (g *guard) bound(channel int, wanted float32) float32 {
	c := &g.action[channel]
	x := min(max(wanted, float32(c.Min)), float32(c.Max))
	return min(max(x, g.last[channel]-g.step[channel]), g.last[channel]+g.step[channel])
}

// hold writes the action with which the robot stands still, and reports whether a rate limit delays
// it.
func (g *guard) hold(action []float32, how string) (limited bool) {
	g.repeat(action)
	if how == HoldLast {
		return false
	}
	for i, c := range g.action {
		action[i] = g.bound(i, float32(c.Failsafe))
		limited = limited || action[i] != float32(c.Failsafe)
	}
	return limited
}

// sent records the action that went to the actuators.
func (g *guard) sent(action []float32) { copy(g.last, action) }

// repeat writes the last action.
func (g *guard) repeat(action []float32) { copy(action, g.last) }

// tooMany counts consecutive bad ticks and reports whether they exceed the
// limit.
func (g *guard) tooMany(bad bool) bool {
	if !bad {
		g.badTicks = 0
		return false
	}
	g.badTicks++
	return g.badTicks > g.maxBad
}

// checkSpec returns an error for a robot that does not fit the model. observed is the number of
// elements that its readings give.
func checkSpec(spec hal.Spec, observed int, model tflite.Dims) error {
	if err := spec.Validate(); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if observed != model.Obs || len(spec.Action) != model.Action {
		return fmt.Errorf("controller: robot %q does not fit the model: "+
			"found %d observation and %d action channels, the model has %d and %d; use a bundle trained for this robot",
			spec.Name, observed, len(spec.Action), model.Obs, model.Action)
	}
	return nil
}
