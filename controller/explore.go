package controller

import (
	"fmt"
	"math"
	"time"
)

// ExploreConfig limits the z that the agent follows, for any z of the planner. Only its direction
// is limited; it keeps the norm of the planned z, except while UntilLabel holds.
type ExploreConfig struct {
	Tasks []string `yaml:"tasks"` // vetted tasks: saved tasks that are known to be safe
	// UntilLabel follows the first vetted task until a label of the run is applied, and again after
	// a switch to a task without labels.
	UntilLabel  bool    `yaml:"until_label"`
	WithinDeg   float64 `yaml:"within_deg" rule:"[0, 80]"`        // largest angle to the nearest vetted task; 0: no limit
	TurnDegPerS float64 `yaml:"turn_deg_per_s" rule:"[0, 36000]"` // fastest turn of z, at most 90° a tick; 0: no limit

	// Vetted has the z of Tasks, [len(Tasks)][d].
	Vetted [][]float64 `yaml:"-" json:",omitempty"`
}

// maxVetted bounds the time of a tick.
const maxVetted = 16

func (e ExploreConfig) check(v *mistakes, d int) {
	used := e.UntilLabel || e.WithinDeg > 0
	switch {
	case used && len(e.Tasks) == 0:
		v.add("explore.tasks", "none", "name a saved task that is known to be safe, see `optibfm task list`")
	case !used && len(e.Tasks) > 0:
		v.add("explore.tasks", e.Tasks, "set explore.within_deg or explore.until_label, or remove the tasks")
	case len(e.Tasks) > maxVetted:
		v.add("explore.tasks", fmt.Sprintf("%d tasks", len(e.Tasks)), fmt.Sprintf("use at most %d", maxVetted))
	}
	e.checkVetted(v, d)
}

func (e ExploreConfig) checkVetted(v *mistakes, d int) {
	if n := len(e.Vetted); n > 0 && n != len(e.Tasks) {
		v.add("explore.tasks", fmt.Sprintf("%d z", n), fmt.Sprintf("give one for each of the %d tasks", len(e.Tasks)))
		return
	}
	for i, z := range e.Vetted {
		if length := norm(z); d > 0 && len(z) != d || !finite(length) || length < tinyNorm {
			v.add("explore.tasks", e.Tasks[i], fmt.Sprintf("its z needs %d finite numbers that are not all 0", d))
			return
		}
	}
	if e.WithinDeg > 0 && e.TurnDegPerS > 0 {
		e.checkOverlap(v)
	}
}

// checkOverlap refuses a vetted task that a z with a limited turn can never reach: its cone meets
// no earlier one.
func (e ExploreConfig) checkOverlap(v *mistakes) {
	for i, z := range e.Vetted {
		nearest := math.Inf(1)
		for _, earlier := range e.Vetted[:i] {
			nearest = min(nearest, AngleDeg(z, earlier))
		}
		if i > 0 && nearest > 2*e.WithinDeg {
			v.add("explore.within_deg", e.WithinDeg, fmt.Sprintf("z cannot turn to the task %s, %.1f° from those "+
				"before it: use at least %.4g, set turn_deg_per_s to 0, or list it after a nearer task",
				e.Tasks[i], nearest, math.Ceil(nearest*5)/10))
		}
	}
}

// AngleDeg returns the angle between x and y [d], which are not 0, in degrees.
func AngleDeg(x, y []float64) float64 {
	sum, difference := 0.0, 0.0
	nx, ny := norm(x), norm(y)
	for i := range x {
		a, b := x[i]/nx, y[i]/ny
		sum += (a + b) * (a + b)
		difference += (a - b) * (a - b)
	}
	return 2 * math.Atan2(math.Sqrt(difference), math.Sqrt(sum)) * 180 / math.Pi
}

// explorer applies the limits of ExploreConfig to z on the control thread. It works on directions:
// vectors of norm 1.
type explorer struct {
	vetted  [][]float64 // directions of the vetted tasks
	within  arc         // largest angle to the nearest of them
	turn    arc         // largest angle between the z of successive ticks
	first   []float64   // z of the first vetted task
	held    bool        // no label yet: z is first
	until   bool        // hold a task without labels
	last    []float64   // direction of the last z, [d]
	started bool        // last is valid
	next    []float64   // scratch, [d]
}

// arc is an angle of at most 90° with its squared chord, sine and cosine.
type arc struct {
	on                bool
	chordSq, sin, cos float64
}

func newArc(degrees float64) arc {
	rad := degrees * math.Pi / 180
	chord := 2 * math.Sin(rad/2)
	return arc{on: degrees > 0, chordSq: chord * chord, sin: math.Sin(rad), cos: math.Cos(rad)}
}

// newExplorer returns the explorer of a checked configuration.
func newExplorer(cfg ExploreConfig, d int, period time.Duration) (*explorer, error) {
	e := &explorer{
		within: newArc(cfg.WithinDeg), turn: newArc(min(cfg.TurnDegPerS*period.Seconds(), 90)),
		held: cfg.UntilLabel, until: cfg.UntilLabel,
		last: make([]float64, d), next: make([]float64, d),
	}
	if len(cfg.Vetted) != len(cfg.Tasks) {
		return nil, fmt.Errorf("%w: explore.tasks: the z of %v are missing", ErrConfig, cfg.Tasks)
	}
	for _, z := range cfg.Vetted {
		unit := make([]float64, d)
		direction(unit, z)
		e.vetted = append(e.vetted, unit)
	}
	if e.held {
		e.first = append([]float64(nil), cfg.Vetted[0]...)
	}
	return e, nil
}

// restart forgets the last z: a simulator was reset.
func (e *explorer) restart() { e.started = false }

// hold follows the first vetted task until the next label: the run switched to a task without
// labels.
func (e *explorer) hold() { e.held = e.until }

// limit replaces the z of a tick by the one that the agent may follow. z is finite and not 0. A
// tick of an agent that skipped periods turns z by one period's angle. O(nd) for n vetted tasks.
func (e *explorer) limit(t *Tick) {
	e.held = e.held && !t.Taught()
	if e.held {
		copy(t.Z, e.first)
		t.Flags |= FlagExplore
	}
	length := direction(e.next, t.Z)
	frozen := t.Flags.Has(FlagHeld) && e.turn.on && e.started
	if frozen { // it would turn while the robot stands still
		copy(e.next, e.last)
	}
	changed := e.enter(e.next, e.nearest(e.next)) || frozen
	if e.started && e.turn.exceeded(e.last, e.next) {
		e.approach()
		changed = true
	}
	copy(e.last, e.next)
	e.started = true
	if !changed {
		return
	}
	t.Flags |= FlagExplore
	for i, x := range e.next {
		t.Z[i] = length * x
	}
}

// approach makes next the direction one turn from last towards next. If next is
// then outside all cones, approach moves it into the cone of last. That does not make the turn
// larger: the cone is convex, since its angle is below 90°, and the turn is at most 90°.
func (e *explorer) approach() {
	rotate(e.next, e.last, e.next, e.turn)
	if task := e.nearest(e.next); task != nil && e.within.exceeded(task, e.next) {
		e.enter(e.next, e.nearest(e.last))
	}
}

// nearest returns the vetted task nearest to x, or nil without a limit within_deg.
func (e *explorer) nearest(x []float64) (task []float64) {
	if !e.within.on {
		return nil
	}
	least := math.Inf(1)
	for _, v := range e.vetted {
		if c := chordSq(v, x); c < least {
			least, task = c, v
		}
	}
	return task
}

// enter moves x onto the cone around a task if it is outside.
func (e *explorer) enter(x, task []float64) (moved bool) {
	if task == nil || !e.within.exceeded(task, x) {
		return false
	}
	rotate(x, task, x, e.within)
	return true
}

func (a arc) exceeded(x, y []float64) bool { return a.on && chordSq(x, y) > a.chordSq }

// rotate makes dst the direction at angle a from the direction from, on the great circle towards
// to. If to is opposite to from it takes one of the great circles. dst may be to.
func rotate(dst, from, to []float64, a arc) {
	if !orthogonal(dst, to, from) && !anyOrthogonal(dst, from) {
		copy(dst, from) // d = 1
		return
	}
	for i, x := range from {
		dst[i] = a.cos*x + a.sin*dst[i]
	}
	direction(dst, dst)
}

// anyOrthogonal makes dst a direction orthogonal to y.
func anyOrthogonal(dst, y []float64) bool {
	axis := 0
	for i, v := range y {
		if math.Abs(v) < math.Abs(y[axis]) {
			axis = i
		}
	}
	clear(dst)
	dst[axis] = 1
	return orthogonal(dst, dst, y)
}

// orthogonal makes dst the direction of the part of x that is orthogonal to y; x and y are
// directions. The second round removes the rounding errors of the first. It returns false if that
// part is too small.
func orthogonal(dst, x, y []float64) bool {
	copy(dst, x)
	for range 2 {
		along := 0.0
		for i, v := range y {
			along += v * dst[i]
		}
		for i, v := range y {
			dst[i] -= along * v
		}
		if norm(dst) < 1e-12 {
			return false
		}
		direction(dst, dst)
	}
	return true
}

// direction writes x/‖x‖ to dst and returns ‖x‖.
func direction(dst, x []float64) (length float64) {
	length = norm(x)
	for i, v := range x {
		dst[i] = v / length
	}
	return length
}

// chordSq returns ‖x-y‖². Unlike a product it is exact for small angles.
func chordSq(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += (v - y[i]) * (v - y[i])
	}
	return sum
}
