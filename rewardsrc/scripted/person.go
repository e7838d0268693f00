package scripted

import (
	"math"
	"math/rand/v2"
)

// decay returns exp(-d/tau), in [0, 1]; d and tau in nanoseconds. A negative d is 0.
func decay(d int64, tau float64) float64 { return math.Exp(-float64(max(d, 0)) / tau) }

// average is the mean of the rewards that the operator saw, each weighted by exp(-age/tau).
type average struct {
	tau    float64 // nanoseconds
	at     int64   // of the newest reward
	weight float64 // sum of all weights; that of the newest reward is 1
	mean   float64
}

func (a *average) add(at int64, reward float64) {
	a.weight = 1 + a.weight*decay(at-a.at, a.tau)
	share := 1 / a.weight
	a.mean = (1-share)*a.mean + share*reward // this form cannot overflow
	a.at = at
}

// walk is a random walk in [-bound, bound], from 0.
type walk struct {
	std, bound float64 // std: after a minute
	at         int64   // nanoseconds
	x          float64
	random     *rand.Rand
}

func (w *walk) step(at int64) {
	minutes := float64(max(at-w.at, 0)) / 60e9
	w.x = reflect(w.x+w.random.NormFloat64()*w.std*math.Sqrt(minutes), w.bound)
	w.at = at
}

// reflect folds x into [-bound, bound] as mirrors at both ends would.
func reflect(x, bound float64) float64 {
	turn := math.Mod(x+bound, 4*bound) // there and back
	if turn < 0 {
		turn += 4 * bound
	}
	return bound - math.Abs(turn-2*bound)
}

// tiredness decides whether the operator still bothers to press.
type tiredness struct {
	halfLife, recovery float64 // labels, nanoseconds
	at                 int64
	recent             float64 // weighted number of labels, at time at
	random             *rand.Rand
}

// willing draws whether the operator labels a state at a time.
func (t *tiredness) willing(at int64) bool {
	if t.halfLife == 0 {
		return true
	}
	t.recent *= decay(at-t.at, t.recovery)
	t.at = at
	return t.random.Float64() < math.Exp2(-t.recent/t.halfLife)
}

func (t *tiredness) pressed() { t.recent++ }

// reaction draws reaction times. Their logarithm has a normal distribution, cut at two standard
// deviations: at shortest and longest.
type reaction struct {
	shortest, longest float64 // seconds; longest 0: none
	random            *rand.Rand
}

// draw returns a reaction time in nanoseconds.
func (r *reaction) draw() int64 {
	if r.longest == 0 {
		return 0
	}
	const cut = 2
	within := math.Erf(cut / math.Sqrt2)                              // probability of what is not cut off
	z := math.Sqrt2 * math.Erfinv(within*(2*r.random.Float64()-1))    // normal, in [-cut, cut]
	s := r.shortest * math.Pow(r.longest/r.shortest, (z+cut)/(2*cut)) // log-normal
	return nanoseconds(min(max(s, r.shortest), r.longest))            // in spite of rounding
}
