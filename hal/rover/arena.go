package rover

import "math"

// Pose is where the body is: the centre of the arena is the origin, x points
// east and y north, and the heading is counter-clockwise from east.
type Pose struct {
	X, Y    float64 // m
	Heading float64 // rad, in [-π, π]
}

// PoseFromObs is the pose that an observation tells, for an arena of the given
// side. obs has length 6; it panics on a shorter one.
func PoseFromObs(obs []float32, arenaM float64) Pose {
	v := newView(obs)
	return Pose{
		X:       v.x * arenaM / 2,
		Y:       v.y * arenaM / 2,
		Heading: math.Atan2(v.sin, v.cos),
	}
}

// Pose is the true pose, without sensor noise.
func (r *Rover) Pose() Pose {
	return Pose{X: r.state.x, Y: r.state.y, Heading: r.state.heading}
}
