package controller

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"optibfm/hal"
)

// Accepted is the value of Motion.Unmeasured with which an operator accepts a first command that
// may be a jump.
const Accepted = "accepted"

// Motion is a slow motion to a pose: to the start pose after arming, or to the rest pose before
// disarming. Without a pose the robot does not move.
type Motion struct {
	// Pose is the value of each named action channel, in its unit and limits: {shoulder: 0.3}.
	// Other positions stay where they are; speeds, forces and the like have their disarmed output,
	// or their failsafe output.
	Pose map[string]float64 `yaml:"pose" rule:"finite"`
	// RampS is the duration of the motion. A channel with a lower max_rate takes longer.
	RampS float64 `yaml:"ramp_s" rule:"[0.1, 60]"`
	// SettleS is the time that the robot then holds the pose.
	SettleS float64 `yaml:"settle_s" rule:"[0, 60]"`
	// BlendS is the duration of the transition from the start pose to the policy. A rest pose
	// ignores it.
	BlendS float64 `yaml:"blend_s" rule:"[0.1, 60]"`
	// Tolerance is the largest distance of a measured channel from its command, as a share of its
	// range.
	Tolerance float64 `yaml:"tolerance" rule:"(0, 1]"`
	// FollowS is the time that a channel may be farther away before the robot stops.
	FollowS float64 `yaml:"follow_s" rule:"[0.05, 60]"`
	// Unmeasured: accepted arms a robot with position channels (rad, deg, m, mm) that nothing
	// measures: they may jump. Empty refuses it. A rest pose ignores it.
	Unmeasured string `yaml:"unmeasured" rule:"accepted|"`
}

// DefaultMotion returns the durations and tolerances of a motion, without a pose.
func DefaultMotion() Motion {
	return Motion{RampS: 3, SettleS: 1, BlendS: 0.5, Tolerance: 0.1, FollowS: 0.5}
}

// mover executes a Motion. Its errors are allocated in advance: a tick allocates nothing.
type mover struct {
	goal      []float32 // NaN: the channel stays, or is idle
	idle      []bool    // the channel has its idle output: a speed or a force must not continue
	tolerance []float32 // largest distance of a channel from its command
	errs      []error   // of a channel that does not follow

	ramp, settle, blend, follow uint64 // ticks

	from    []float32 // commands at the start
	tick    uint64    // since the start
	settled uint64    // since the pose was reached
	over    bool      // the policy has taken over
	late    []uint64  // ticks for which a channel has not followed
}

// newMover returns nil for a motion without a pose. Its errors wrap ErrConfig; key names the motion
// in them.
func newMover(key string, m Motion, spec hal.Spec) (*mover, error) {
	if len(m.Pose) == 0 {
		return nil, nil
	}
	n := len(spec.Action)
	v := &mover{
		goal: make([]float32, n), idle: make([]bool, n), tolerance: make([]float32, n), errs: make([]error, n),
		from: make([]float32, n), late: make([]uint64, n),
	}
	left := maps.Clone(m.Pose)
	for i, c := range spec.Action {
		x, named := left[c.Name]
		delete(left, c.Name)
		switch {
		case !named:
			x = math.NaN()
			v.idle[i] = !c.IsPosition()
		case !(x >= c.Min && x <= c.Max):
			return nil, fmt.Errorf("%w: %s.pose: %s: found %g; give a value within its limits %g to %g",
				ErrConfig, key, c.Name, x, c.Min, c.Max)
		}
		v.goal[i] = float32(x)
		v.tolerance[i] = float32(m.Tolerance * (c.Max - c.Min))
		v.errs[i] = fmt.Errorf("%q was farther than %.3g%s from its command for %g s; "+
			"look for a blockage, a motor without power or a wrong sensor",
			c.Name, v.tolerance[i], unitSuffix(c.Unit), m.FollowS)
	}
	if len(left) > 0 {
		unknown := slices.Sorted(maps.Keys(left))
		return nil, fmt.Errorf("%w: %s.pose: %s has no action channel %q; use one of %s",
			ErrConfig, key, spec.Name, unknown[0], strings.Join(channelNames(spec.Action), ", "))
	}
	for _, d := range []struct {
		ticks   *uint64
		key     string
		seconds float64
		least   float64
	}{
		{&v.ramp, "ramp_s", m.RampS, 0.1}, {&v.settle, "settle_s", m.SettleS, 0},
		{&v.blend, "blend_s", m.BlendS, 0.1}, {&v.follow, "follow_s", m.FollowS, 0.05},
	} {
		if !(d.seconds >= d.least && d.seconds <= 60) {
			return nil, fmt.Errorf("%w: %s.%s: found %g s; give %g to 60 s", ErrConfig, key, d.key, d.seconds, d.least)
		}
		*d.ticks = uint64(math.Ceil(d.seconds * float64(time.Second) / float64(spec.Period)))
	}
	if !(m.Tolerance > 0 && m.Tolerance <= 1) {
		return nil, fmt.Errorf("%w: %s.tolerance: found %g; give a value above 0, at most 1", ErrConfig, key, m.Tolerance)
	}
	return v, nil
}

func channelNames(channels []hal.Channel) (names []string) {
	for _, c := range channels {
		names = append(names, c.Name)
	}
	return names
}

// begin starts the motion where the commands are.
func (v *mover) begin(last []float32) {
	copy(v.from, last)
	v.tick, v.settled, v.over = 0, 0, false
	clear(v.late)
}

// follows returns the error of a measured channel that does not follow its commands.
func (v *mover) follows(last, measured []float32) error {
	for i, x := range measured {
		distance := x - last[i]
		if distance < 0 {
			distance = -distance
		}
		if !(distance > v.tolerance[i]) { // also NaN: it is not measured
			v.late[i] = 0
			continue
		}
		if v.late[i]++; v.late[i] > v.follow {
			return v.errs[i]
		}
	}
	return nil
}

// goalOf returns the goal of a channel. One that the pose does not name stays where it began, or is
// idle.
func (v *mover) goalOf(channel int, g *guard) float32 {
	switch x := v.goal[channel]; {
	case finite(float64(x)):
		return x
	case v.idle[channel]:
		return g.idle[channel]
	}
	return v.from[channel]
}

// held reports whether the pose was reached and held for its time.
func (v *mover) held() bool { return v.settled >= max(v.settle, 1) }

// step writes the next command on the way to the pose, within the limits of value and rate. It
// reports whether a limit changed it.
func (v *mover) step(g *guard, action []float32) (limited bool) {
	v.tick++
	share := smoothStep(v.tick, v.ramp)
	arrived := v.tick >= v.ramp
	for i := range action {
		goal := v.goalOf(i, g)
		wanted := goal
		if share < 1 && !v.idle[i] {
			wanted = v.from[i] + share*(goal-v.from[i])
		}
		action[i] = g.bound(i, wanted)
		limited = limited || action[i] != wanted
		arrived = arrived && action[i] == goal
	}
	if arrived {
		v.settled++
	}
	return limited
}

// blendStep mixes the policy's action, in the robot's units and in place, with the pose. It reports
// whether a limit changed it.
func (v *mover) blendStep(g *guard, policy []float32) (limited bool) {
	v.settled++
	k := v.settled - max(v.settle, 1)
	share := float32(min(float64(k)/float64(v.blend), 1))
	for i, p := range policy {
		pose := v.goalOf(i, g)
		wanted := pose + share*(p-pose)
		policy[i] = g.bound(i, wanted)
		limited = limited || policy[i] != wanted
	}
	v.over = k >= v.blend
	return limited
}

// smoothStep returns the share of a motion after k of n ticks: 3x² − 2x³, which begins and ends
// with speed 0.
func smoothStep(k, n uint64) float32 {
	if k >= n {
		return 1
	}
	x := float64(k) / float64(n)
	return float32(x * x * (3 - 2*x))
}

var errResting = errors.New("the robot moves to its rest pose; " +
	"wait until it is disarmed, or disarm again to end the motion at once")
