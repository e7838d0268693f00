package taskprior

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"optibfm/tflite"
)

// Family describes the random rewards, for a prior's description.
var Family = fmt.Sprintf("products of 1 to %d sigmoids, bumps or ramps of single channels; "+
	"with probability %g nearness to a recorded state in 2 to %d channels", maxFactors, Near, maxNearChannels)

// Options choose the random rewards.
type Options struct {
	Rewards int // number, at least 100 and 10 d
	Seed    uint64
}

// DefaultOptions returns 4,000 rewards and seed 1.
func DefaultOptions() Options { return Options{Rewards: 4000, Seed: 1} }

// Estimate returns the task prior of a model from observations [n, O]. n is at least 10 d; it
// uses at most 20,000 of them.
func Estimate(f Features, obs []float32, o Options) (*tflite.Prior, error) {
	p, err := estimate(f, obs, o)
	if err != nil {
		return nil, fmt.Errorf("taskprior: %w", err)
	}
	return p, nil
}

func estimate(f Features, obs []float32, o Options) (*tflite.Prior, error) {
	d := f.Dims().Latent
	if least := max(100, 10*d); o.Rewards < least {
		return nil, fmt.Errorf("%d rewards are too few for %d features; use at least %d", o.Rewards, d, least)
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x7461736b))
	s, err := newStates(f, obs, rng)
	if err != nil {
		return nil, err
	}
	left, err := s.leaveOut(o.Rewards, rng)
	if err != nil {
		return nil, err
	}
	best := choose(left)
	tasks, err := s.tasks(everything(s.varying), o.Rewards, rng)
	if err != nil {
		return nil, err
	}
	m := shrunk(moment(tasks), best.isotropic)
	m.ScaleSym(best.width, m)
	return &tflite.Prior{
		Mean: s.mean, Moment: flat(m), Family: Family,
		Rewards: o.Rewards, Seed: o.Seed, States: len(s.columns[0]),
		Isotropic: best.isotropic, Width: best.width, P50: best.p50 / best.width, P90: best.p90 / best.width,
	}, nil
}

// moment returns E[z zᵀ] of tasks [n, d].
func moment(tasks *mat.Dense) *mat.SymDense {
	n, d := tasks.Dims()
	m := mat.NewSymDense(d, nil)
	m.SymOuterK(1/float64(n), tasks.T())
	return m
}

// shrunk returns (1-s)m + s(tr m/d)I.
func shrunk(m *mat.SymDense, s float64) *mat.SymDense {
	d := m.SymmetricDim()
	mixed := mat.NewSymDense(d, nil)
	mixed.ScaleSym(1-s, m)
	for i := range d {
		mixed.SetSym(i, i, mixed.At(i, i)+s*mat.Trace(m)/float64(d))
	}
	return mixed
}

// squares returns u²/d = zᵀm⁻¹z/d of each task, [n], all infinite where m is singular.
func squares(m *mat.SymDense, tasks *mat.Dense) []float64 {
	n, d := tasks.Dims()
	u2 := make([]float64, n)
	var chol mat.Cholesky
	var solved mat.Dense
	if !chol.Factorize(m) || chol.SolveTo(&solved, tasks.T()) != nil {
		for i := range u2 {
			u2[i] = math.Inf(1)
		}
		return u2
	}
	for i := range u2 {
		u2[i] = mat.Dot(tasks.RowView(i), solved.ColView(i)) / float64(d)
	}
	return u2
}

func flat(m *mat.SymDense) []float64 {
	d := m.SymmetricDim()
	values := make([]float64, 0, d*d)
	for i := range d {
		for j := range d {
			values = append(values, m.At(i, j))
		}
	}
	return values
}

// everything is all random rewards of some channels.
func everything(channels []int) kind {
	return kind{shapes: []family{sigmoid, bump, ramp}, near: Near, channels: channels}
}

// fold leaves out some rewards.
type fold struct{ kept, left kind }

// folds leave out each family and each of up to five groups of the channels.
func folds(channels []int, rng *rand.Rand) []fold {
	all := everything(channels)
	families := func(near float64, shapes ...family) kind { return kind{shapes, near, channels} }
	list := []fold{
		{families(Near, bump, ramp), families(0, sigmoid)},
		{families(Near, sigmoid, ramp), families(0, bump)},
		{families(Near, sigmoid, bump), families(0, ramp)},
		{families(0, all.shapes...), families(1, all.shapes...)},
	}
	groups := min(5, len(channels))
	if groups < 2 {
		return list
	}
	order := rng.Perm(len(channels))
	for g := range groups {
		var kept, left []int
		for i, at := range order {
			if i%groups == g {
				left = append(left, channels[at])
			} else {
				kept = append(kept, channels[at])
			}
		}
		list = append(list, fold{everything(kept), everything(left)})
	}
	return list
}

// candidate is an isotropic share with the percentiles of u²/d of left-out rewards.
type candidate struct{ isotropic, p50, p90, width float64 }

// maxRatio is the largest ratio of the percentiles that needs no greater share.
const maxRatio = 4

// leaveOut returns a candidate of each isotropic share.
func (s *states) leaveOut(rewards int, rng *rand.Rand) ([]candidate, error) {
	shares := []float64{0, 0.05, 0.1, 0.3}
	u2 := make([][]float64, len(shares))
	for _, f := range folds(s.varying, rng) {
		kept, err := s.tasks(f.kept, max(rewards/4, perLatent*len(s.mean)), rng)
		if err != nil {
			return nil, err
		}
		left, err := s.tasks(f.left, rewards/20, rng)
		if err != nil {
			return nil, err
		}
		m := moment(kept)
		for i, share := range shares {
			u2[i] = append(u2[i], squares(shrunk(m, share), left)...)
		}
	}
	var list []candidate
	for i, share := range shares {
		slices.Sort(u2[i])
		c := candidate{isotropic: share}
		c.p50, c.p90 = stat.Quantile(0.5, stat.Empirical, u2[i], nil), stat.Quantile(0.9, stat.Empirical, u2[i], nil)
		c.width = max(c.p50, c.p90/2)
		list = append(list, c)
	}
	return list, nil
}

// choose applies the rule of the package's documentation.
func choose(list []candidate) candidate {
	best := list[len(list)-1]
	for _, c := range slices.Backward(list) {
		if c.p90/c.p50 <= max(maxRatio, best.p90/best.p50) {
			best = c
		}
	}
	return best
}
