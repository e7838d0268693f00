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

// Features compute φ. A tflite.Model is one.
type Features interface {
	Dims() tflite.Dims
	Phi(dst []float64, obs []float32) error
}

const (
	maxStates = 20_000 // that are used
	perLatent = 10     // states that each feature needs at least

	// ridge is added to the diagonal of the features' covariance, in units of its mean.
	ridge = 1e-6
)

// states are n recorded states.
type states struct {
	columns   [][]float64 // values of each channel, [O][n]
	sorted    [][]float64 // the same in order
	deviation []float64   // of each channel, [O]
	varying   []int       // channels that are not constant
	groups    []string    // see Options, [O] or none
	mean      []float64   // μ, [d]
	designs   []design    // residuals, if any, and φ - μ
}

// design has features of the states on which rewards are regressed. They are centred, and not
// correlated with those of another design.
type design struct {
	values *mat.Dense   // [n, features]
	gram   mat.Cholesky // of their covariance, with a ridge
}

// newDesign returns the design of centred features.
func newDesign(values *mat.Dense) (design, error) {
	n, d := values.Dims()
	gram := mat.NewSymDense(d, nil)
	gram.SymOuterK(1/float64(n), values.T())
	level := ridge * mat.Trace(gram) / float64(d)
	for j := range d {
		gram.SetSym(j, j, gram.At(j, j)+level)
	}
	r := design{values: values}
	if !r.gram.Factorize(gram) {
		return r, errors.New("the features of the observations do not vary; record a moving robot")
	}
	return r, nil
}

// group returns the name of a channel's group, "" for a channel that forms its own.
func (s *states) group(channel int) string {
	if len(s.groups) == 0 {
		return ""
	}
	return s.groups[channel]
}

// phi returns the design of φ - μ.
func (s *states) phi() design { return s.designs[len(s.designs)-1] }

// newStates draws states from observations [n, O] and computes their features. For groups see
// Options.
func newStates(f Features, obs []float32, groups []string, rng *rand.Rand) (*states, error) {
	d := f.Dims()
	if len(obs)%d.Obs != 0 {
		return nil, fmt.Errorf("%d numbers, want a multiple of %d, the size of an observation", len(obs), d.Obs)
	}
	total, least := len(obs)/d.Obs, perLatent*d.Latent
	if least > maxStates {
		return nil, fmt.Errorf("%d features are too many (at most %d)", d.Latent, maxStates/perLatent)
	}
	if total < least {
		return nil, fmt.Errorf("%d observations are too few for %d features; record at least %d, better %d",
			total, d.Latent, least, maxStates)
	}
	if len(groups) != 0 && len(groups) != d.Obs {
		return nil, fmt.Errorf("%d groups for %d channels", len(groups), d.Obs)
	}
	rows := rng.Perm(total)[:min(total, maxStates)]
	slices.Sort(rows)
	s, phi := &states{columns: make([][]float64, d.Obs), groups: groups}, mat.NewDense(len(rows), d.Latent, nil)
	for i, row := range rows {
		x := obs[row*d.Obs:][:d.Obs]
		if err := f.Phi(phi.RawRowView(i), x); err != nil {
			return nil, fmt.Errorf("observation %d: %w", row, err)
		}
		for c, v := range x {
			s.columns[c] = append(s.columns[c], float64(v))
		}
	}
	if err := s.describeChannels(); err != nil {
		return nil, err
	}
	return s, s.centre(phi)
}

// describeChannels computes quantiles and deviations.
func (s *states) describeChannels() error {
	for c, values := range s.columns {
		if i := slices.IndexFunc(values, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }); i >= 0 {
			return fmt.Errorf("channel %d of an observation is not finite (%g)", c, values[i])
		}
		order := slices.Sorted(slices.Values(values))
		s.sorted = append(s.sorted, order)
		s.deviation = append(s.deviation, stat.StdDev(values, nil))
		if s.spread(c) > 1e-6 {
			s.varying = append(s.varying, c)
		}
	}
	if len(s.varying) == 0 {
		return errors.New("no channel of the observations varies; record a moving robot")
	}
	return nil
}

// quantile returns the recorded value of a channel at the quantile q, 0 to 1.
func (s *states) quantile(c int, q float64) float64 {
	last := len(s.sorted[c]) - 1
	return s.sorted[c][int(q*float64(last))] // stat.Quantile would check the order each time
}

// spread returns the range of a channel without its outer tenth, or the whole range where that is
// 0.
func (s *states) spread(c int) float64 {
	if inner := s.quantile(c, 0.95) - s.quantile(c, 0.05); inner > 0 {
		return inner
	}
	return s.quantile(c, 1) - s.quantile(c, 0)
}

// centre subtracts the mean feature from the features [n, d] of the states and adds their design.
func (s *states) centre(phi *mat.Dense) error {
	n, d := phi.Dims()
	s.mean = make([]float64, d)
	for j := range d {
		s.mean[j] = stat.Mean(mat.Col(nil, j, phi), nil)
	}
	for i := range n {
		floats.Sub(phi.RawRowView(i), s.mean)
	}
	added, err := newDesign(phi)
	s.designs = []design{added}
	return err
}

// tasks are solutions of rewards.
type tasks struct {
	w       *mat.Dense // coefficients of all designs, [n, features]; the last d are z
	weights []float64  // share of each reward's variance that φ explains, [n], 0 to 1
}

// tasks solves count random rewards.
func (s *states) tasks(k kind, count int, rng *rand.Rand) (tasks, error) {
	const block = 64 // rewards that are in memory together
	features := 0
	for _, d := range s.designs {
		_, width := d.values.Dims()
		features += width
	}
	n := len(s.columns[0])
	t := tasks{w: mat.NewDense(count, features, nil), weights: make([]float64, count)}
	rewards := mat.NewDense(block, n, nil)
	for from := 0; from < count; from += block {
		some := min(block, count-from)
		for i := range some {
			k.draw(rewards.RawRowView(i), s, rng)
		}
		if err := s.solve(t, from, rewards.Slice(0, some, 0, n).(*mat.Dense)); err != nil {
			return tasks{}, err
		}
	}
	return t, nil
}

// solve writes the solutions of rewards [m, n] to t, from a row on.
func (s *states) solve(t tasks, from int, rewards *mat.Dense) error {
	some, n := rewards.Dims()
	column := 0
	var products, w mat.Dense // E[r·features] and coefficients
	for _, d := range s.designs {
		products.Reset()
		products.Mul(rewards, d.values) // not transposed: four times faster in gonum
		products.Scale(1/float64(n), &products)
		w.Reset()
		// The only error is about the condition, which the ridge bounds.
		if err := d.gram.SolveTo(&w, products.T()); err != nil {
			return fmt.Errorf("regression on the features: %w", err)
		}
		width, _ := w.Dims()
		t.w.Slice(from, from+some, column, column+width).(*mat.Dense).Copy(w.T())
		column += width
	}
	// The last design is that of φ.
	for i := range some {
		if variance := stat.PopVariance(rewards.RawRowView(i), nil); variance > 0 {
			explained := mat.Dot(products.RowView(i), w.ColView(i)) / variance
			t.weights[from+i] = min(max(explained, 0), 1)
		}
	}
	return nil
}
