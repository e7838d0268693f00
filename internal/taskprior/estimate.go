package taskprior

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"optibfm/tflite"
)

// Family describes the random rewards, for a prior's description.
var Family = fmt.Sprintf("products of 1 to %d sigmoids, bumps or ramps of single channels; "+
	"with probability %g nearness to a recorded state in 2 to %d channels; all groups of channels are equally "+
	"likely", maxFactors, Near, maxNearChannels)

// Options choose the random rewards.
type Options struct {
	Rewards int // number, at least max(100, 10 d) for d features
	Seed    uint64

	// Groups has the name of each channel's group, [O], or is empty. A channel with the name ""
	// forms its own group.
	Groups []string
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
	s, err := newStates(f, obs, o.Groups, rng)
	if err != nil {
		return nil, err
	}
	left, err := s.leaveOut(o.Rewards, rng)
	if err != nil {
		return nil, err
	}
	best, err := choose(left)
	if err != nil {
		return nil, err
	}
	residuals, err := s.addResiduals(min(maxResiduals, o.Rewards/10-d), rng)
	if err != nil {
		return nil, err
	}
	all, err := s.tasks(everything(s.varying), o.Rewards, rng)
	if err != nil {
		return nil, err
	}
	examples := all.examples(examplesKept, rng)
	m := shrunk(scaledFirst(all.moment(), len(residuals.Terms), residualScale), len(residuals.Terms), best.isotropic)
	width := max(best.width, rewardDeviation*rewardDeviation/s.variance(m))
	m.ScaleSym(width, m)
	return &tflite.Prior{
		Mean: s.mean, Residuals: residuals, Moment: flat(m), Examples: examples, Family: Family,
		Rewards: o.Rewards, Seed: o.Seed, States: len(s.columns[0]),
		Isotropic: best.isotropic, Width: width, P50: best.p50 / width, P90: best.p90 / width,
	}, nil
}

// rewardDeviation is the smallest standard deviation of φᵀz over the recorded states and the prior,
// for rewards in a range of 1.
const rewardDeviation = 0.3

// variance returns the mean over the states of the variance of (φ-μ)ᵀz for (g, z) ~ N(0, m).
func (s *states) variance(m *mat.SymDense) float64 {
	phi, n := s.phi().values, m.SymmetricDim()
	k := n - len(s.mean)
	var product mat.Dense
	product.Mul(phi, m.SliceSym(k, n))
	product.MulElem(&product, phi)
	rows, _ := product.Dims()
	return mat.Sum(&product) / float64(rows)
}

// moment returns the weighted mean of z zᵀ.
func (t tasks) moment() *mat.SymDense {
	_, n := t.w.Dims()
	m := mat.NewSymDense(n, nil)
	total := floats.Sum(t.weights)
	if total == 0 {
		return m
	}
	scaled := mat.DenseCopyOf(t.w)
	for i, w := range t.weights {
		floats.Scale(math.Sqrt(w/total), scaled.RawRowView(i))
	}
	m.SymOuterK(1, scaled.T())
	return m
}

// residualScale is the factor of the residuals' coefficients in M. Tasks that people teach a model
// are better expressed by its features than random rewards: in dm_control with an R² of 0.8 to 0.9
// instead of 0.4 to 0.6.
const residualScale = 0.25

// scaledFirst returns m with its first k rows and columns times s.
func scaledFirst(m *mat.SymDense, k int, s float64) *mat.SymDense {
	n := m.SymmetricDim()
	for i := range k {
		for j := i; j < n; j++ {
			x := s * m.At(i, j)
			if j < k {
				x *= s
			}
			m.SetSym(i, j, x)
		}
	}
	return m
}

// examplesKept is the number of examples of a prior.
const examplesKept = 256

// examples returns the coefficients of n of the tasks, [n, K+d]. A task is among them with a
// probability proportional to its weight, or more than once.
func (t tasks) examples(n int, rng *rand.Rand) (examples []float32) {
	sum := make([]float64, len(t.weights))
	floats.CumSum(sum, t.weights)
	step := sum[len(sum)-1] / float64(n)
	at := step * rng.Float64()
	for i, s := range sum {
		for ; at < s && len(examples) < n*t.w.RawMatrix().Cols; at += step {
			for _, x := range t.w.RawRowView(i) {
				examples = append(examples, float32(x))
			}
		}
	}
	return examples
}

// shrunk returns (1-s)m + sD. D is diagonal and has in each entry the mean of m's diagonal, over
// the first k entries for these and over the others for those.
func shrunk(m *mat.SymDense, k int, s float64) *mat.SymDense {
	n := m.SymmetricDim()
	mixed := mat.NewSymDense(n, nil)
	mixed.ScaleSym(1-s, m)
	for _, block := range [][2]int{{0, k}, {k, n}} {
		from, to := block[0], block[1]
		if from == to {
			continue
		}
		mean := mat.Trace(m.SliceSym(from, to)) / float64(to-from)
		for i := from; i < to; i++ {
			mixed.SetSym(i, i, mixed.At(i, i)+s*mean)
		}
	}
	return mixed
}

// squares returns u²/d = zᵀm⁻¹z/d of each task, [n], all infinite where m is singular.
func (t tasks) squares(m *mat.SymDense) []float64 {
	n, d := t.w.Dims()
	u2 := make([]float64, n)
	var chol mat.Cholesky
	var solved mat.Dense
	if !chol.Factorize(m) || chol.SolveTo(&solved, t.w.T()) != nil {
		for i := range u2 {
			u2[i] = math.Inf(1)
		}
		return u2
	}
	for i := range u2 {
		u2[i] = mat.Dot(t.w.RowView(i), solved.ColView(i)) / float64(d)
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
	return kind{shapes: shapes, near: Near, channels: channels}
}

// fold leaves out some rewards.
type fold struct{ kept, left kind }

// folds leave out each family and each of up to five random parts of the channels.
func folds(channels []int, rng *rand.Rand) []fold {
	all := everything(channels)
	families := func(near float64, shapes ...tflite.Shape) kind { return kind{shapes, near, channels} }
	list := []fold{
		{families(Near, tflite.Bump, tflite.Ramp), families(0, tflite.Sigmoid)},
		{families(Near, tflite.Sigmoid, tflite.Ramp), families(0, tflite.Bump)},
		{families(Near, tflite.Sigmoid, tflite.Bump), families(0, tflite.Ramp)},
		{families(0, all.shapes...), families(1, all.shapes...)},
	}
	parts := min(5, len(channels))
	if parts < 2 {
		return list
	}
	order := rng.Perm(len(channels))
	for part := range parts {
		var kept, left []int
		for i, at := range order {
			if i%parts == part {
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

// newCandidate sorts u2 and weights.
func newCandidate(share float64, u2, weights []float64) candidate {
	stat.SortWeighted(u2, weights)
	quantile := func(q float64) float64 { return stat.Quantile(q, stat.Empirical, u2, weights) }
	c := candidate{isotropic: share, p50: quantile(0.5), p90: quantile(0.9)}
	c.width = max(c.p50, c.p90/2)
	return c
}

// maxRatio is the largest ratio of the percentiles that needs no greater share.
const maxRatio = 4

// leaveOut returns a candidate of each isotropic share.
func (s *states) leaveOut(rewards int, rng *rand.Rand) ([]candidate, error) {
	shares := []float64{0, 0.05, 0.1, 0.3}
	u2 := make([][]float64, len(shares))
	var weights []float64
	for _, f := range folds(s.varying, rng) {
		kept, err := s.tasks(f.kept, max(rewards/4, perLatent*len(s.mean)), rng)
		if err != nil {
			return nil, err
		}
		left, err := s.tasks(f.left, rewards/20, rng)
		if err != nil {
			return nil, err
		}
		m := kept.moment()
		weights = append(weights, left.weights...)
		for i, share := range shares {
			u2[i] = append(u2[i], left.squares(shrunk(m, 0, share))...)
		}
	}
	var list []candidate
	for i, share := range shares {
		list = append(list, newCandidate(share, u2[i], slices.Clone(weights)))
	}
	return list, nil
}

// choose applies the rule of the package's documentation.
func choose(list []candidate) (candidate, error) {
	best, least := candidate{}, math.Inf(1)
	for _, c := range list {
		ratio := c.p90 / c.p50 // NaN where a moment is singular
		if ratio <= maxRatio {
			return c, nil
		}
		if ratio < least {
			best, least = c, ratio
		}
	}
	if math.IsInf(least, 1) {
		return best, errors.New("the features express no random reward; record more varied observations")
	}
	return best, nil
}
