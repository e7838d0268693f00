package report

import (
	"math"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/posterior"
)

const (
	maxMoments     = 512 // moments at which the belief is shown
	maxMomentsWide = 128 // if d is above wide: each costs O(d³)
	wide           = 128
	maxSigmaDim    = 512 // a belief of more dimensions is shown without standard deviations
)

// believed is the result of replaying the belief.
type believed struct {
	result flightlog.Result
	failed error // why the log could not be replayed

	// One entry a tick.
	estimate []float64 // φᵀẑ with ẑ after the tick before
	spread   []float64 // its standard deviation

	length, scored float64 // sum of ‖φ‖ in V⁻¹, and the number of these ticks, as flightlog.WhatIf counts them

	moments []moment
}

// moment is the belief after a tick.
type moment struct {
	pos   int
	z     []float32
	sigma []float32
	norm  float64
}

// follow replays the log. Unknown values are NaN or left out.
func follow(r *flightlog.Reader, c *collected) *believed {
	f := newFollower(c)
	f.b.result, f.b.failed = flightlog.Follow(r, f.visit)
	return f.b
}

type follower struct {
	b      *believed
	cfg    controller.Config
	d      int
	pos    int
	stride int
	ticks  int
	mean   []float64
	zero   float64 // of the operator
	sigma  float64
	known  bool // mean is ẑ after the tick before
	spread []float64
}

func newFollower(c *collected) *follower {
	d, n := c.meta.Shape.Latent, c.ticks()
	limit := maxMoments
	if d > wide {
		limit = maxMomentsWide
	}
	f := &follower{
		b: &believed{}, cfg: c.meta.Control, d: d, ticks: n,
		stride: max(1, (n+limit-1)/limit), mean: make([]float64, d),
	}
	if d <= maxSigmaDim {
		f.spread = make([]float64, d*d)
	}
	return f
}

func (f *follower) visit(t *controller.Tick, belief *posterior.Belief) {
	estimate, spread := math.NaN(), math.NaN()
	if f.known && !t.Flags.Has(controller.FlagBadObs) {
		estimate, spread = f.cfg.Expected(t.Phi, f.mean, f.zero), f.cfg.Deviation(t.NormSq, f.sigma)
	}
	if !t.Flags.Has(controller.FlagBadObs) {
		f.b.length += math.Sqrt(t.NormSq)
		f.b.scored++
	}
	f.b.estimate = append(f.b.estimate, estimate)
	f.b.spread = append(f.b.spread, spread)
	f.known = belief != nil
	if f.known {
		f.cfg.Mean(f.mean, belief)
		f.zero, f.sigma = t.Zero, t.Sigma
		if f.pos%f.stride == 0 || f.pos == f.ticks-1 {
			f.b.moments = append(f.b.moments, f.moment(belief))
		}
	}
	f.pos++
}

func (f *follower) moment(belief *posterior.Belief) moment {
	m := moment{pos: f.pos, z: make([]float32, f.d), norm: math.Sqrt(dot(f.mean, f.mean))}
	for i, v := range f.mean {
		m.z[i] = float32(v)
	}
	if f.spread == nil {
		return m
	}
	// The covariance is SSᵀ, so the squared norms of the rows of S are its diagonal.
	f.cfg.Spread(f.spread, belief, f.cfg.Scale(f.sigma))
	m.sigma = make([]float32, f.d)
	for i := range m.sigma {
		row := f.spread[i*f.d : (i+1)*f.d]
		m.sigma[i] = float32(math.Sqrt(dot(row, row)))
	}
	return m
}
