package controller

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"optibfm/hal"
)

// positions holds the measured positions of the actuators.
type positions struct {
	channels []hal.Channel // of the action
	meter    hal.Meter     // the robot, or nil if the readings have the positions
	sources  []int         // of each channel in the readings, -1: none
	now      []float32     // the newest positions, NaN: not measured, or not known
}

func newPositions(robot hal.Robot) *positions {
	spec := robot.Spec()
	p := &positions{
		channels: spec.Action,
		sources:  make([]int, len(spec.Action)), now: make([]float32, len(spec.Action)),
	}
	p.meter, _ = robot.(hal.Meter)
	for i, c := range spec.Action {
		p.sources[i] = slices.IndexFunc(spec.Obs, func(o hal.Channel) bool { return o.Name == c.Measured.Obs })
		p.now[i] = float32(math.NaN())
	}
	return p
}

// update takes the positions from the robot's Meter or, without one, from the newest sample.
func (p *positions) update(readings []float32) {
	if p.meter != nil {
		p.meter.Positions(p.now)
		return
	}
	for i, source := range p.sources {
		if source >= 0 {
			m := &p.channels[i].Measured
			p.now[i] = float32(measuredScale(m)*float64(readings[source]) + m.Offset)
		}
	}
}

func measuredScale(m *hal.Measured) float64 {
	if m.Scale == 0 {
		return 1
	}
	return m.Scale
}

// measured reports whether a channel is measured.
func (p *positions) measured() bool {
	return slices.ContainsFunc(p.channels, func(c hal.Channel) bool { return c.Measured.Obs != "" })
}

// ErrPosition means that Arm refuses the current position of the robot.
var ErrPosition = errors.New("motion could not begin where the robot is")

func (s Safety) checkStart(c *hal.Channel) error {
	accepted := c.Measured.Obs == "" && s.Start.Unmeasured == Accepted
	switch {
	case !c.IsPosition() || accepted:
		return nil
	case c.Measured.Obs == "":
		return fmt.Errorf("%w: %q has no position sensor; set its measured.obs, "+
			"or set safety.start.unmeasured to %s", ErrPosition, c.Name, Accepted)
	case c.MaxRate == 0 && len(s.Start.Pose) == 0:
		return fmt.Errorf("%w: %q may jump at its first command; set its max_rate, or safety.start.pose",
			ErrPosition, c.Name)
	}
	return nil
}

// CheckStart returns an error for each position channel whose first command could be a jump. A
// channel passes if safety.start.unmeasured accepts it, or if it is measured and has a max_rate or
// a start pose. Simulated robots pass.
func (s Safety) CheckStart(action []hal.Channel) error {
	if s.Simulated {
		return nil
	}
	var errs []error
	for i := range action {
		errs = append(errs, s.checkStart(&action[i]))
	}
	return errors.Join(errs...)
}

// CheckPoses returns an error if a pose has a channel that the robot lacks, or a value outside its
// limits.
func (s Safety) CheckPoses(spec hal.Spec) error {
	_, startErr := newMover("safety.start", s.Start, spec)
	_, restErr := newMover("safety.rest", s.Rest, spec)
	return errors.Join(startErr, restErr)
}

// check returns an error unless every measured channel is known, and near enough to its limits for
// [hal.Channel.Nearest]. age is that of the sample; oldest is 0 for no limit.
func (p *positions) check(age, oldest, period time.Duration) error {
	for i := range p.channels {
		c, x := &p.channels[i], p.now[i]
		_, near := c.Nearest(float64(x), period)
		switch {
		case c.Measured.Obs == "":
		case oldest > 0 && age > oldest:
			return fmt.Errorf("%w: the position of %q is %v old (at most %v); check the sensor",
				ErrPosition, c.Name, age, oldest)
		case !finite(float64(x)):
			return fmt.Errorf("%w: the position of %q is not known; check %s", ErrPosition, c.Name, c.Measured.Obs)
		case !near:
			return fmt.Errorf("%w: %q is at %.4g%s, outside its limits %g to %g; move it by hand into them",
				ErrPosition, c.Name, x, unitSuffix(c.Unit), c.Min, c.Max)
		}
	}
	return nil
}
