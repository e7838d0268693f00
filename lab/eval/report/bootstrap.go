package report

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// bootstrap finds out how uncertain a number is by drawing the trials of
// each task anew.
type bootstrap struct {
	seed      uint64
	resamples int
}

// uncertainty is how far a number may be from what it estimates: the standard
// error is the root mean square of what was drawn, at either side of the value,
// as a ratio is more uncertain upwards.
type uncertainty struct {
	value        float64
	below, above float64 // standard errors to either side
	freedom      float64 // degrees of freedom of the standard errors
}

// confidence is that of all intervals.
const confidence = 0.95

// block is trials that are drawn together: those on a task that have the same seeds,
// whatever their methods and models, as a seed decides the initial states for all of
// them. So a difference is that of trials that met the same initial states, and states
// that were met with several models count once.
type block struct {
	places []int // of the drawn trials
	n      int   // trials that there are
}

// redrawing is one number of each of some trials, centred as if other trials had
// been found.
type redrawing struct {
	blocks []*block
	of     map[*numbers]*block
}

func newRedrawing(samples []sample) *redrawing {
	r := &redrawing{of: make(map[*numbers]*block)}
	known := make(map[string][]*numbers) // by task
	for _, s := range samples {
		for i := range s {
			at := s[i].task
			for _, n := range []*numbers{&s[i].values, &s[i].oracle} {
				if len(n.values) == 0 {
					continue
				}
				r.add(n, known[at])
				known[at] = append(known[at], n)
			}
		}
	}
	return r
}

// add puts numbers into the block of others of the same task and seeds, or into their
// own.
func (r *redrawing) add(n *numbers, others []*numbers) {
	for _, other := range others {
		if slices.Equal(other.seeds, n.seeds) {
			r.of[n] = r.of[other]
			return
		}
	}
	d := &block{n: len(n.values)}
	r.blocks = append(r.blocks, d)
	r.of[n] = d
}

// centre is the mean of the drawn trials, of all where none were drawn.
func (r *redrawing) centre(n *numbers) float64 {
	places := r.of[n].places
	if len(places) == 0 {
		return meanOf(n)
	}
	sum := 0.0
	for _, i := range places {
		sum += n.values[i]
	}
	return sum / float64(len(places))
}

// resample draws n-1 of n trials with replacement. Drawing n makes intervals too
// narrow by √(1-1/n), which matters with few trials (Rao and Wu, 1988).
func (r *redrawing) resample(rng *rand.Rand) {
	for _, d := range r.blocks {
		d.places = d.places[:0]
		for range d.n - 1 {
			d.places = append(d.places, rng.IntN(d.n))
		}
	}
}

// freedom is how many degrees of freedom the variance of a statistic has, by
// Satterthwaite's approximation: each block's part of the variance is that of the
// jackknife.
func (r *redrawing) freedom(statistic func(centre) float64) float64 {
	total, weighted, least := 0.0, 0.0, math.Inf(1)
	for _, d := range r.blocks {
		d.places = nil
	}
	for _, d := range r.blocks {
		v, own := r.jackknife(d, statistic), float64(d.n-1)
		total += v
		weighted += v * v / own
		least = min(least, own)
	}
	if !(weighted > 0) { // the trials do not differ
		return least
	}
	return total * total / weighted
}

// jackknife is what one block adds to the variance of a statistic.
func (r *redrawing) jackknife(d *block, statistic func(centre) float64) float64 {
	left := make([]float64, d.n)
	for without := range left {
		d.places = d.places[:0]
		for i := range d.n {
			if i != without {
				d.places = append(d.places, i)
			}
		}
		left[without] = statistic(r.centre)
	}
	d.places = nil
	middle, sum := mean(left), 0.0
	for _, v := range left {
		sum += (v - middle) * (v - middle)
	}
	return sum * float64(d.n-1) / float64(d.n)
}

// uncertainty is that of a statistic of samples, each place of which was tried
// more than once. What it is called decides the random numbers, so that it does
// not depend on what else is computed.
func (b bootstrap) uncertainty(name string, samples []sample, statistic func(centre) float64) uncertainty {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	rng := rand.New(rand.NewPCG(b.seed, hash.Sum64()))
	r := newRedrawing(samples)
	u := uncertainty{value: statistic(meanOf), freedom: r.freedom(statistic)}
	var squares, counts [2]float64
	for range b.resamples {
		r.resample(rng)
		off := statistic(r.centre) - u.value
		side := 0
		if off > 0 {
			side = 1
		}
		squares[side] += off * off
		counts[side]++
		if off == 0 {
			counts[0] -= 0.5
			counts[1] += 0.5
		}
	}
	u.below, u.above = math.Sqrt(squares[0]/max(counts[0], 0.5)), math.Sqrt(squares[1]/max(counts[1], 0.5))
	if math.IsInf(u.value+u.below+u.above, 0) || math.IsNaN(u.value+u.below+u.above) {
		u.below, u.above = math.NaN(), math.NaN() // what is divided by reached zero
	}
	return u
}

// interval holds what is estimated in 95 % of cases. It is as wide as Student's
// t distribution asks for with so few trials.
func (u uncertainty) interval() Interval {
	t := u.student().Quantile((1 + confidence) / 2)
	return Interval{u.value - t*u.below, u.value + t*u.above}
}

func (u uncertainty) student() distuv.StudentsT {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: u.freedom}
}

// doubt is the probability of a value as far above a bound as this if the truth
// were the bound: below 2.5 % where the interval lies above it. It is 1 where
// nothing is known, and where no trial differs from the bound: being equal shows
// neither that it is above nor that it is below.
func (u uncertainty) doubt(bound float64) float64 {
	off, side := u.value-bound, u.below
	if off < 0 {
		side = u.above
	}
	switch {
	case math.IsNaN(u.below) || math.IsNaN(u.above):
		return 1
	case side == 0 && off > 0:
		return 0
	case side == 0:
		return 1
	}
	return u.student().Survival(off / side)
}
