package body

import (
	"optibfm/hal"
	"optibfm/hal/legged"
)

// head is where BFM-Zero's head is in the torso, m (HEAD of scripts/g1_model.py).
var head = legged.Vector{0, 0, 0.35}

// torso is the index of the link that the head is fixed to in g1Links.
const torso = 15

// g1Links returns the links of privileged_state: the pelvis, and the links that the joints move, in
// their order. The head is added to them.
func g1Links() []string {
	links := []string{"pelvis"}
	for _, joint := range g1.Joints {
		if joint == "waist_pitch" {
			joint = "torso"
		}
		links = append(links, joint+"_link")
	}
	return links
}

// g1Channels are those of scripts/g1_bridge.py: height, positions, axes, velocities and angular
// velocities.
func g1Channels() []hal.Channel {
	links := append(g1Links(), "head")
	channels := []hal.Channel{{Name: "body_height", Unit: "m"}}
	for _, link := range links[1:] {
		channels = append(channels, axes("body_position_"+link+"_", "m")...)
	}
	for _, link := range links {
		channels = append(channels, axes("body_axes_"+link+"_x", "")...)
		channels = append(channels, axes("body_axes_"+link+"_z", "")...)
	}
	for _, kind := range []struct{ prefix, unit string }{{"body_velocity_", "m/s"}, {"body_spin_", "rad/s"}} {
		for _, link := range links {
			channels = append(channels, axes(kind.prefix+link+"_", kind.unit)...)
		}
	}
	return channels
}

// fillG1 writes privileged_state of the newest sample: positions from the pelvis, and everything
// turned into its heading.
func (e *Estimates) fillG1(dst []float32) {
	frame := legged.Heading(e.sample.Down)
	turned := func(v legged.Vector) { dst = put(dst, frame.Apply(v)) }
	all, poses := e.poses, e.estimator.Kinematics().Poses
	for i, link := range e.links {
		all[i] = poses[link]
	}
	all[len(e.links)] = all[torso].At(head)
	dst[0], dst = float32(e.estimator.Height()), dst[1:]
	for i := range all[1:] {
		turned(all[1+i].Position)
	}
	for i := range all {
		turned(all[i].Rotation.Apply(legged.Vector{1, 0, 0}))
		turned(all[i].Rotation.Apply(legged.Vector{0, 0, 1}))
	}
	velocity := e.estimator.Velocity()
	for i := range all {
		turned(all[i].Velocity.Plus(velocity))
	}
	for i := range all {
		turned(all[i].Spin)
	}
}
