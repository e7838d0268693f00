package flightlog

import (
	"fmt"
	"math"

	"optibfm/controller"
)

// angleTolerance is for the rounding errors of a logged angle, in degrees.
const angleTolerance = 1e-6

// exploration checks that the z of a log kept the limits of controller.explore. It compares angles
// between logged z and uses no code of the agent's limits. The plans are not compared.
type exploration struct {
	limits controller.ExploreConfig
	step   float64   // largest turn between two ticks, degrees
	last   []float64 // z of the last tick with one, nil if unknown
	held   bool      // until the first applied label
}

func newExploration(m *Metadata) *exploration {
	limits := m.Control.Explore
	return &exploration{
		limits: limits, step: limits.TurnDegPerS * m.Robot.Period.Seconds(), held: limits.UntilLabel,
	}
}

// check compares the z of a tick. After a gap the last z is unknown, and labels may be missing. A
// new episode may have reset a simulator.
func (e *exploration) check(t *controller.Tick, gap bool, c *comparison) {
	if gap || t.Flags.Has(controller.FlagEpisodeStart) {
		e.last = nil
	}
	e.held = e.held && !gap && !t.Taught()
	if norm(t.Z) == 0 { // no valid plan
		return
	}
	if len(e.limits.Vetted) > 0 {
		e.checkVetted(t.Z, c)
	}
	if e.last != nil && e.limits.TurnDegPerS > 0 {
		c.atMost("turn of z", controller.AngleDeg(e.last, t.Z), e.step)
	}
	e.last = append(e.last[:0], t.Z...)
}

func (e *exploration) checkVetted(z []float64, c *comparison) {
	if e.held {
		c.atMost("z before the first label, off its task", controller.AngleDeg(e.limits.Vetted[0], z), 0)
	}
	if e.limits.WithinDeg == 0 {
		return
	}
	nearest := math.Inf(1)
	for _, v := range e.limits.Vetted {
		nearest = min(nearest, controller.AngleDeg(v, z))
	}
	c.atMost("z off the nearest vetted task", nearest, e.limits.WithinDeg)
}

func (c *comparison) atMost(field string, degrees, limit float64) {
	if !(degrees <= limit+angleTolerance) {
		c.note(field, fmt.Sprintf("%.6g°", degrees), fmt.Sprintf("at most %.6g°", limit))
	}
}
