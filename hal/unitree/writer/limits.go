package writer

import (
	"math"
	"time"

	"optibfm/hal/unitree"
)

// limiter limits the goals of joints.
type limiter struct {
	low, high []float64 // rad
	rate      []float64 // rad/s
	torque    []float64 // N·m
	kp, kd    []float64
}

// maxStep is the longest time over which a goal moves at its rate: after a longer pause it
// continues slowly.
const maxStep = 10 * time.Millisecond

// limit returns the goal of joint i that is nearest to wanted, rad: within its range, reached from
// the last goal at its rate after dt, and last within the torque kp (goal - q) - kd dq of its
// limit. The torque may take the goal out of its range, towards the joint: it is what the motor
// obeys.
func (l *limiter) limit(i int, wanted, last, q, dq float64, dt time.Duration) float64 {
	if math.IsNaN(wanted) {
		wanted = last
	}
	step := l.rate[i] * min(dt, maxStep).Seconds()
	v := min(max(wanted, l.low[i]), l.high[i])
	v = min(max(v, last-step), last+step)
	kp, damping := l.kp[i], l.kd[i]*dq
	return min(max(v, q+(damping-l.torque[i])/kp), q+(damping+l.torque[i])/kp)
}

func newLimiter(c unitree.Config) *limiter {
	joints := unitree.Joints(c.Model)
	n := len(joints)
	l := &limiter{rate: unitree.Each(c.MaxRate, n), kp: unitree.Each(c.Kp, n), kd: unitree.Each(c.Kd, n)}
	most := unitree.Each(c.MaxTorque, n)
	for i, j := range joints {
		l.low, l.high = append(l.low, j.Min-unitree.Slack), append(l.high, j.Max+unitree.Slack)
		limit := j.Torque
		if most[i] > 0 {
			limit = min(limit, most[i])
		}
		l.torque = append(l.torque, limit)
	}
	return l
}
