package body

import (
	"testing"

	"optibfm/hal/legged"
)

// follower estimates velocity and height of a base.
type follower interface {
	Update(s *legged.Sample, at int64)
	Velocity() legged.Vector
	Height() float64
}

// plain is the usual contact-aided Kalman filter of a base whose orientation is known: the
// accelerometer predicts the velocity, and each foot whose load is above a half does not move. Its
// variances are constant. Without acceleration it is leg odometry: the mean of these feet, or the
// velocity before.
type plain struct {
	acceleration float64 // standard deviation, m/s²; 0: without a prediction
	foot         float64 // standard deviation of the velocity by a foot, m/s

	kinematics *legged.Kinematics
	began      bool
	at         int64
	velocity   legged.Vector
	variance   float64
	height     float64
}

func newPlain(acceleration, foot float64) *plain {
	return &plain{acceleration: acceleration, foot: foot, variance: 1, kinematics: legged.NewKinematics(Go2())}
}

func (p *plain) Velocity() legged.Vector { return p.velocity }
func (p *plain) Height() float64         { return p.height }

const footRadius = 0.022 // m

func (p *plain) Update(s *legged.Sample, at int64) {
	p.kinematics.Update(s.Position, s.Velocity, s.Gyro)
	if !p.began {
		p.began, p.at, p.height = true, at, p.kinematics.Depth(s.Down)
	}
	dt := float64(at-p.at) / 1e9
	p.at = at
	if p.acceleration > 0 {
		turned := s.Gyro.Cross(p.velocity)
		for i := range p.velocity {
			p.velocity[i] += (s.Accelerometer[i] + 9.81*s.Down[i] - turned[i]) * dt
		}
		p.variance += p.acceleration * p.acceleration * dt * dt
	} else {
		p.variance = 1e6
	}
	for i := range p.velocity {
		p.height -= s.Down[i] * p.velocity[i] * dt
	}
	p.correct(s)
}

func (p *plain) correct(s *legged.Sample) {
	var shown legged.Vector
	height, feet := 0.0, 0.0
	for foot, link := range Go2().Feet {
		if s.Load[foot] < 0.5 {
			continue
		}
		pose := &p.kinematics.Poses[link]
		var arm legged.Vector
		for i := range arm {
			arm[i] = footRadius * s.Down[i]
		}
		moves := pose.Velocity.Plus(pose.Spin.Cross(arm))
		for i := range shown {
			shown[i] -= moves[i]
			height += s.Down[i] * (pose.Position[i] + arm[i])
		}
		feet++
	}
	if feet == 0 {
		return
	}
	gain := p.variance / (p.variance + p.foot*p.foot/feet)
	for i := range shown {
		p.velocity[i] += gain * (shown[i]/feet - p.velocity[i])
	}
	p.variance *= 1 - gain
	p.height = height / feet
}

// The plain filters are those that docs/estimator.md compares with.
func TestEstimator_IsNoWorseThanPlainFilters(t *testing.T) {
	file := recording(t)
	for _, scene := range scenes {
		own := follow(t, file, scene, func() follower { return legged.NewEstimator(Go2()) })
		want, _ := own.all.rms()
		for name, start := range map[string]func() follower{
			"leg odometry": func() follower { return newPlain(0, plainFoot) },
			"Kalman":       func() follower { return newPlain(plainAcceleration, plainFoot) },
		} {
			other := follow(t, file, scene, start)
			velocity, height := other.all.rms()
			t.Logf("%-6s %-12s %.3f m/s, %.4f m; the estimator %.3f m/s", scene.name, name, velocity, height, want)
			if !(want < 1.2*velocity) {
				t.Errorf("%s: the estimator's rms error is %.3f m/s, that of %s %.3f", scene.name, want, name, velocity)
			}
		}
	}
}

// The best constants for the scene walk, of 0.8, 2, 3, 5, 10 and 20 m/s² and 0.05, 0.1, 0.2 and 0.4
// m/s.
const (
	plainAcceleration = 0.8
	plainFoot         = 0.2
)
