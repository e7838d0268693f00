package legged

import (
	"math"
	"time"
)

// Sample holds the measurements of a robot at one moment.
type Sample struct {
	Position, Velocity []float64 // of the joints, rad, rad/s [len(Body.Joints)]
	Down               Vector    // direction of gravity in the base
	Gyro               Vector    // rad/s, in the base
	Accelerometer      Vector    // m/s², in the base: upwards in a robot that stands
	Load               []float64 // of the feet, from 0, in the air, to 1 [len(Body.Feet)]; nil: not measured
}

// The constants were chosen with robots of scripts/record_legged.py whose seeds begin at 1001.
const (
	standardGravity = 9.81 // m/s²

	longestGap = 100 * time.Millisecond // between samples; after a longer one the estimator begins again
	maxPull    = 80.0                   // m/s²: more is that of an impact and no mean of a period
	maxSpin    = 50.0                   // rad/s
	maxSpeed   = 10.0                   // m/s
	maxRise    = 3.0                    // m, of the lowest point above the floor

	// Limits of a joint's measurements. Update ignores a sample beyond them.
	maxPosition = 10.0  // rad
	maxVelocity = 100.0 // rad/s

	// The standard deviation of the acceleration is that of a calm robot, m/s², and grows with the
	// square of the difference between specific force and gravity: one sample of an impact stands
	// for its whole period.
	calmNoise   = 0.8
	impactNoise = 0.01 // s²/m
	mostImpact  = 50.0 // m/s²

	odometryNoise = 0.05 // m/s, of the velocity by one foot on the floor
	slip          = 0.1  // m/s: a foot that differs by more counts less
	slipSpread    = 4.0  // the same in variances of the velocity
	newContact    = 0.2  // weight of a foot that has just come down: its velocity is that of an impact
	touching      = 0.3  // contact of a foot that was down before
	maxVariance   = 1.0  // m²/s²

	nearFloor = 0.02 // m: a point that is higher above the lowest one does not touch
	supported = 5.0  // m/s²: a specific force below is that of flight
	steady    = 5.0  // m/s²: how far the specific force of a steady robot is from gravity
	steadyFor = 0.05 // s, until links other than feet count in full

	heightGain = 0.5 // of a sample in which something touches
)

// Estimator estimates velocity and height of the base above a level floor. It adds the acceleration
// and corrects the sum with the velocity that the links on the floor show (leg odometry), each with
// a weight that falls with its difference from the estimate: a foot that slips counts less. Its
// state is a function of the samples and their times. Update allocates nothing.
type Estimator struct {
	kinematics *Kinematics
	foot       []int     // of each link: index of Body.Feet; -1: none
	contact    []float64 // of each link, 0 to 1, in the sample before
	at         int64     // of the sample before, ns
	began      bool
	pull, spin Vector  // of the sample before
	velocity   Vector  // m/s
	variance   float64 // of each component of the velocity, m²/s²
	height     float64 // m
	bump       float64 // m/s², the difference of specific force and gravity in the sample before
	calm       float64 // s, for which the robot has been steady
}

// NewEstimator returns one for a body.
func NewEstimator(body *Body) *Estimator {
	n := len(body.Links)
	e := &Estimator{kinematics: NewKinematics(body), foot: make([]int, n), contact: make([]float64, n)}
	for i := range e.foot {
		e.foot[i] = -1
	}
	for i, link := range body.Feet {
		e.foot[link] = i
	}
	e.forget()
	return e
}

// Velocity returns that of the base's origin in the base's frame, m/s. It is NaN, as Height, before
// the first good sample and after 100 ms without one.
func (e *Estimator) Velocity() Vector { return e.velocity }

// Height returns that of the base's origin above the floor, m.
func (e *Estimator) Height() float64 { return e.height }

// Kinematics returns those of the newest sample.
func (e *Estimator) Kinematics() *Kinematics { return e.kinematics }

// Update takes the sample of a moment, ns. It ignores one of the same moment, or with
// impossible values, and begins again after a gap or an earlier moment.
func (e *Estimator) Update(s *Sample, at int64) {
	dt := float64(at-e.at) / 1e9
	gap := dt < 0 || dt > longestGap.Seconds()
	switch {
	case e.began && at == e.at:
		return
	case !s.plausible():
		if gap {
			e.forget()
		}
		return
	}
	down, spin := s.Down.times(1/s.Down.Norm()), s.Gyro.atMost(maxSpin)
	pull := s.Accelerometer.Plus(down.times(standardGravity)).atMost(maxPull)
	e.kinematics.Update(s.Position, s.Velocity, spin)
	depth := e.kinematics.Depth(down)
	if !e.began || gap {
		e.begin(pull, spin, depth)
		dt = 0
	}
	e.at = at
	e.predict(pull, spin, down, dt)
	force := s.Accelerometer.Norm()
	e.addVariance(math.Abs(force-standardGravity), dt)
	e.correct(s.Load, down, depth, force > supported)
	e.height = min(max(e.height, depth-nearFloor), depth+maxRise)
}

// forget drops an estimate that is too old.
func (e *Estimator) forget() {
	nan := math.NaN()
	e.began, e.velocity, e.height = false, Vector{nan, nan, nan}, nan
}

func (e *Estimator) begin(pull, spin Vector, depth float64) {
	e.began, e.pull, e.spin, e.bump, e.calm = true, pull, spin, 0, 0
	e.velocity, e.variance, e.height = Vector{}, maxVariance, depth
	clear(e.contact)
}

// addVariance adds that of a prediction, which used the accelerations of two samples.
func (e *Estimator) addVariance(bump, dt float64) {
	worst := min(max(bump, e.bump), mostImpact)
	noise := float64((calmNoise + float64(impactNoise*float64(worst*worst))) * dt)
	e.variance = min(e.variance+float64(noise*noise), maxVariance)
	if e.calm += dt; bump > steady {
		e.calm = 0
	}
	e.bump = bump
}

// predict adds the mean of two accelerations, and turns the velocity with the base.
func (e *Estimator) predict(pull, spin, down Vector, dt float64) {
	meanPull, meanSpin := e.pull.Plus(pull).times(0.5), e.spin.Plus(spin).times(0.5)
	e.pull, e.spin = pull, spin
	e.velocity = e.velocity.Plus(meanPull.minus(meanSpin.Cross(e.velocity)).times(dt)).atMost(maxSpeed)
	e.height -= float64(down.dot(e.velocity) * dt)
}

// correct uses the links that touch the floor.
func (e *Estimator) correct(loads []float64, down Vector, depth float64, supported bool) {
	k := e.kinematics
	unfelt := 1.0 // share of the weight that the feet do not feel
	for _, load := range loads {
		unfelt = max(unfelt-load, 0)
	}
	unfelt = float64(unfelt * min(e.calm/steadyFor, 1))
	var contacts, heights, weights float64
	var velocities Vector
	spread := float64(slip*slip) + float64(slipSpread*e.variance)
	for link := range k.lowest {
		contact := e.touches(link, loads, depth, unfelt, supported)
		before := e.contact[link]
		e.contact[link] = contact
		if contact == 0 {
			continue
		}
		contacts += contact
		heights += float64(contact * k.lowest[link].depth)
		if before < touching {
			contact = float64(contact * newContact)
		}
		shown := k.touch(link, down).times(-1)
		difference := shown.minus(e.velocity)
		weight := contact / (odometryNoise * odometryNoise) / (1 + difference.dot(difference)/spread)
		weights += weight
		velocities = velocities.Plus(shown.times(weight))
	}
	if weights == 0 {
		return
	}
	gain := e.variance / (e.variance + 1/weights)
	e.velocity = e.velocity.Plus(velocities.times(1 / weights).minus(e.velocity).times(gain))
	e.variance = float64(e.variance * (1 - gain))
	e.height += float64(heightGain * min(contacts, 1) * (heights/contacts - e.height))
}

// touches returns the degree to which a link touches the floor, from 0 to 1: a foot as it is
// loaded, or, if nothing measures that, as it is near the lowest point of a robot that does not
// fly; other links, and feet that feel nothing, for the share of the weight that is left.
func (e *Estimator) touches(link int, loads []float64, depth, unfelt float64, supported bool) float64 {
	above := depth - e.kinematics.lowest[link].depth
	if e.kinematics.lowest[link].point < 0 {
		return 0
	}
	near := max(1-above/nearFloor, 0)
	switch foot := e.foot[link]; {
	case foot >= 0 && loads != nil:
		return max(loads[foot], float64(near*unfelt))
	case foot >= 0 && supported:
		return near
	}
	return float64(near * unfelt)
}

// plausible reports whether all values are finite and can be those of a robot; predict limits the
// motion.
func (s *Sample) plausible() bool {
	for i, q := range s.Position {
		if !(math.Abs(q) <= maxPosition && math.Abs(s.Velocity[i]) <= maxVelocity) {
			return false
		}
	}
	for _, load := range s.Load {
		if !(load >= 0 && load <= 1) {
			return false
		}
	}
	motion := s.Gyro.Norm() + s.Accelerometer.Norm()
	return s.Down.Norm() > 0.5 && s.Down.Norm() < 2 && !math.IsNaN(motion) && !math.IsInf(motion, 0)
}
