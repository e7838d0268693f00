package report

import (
	"math"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/posterior"
)

const (
	maxMoments     = 512 // at which the belief is shown
	maxMomentsWide = 128 // where d is above wide: each costs O(d³)
	wide           = 128
	maxSigmaDim    = 512 // above it the standard deviations are left out
)

// believed is what a replay of the belief tells.
type believed struct {
	result flightlog.Result
	failed error // why there is none

	// One entry a tick.
	estimate []float64 // φᵀẑ, ẑ as it was after the tick before
	spread   []float64 // its standard deviation, ‖φ‖ in V⁻¹

	moments []moment
	credit  *credit
	phi     []float64 // of all ticks, [n, d], where the page gets it
}

// moment is the belief after a tick.
type moment struct {
	pos   int
	z     []float32
	sigma []float32
	norm  float64
}

// follow replays the log. What it cannot know is NaN or left out.
func follow(r *flightlog.Reader, c *collected) *believed {
	f := newFollower(c)
	f.b.result, f.b.failed = flightlog.Follow(r, f.visit)
	if f.b.failed != nil {
		f.b.phi = nil
	}
	return f.b
}

type follower struct {
	b      *believed
	d      int
	pos    int
	stride int
	ticks  int
	mean   []float64
	known  bool // mean is ẑ after the tick before
	invR   []float64
}

func newFollower(c *collected) *follower {
	d, n := c.meta.Shape.Latent, c.ticks()
	limit := maxMoments
	if d > wide {
		limit = maxMomentsWide
	}
	f := &follower{
		b: &believed{credit: newCredit(c)}, d: d, ticks: n,
		stride: max(1, (n+limit-1)/limit), mean: make([]float64, d),
	}
	if d <= maxSigmaDim {
		f.invR = make([]float64, d*d)
	}
	if fitsWhole(n, len(f.b.credit.labels), d) {
		f.b.phi = make([]float64, 0, n*d)
	}
	return f
}

func (f *follower) visit(t *controller.Tick, belief *posterior.Belief) {
	estimate, spread := math.NaN(), math.NaN()
	if f.known && !t.Flags.Has(controller.FlagBadObs) {
		estimate, spread = dot(t.Phi, f.mean), math.Sqrt(t.NormSq)
	}
	f.b.estimate = append(f.b.estimate, estimate)
	f.b.spread = append(f.b.spread, spread)
	f.known = belief != nil
	if f.known {
		belief.Mean(f.mean)
		if f.pos%f.stride == 0 || f.pos == f.ticks-1 {
			f.b.moments = append(f.b.moments, f.moment(belief))
		}
	}
	if f.b.phi != nil {
		f.b.phi = append(f.b.phi, t.Phi...)
	}
	if !t.Flags.Has(controller.FlagBadObs) {
		f.b.credit.observe(t.Index, t.Phi)
	}
	f.pos++
}

func (f *follower) moment(belief *posterior.Belief) moment {
	m := moment{pos: f.pos, z: make([]float32, f.d), norm: math.Sqrt(dot(f.mean, f.mean))}
	for i, v := range f.mean {
		m.z[i] = float32(v)
	}
	if f.invR == nil {
		return m
	}
	// V⁻¹ = R⁻¹R⁻ᵀ: its diagonal holds the squared norms of the rows of R⁻¹.
	belief.InvR(f.invR)
	m.sigma = make([]float32, f.d)
	for i := range m.sigma {
		row := f.invR[i*f.d : (i+1)*f.d]
		m.sigma[i] = float32(math.Sqrt(dot(row, row)))
	}
	return m
}
