package simulator

import (
	"cmp"
	"math"
)

// Springs is a robot that hangs: each joint is an inertia that its motor moves, with a little
// noise. It needs no physics engine.
type Springs struct {
	Inertia float64 // kg m²; 0: 0.05
	steps   int
	started bool
	Pose    []float64 // at the start, rad; empty: zeros
}

// Step implements Physics.
func (p *Springs) Step(c *Command, s *State) error {
	if !p.started {
		copy(s.Q, p.Pose)
		p.started = true
	}
	inertia := p.Inertia
	inertia = cmp.Or(inertia, 0.05)
	dt := Period.Seconds()
	p.steps++
	for i := range s.Q {
		// Implicit in the velocity, so that any gains are stable.
		stiff, damped := c.Kp[i], c.Kd[i]+0.02
		force := stiff*(c.Q[i]-s.Q[i]) + c.Kd[i]*c.Dq[i] + c.Tau[i]
		s.Dq[i] = (inertia*s.Dq[i] + dt*force) / (inertia + dt*damped + dt*dt*stiff)
		s.Q[i] += dt * s.Dq[i]
		s.Tau[i] = force - c.Kd[i]*s.Dq[i]
	}
	sway := 1e-3 * math.Sin(float64(p.steps)*0.05) // readings that change
	s.Quaternion = [4]float64{math.Cos(sway / 2), math.Sin(sway / 2), 0, 0}
	s.Gyro, s.Accelerometer = [3]float64{sway, 0, 0}, [3]float64{0, 9.81 * sway, 9.81}
	return nil
}
