package legged

import "math"

// Body is the tree of rigid links of a robot, as an MJCF describes it.
type Body struct {
	Joints []string // names, in the order of the robot's messages
	Links  []Link   // the base first, parents before children
	Points []Point  // of the surface, whose convex hull is the robot's
	Feet   []int    // links, in the order of the robot's messages
}

// Link is a rigid part that turns about an axis through its origin.
type Link struct {
	Name        string
	Parent      int        // -1: the base
	Joint       int        // index of Body.Joints; -1: none
	Position    Vector     // of the origin in the parent, m
	Orientation [4]float64 // in the parent, with the joint at 0: a unit quaternion w x y z; 0: that of the parent
	Axis        Vector     // of the joint, in the link
}

// Point is a sphere that is fixed to a link.
type Point struct {
	Link     int
	Position Vector  // of the centre, m
	Radius   float64 // m
}

// Pose is a link's state in the frame of the base, relative to the base's origin.
type Pose struct {
	Rotation Matrix // its columns are the link's axes
	Position Vector // of the link's origin, m
	Velocity Vector // of the link's origin, m/s; without that of the base's origin, with the turn of the base
	Spin     Vector // rad/s, with the turn of the base
}

// At returns the pose of a frame that is fixed to the link at a point, m, and parallel to its own.
func (p *Pose) At(point Vector) Pose {
	arm := p.Rotation.Apply(point)
	moved := *p
	moved.Position = p.Position.Plus(arm)
	moved.Velocity = p.Velocity.Plus(p.Spin.Cross(arm))
	return moved
}

// Kinematics computes the poses of the links of a body. Its methods allocate nothing.
type Kinematics struct {
	Poses []Pose // of the links, by the newest Update

	body   *Body
	fixed  []Matrix // the orientation of each link in its parent
	down   []Vector // of each link: the direction of gravity in its frame
	lowest []lowest // of each link
}

// lowest is the lowest point of a link.
type lowest struct {
	point int     // index of Body.Points; -1: the link has none
	depth float64 // below the base's origin, m
}

// NewKinematics returns the kinematics of a body with all joints at 0.
func NewKinematics(body *Body) *Kinematics {
	n := len(body.Links)
	k := &Kinematics{
		Poses: make([]Pose, n), body: body, fixed: make([]Matrix, n), down: make([]Vector, n), lowest: make([]lowest, n),
	}
	for i := range body.Links {
		k.fixed[i] = identity
		if q := body.Links[i].Orientation; q != [4]float64{} {
			k.fixed[i] = rotation(q)
		}
	}
	zeros := make([]float64, len(body.Joints))
	k.Update(zeros, zeros, Vector{})
	return k
}

// Update computes the poses for joint positions, rad, and velocities, rad/s [len(Body.Joints)], and
// the angular velocity of the base in its frame, rad/s.
func (k *Kinematics) Update(position, velocity []float64, spin Vector) {
	k.Poses[0] = Pose{Rotation: identity, Spin: spin}
	for i := 1; i < len(k.Poses); i++ {
		link, pose := &k.body.Links[i], &k.Poses[i]
		parent := &k.Poses[link.Parent]
		offset := parent.Rotation.Apply(link.Position)
		pose.Position = parent.Position.Plus(offset)
		pose.Velocity = parent.Velocity.Plus(parent.Spin.Cross(offset))
		pose.Rotation = parent.Rotation.after(&k.fixed[i])
		pose.Spin = parent.Spin
		if link.Joint < 0 {
			continue
		}
		pose.Spin = pose.Spin.Plus(pose.Rotation.Apply(link.Axis).times(velocity[link.Joint]))
		turned := turn(link.Axis, position[link.Joint])
		pose.Rotation = pose.Rotation.after(&turned)
	}
}

// Depth returns the distance of the lowest point of the robot below the base's origin, m: the
// height of the base if the robot touches a level floor. down is the unit direction of gravity in
// the base.
func (k *Kinematics) Depth(down Vector) float64 {
	for i := range k.lowest {
		k.lowest[i] = lowest{-1, math.Inf(-1)}
		k.down[i] = k.Poses[i].Rotation.applyInverse(down)
	}
	deepest := math.Inf(-1)
	for i := range k.body.Points {
		p := &k.body.Points[i]
		depth := down.dot(k.Poses[p.Link].Position) + k.down[p.Link].dot(p.Position) + p.Radius
		if depth > k.lowest[p.Link].depth {
			k.lowest[p.Link] = lowest{i, depth}
		}
		deepest = max(deepest, depth)
	}
	return deepest
}

// touch returns the velocity, m/s, of the material at the lowest point of a link, relative to the
// base's origin. It is valid after Depth with the same direction.
func (k *Kinematics) touch(link int, down Vector) Vector {
	p, pose := &k.body.Points[k.lowest[link].point], &k.Poses[link]
	arm := pose.Rotation.Apply(p.Position).Plus(down.times(p.Radius))
	return pose.Velocity.Plus(pose.Spin.Cross(arm))
}
