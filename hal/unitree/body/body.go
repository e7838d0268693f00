package body

import (
	"slices"

	"optibfm/hal"
	"optibfm/hal/legged"
)

// Go2 returns the tree of a Go2. Do not change it.
func Go2() *legged.Body { return &go2 }

// G1 returns the tree of a G1. Do not change it.
func G1() *legged.Body { return &g1 }

// Measured has the readings of a robot's newest state.
type Measured struct {
	At                        int64     // ns
	Position, Velocity        []float32 // of the joints, rad, rad/s
	Down, Gyro, Accelerometer [3]float32
	Foot                      [4]float32 // of a Go2
}

// Estimates are readings that a robot does not measure. Fill allocates nothing.
type Estimates struct {
	estimator *legged.Estimator
	sample    legged.Sample
	carrying  float64       // reading of a foot that carries
	links     []int         // of the tree, in the order of BFM-Zero's privileged_state; nil: a Go2
	poses     []legged.Pose // of links and head
}

// NewGo2 returns the estimates base_velocity_x, _y, _z, m/s in the base's frame, and base_height,
// m. carrying is the foot_force of a foot that carries the robot. Below a third of it a foot is in
// the air.
func NewGo2(carrying float64) *Estimates {
	e := newEstimates(&go2)
	e.carrying = carrying
	e.sample.Load = make([]float64, len(go2.Feet))
	return e
}

// NewG1 returns the 463 readings body_* of BFM-Zero's privileged_state, which scripts/g1_bridge.py
// describes.
func NewG1() *Estimates {
	e := newEstimates(&g1)
	for _, name := range g1Links() {
		e.links = append(e.links, slices.IndexFunc(g1.Links, func(l legged.Link) bool { return l.Name == name }))
	}
	e.poses = make([]legged.Pose, len(e.links)+1)
	return e
}

func newEstimates(tree *legged.Body) *Estimates {
	n := len(tree.Joints)
	return &Estimates{
		estimator: legged.NewEstimator(tree),
		sample:    legged.Sample{Position: make([]float64, n), Velocity: make([]float64, n)},
	}
}

// Channels describes the readings.
func (e *Estimates) Channels() []hal.Channel {
	if e.links != nil {
		return g1Channels()
	}
	return append(axes("base_velocity_", "m/s"), hal.Channel{Name: "base_height", Unit: "m"})
}

func axes(prefix, unit string) (channels []hal.Channel) {
	for _, axis := range []string{"x", "y", "z"} {
		channels = append(channels, hal.Channel{Name: prefix + axis, Unit: unit})
	}
	return channels
}

// Fill writes the readings, dst [len(Channels())].
func (e *Estimates) Fill(dst []float32, m *Measured) {
	s := &e.sample
	for i := range s.Position {
		s.Position[i], s.Velocity[i] = float64(m.Position[i]), float64(m.Velocity[i])
	}
	s.Down, s.Gyro, s.Accelerometer = wide(m.Down), wide(m.Gyro), wide(m.Accelerometer)
	air := e.carrying / 3
	for i := range s.Load {
		s.Load[i] = min(max((float64(m.Foot[i])-air)/(e.carrying-air), 0), 1)
	}
	e.estimator.Update(s, m.At)
	if e.links != nil {
		e.fillG1(dst)
		return
	}
	put(dst, e.estimator.Velocity())
	dst[3] = float32(e.estimator.Height())
}

func wide(v [3]float32) legged.Vector {
	return legged.Vector{float64(v[0]), float64(v[1]), float64(v[2])}
}

// put writes a vector, and returns the bytes behind it.
func put(dst []float32, v legged.Vector) []float32 {
	dst[0], dst[1], dst[2] = float32(v[0]), float32(v[1]), float32(v[2])
	return dst[3:]
}
