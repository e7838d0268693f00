package rover

import "math"

// Pose is the pose of the body: the origin is the centre of the arena, x points
// east and y north, and the heading is counter-clockwise from east.
type Pose struct {
	X, Y    float64 // m
	Heading float64 // rad, in [-π, π]
}

// PoseFromObs returns the pose in an observation of length 6, for an arena with
// the given side.
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
