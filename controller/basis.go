package controller

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
	"gonum.org/v1/gonum/floats"

	"optibfm/hal"
	"optibfm/posterior"
	"optibfm/tflite"
)

// Basis is the coordinate system of the belief. A task prior expects the rewards
//
//	r(s) = gᵀe(s) + zᵀ(φ(s) - μ),   (g, z) ~ N(0, LLᵀ)
//
// with residuals e [K], see [tflite.Residuals]. The belief is over u with (g, z) = Lu, so that its
// prior is isotropic, and a label at s has the features Lᵀ(e(s), φ(s) - μ). A constant reward then
// belongs to the offset of the operator's scale. What φ cannot express of a reward belongs to g.
// The task is z alone.
//
// L is upper triangular. Therefore z depends on the last d entries of u alone, and L R⁻¹ of these,
// the factor of z's covariance that the models' search takes, is upper triangular too.
type Basis struct {
	mean      []float64 // μ, [d]
	residuals tflite.Residuals
	root      []float64 // L, packed upper triangular by rows
	examples  []float32 // (g, z) of random rewards, [H, K+d]
}

// NewBasis returns the basis of a valid task prior. Its bits are the same on every CPU.
func NewBasis(p *tflite.Prior) (*Basis, error) {
	n := len(p.Residuals.Terms) + len(p.Mean)
	if len(p.Moment) != n*n || n == 0 || len(p.Examples)%n != 0 {
		return nil, fmt.Errorf("controller: task prior: %d moments and %d numbers of examples for %d features",
			len(p.Moment), len(p.Examples), n)
	}
	if err := p.Residuals.Validate(hal.MaxChannels, len(p.Mean)); err != nil {
		return nil, fmt.Errorf("controller: task prior: %w", err)
	}
	for _, v := range p.Mean {
		if !finite(v) {
			return nil, errors.New("controller: task prior: the mean feature is not finite")
		}
	}
	b := &Basis{mean: p.Mean, residuals: p.Residuals, examples: p.Examples, root: make([]float64, n*(n+1)/2)}
	// From the last column to the first: moment_ij = Σ_{k ≥ max(i,j)} L_ik L_jk.
	for j := n - 1; j >= 0; j-- {
		for i := j; i >= 0; i-- {
			sum := p.Moment[i*n+j]
			for k := j + 1; k < n; k++ {
				sum -= float64(b.at(i, k) * b.at(j, k))
			}
			if i < j {
				b.root[rowStart(n, i)+j-i] = sum / b.at(j, j)
				continue
			}
			if !(sum > 0) || math.IsInf(sum, 0) {
				return nil, fmt.Errorf("controller: task prior: the moment is not positive definite (direction %d)", j)
			}
			b.root[rowStart(n, j)] = math.Sqrt(sum)
		}
	}
	return b, nil
}

// rowStart returns the index of row k in a packed upper triangular [d, d] matrix.
func rowStart(d, k int) int { return k*d - k*(k-1)/2 }

func (b *Basis) at(i, j int) float64 { return b.root[rowStart(b.size(), i)+j-i] }

// features writes the features of an observation [O] with φ [d] to dst [size]. x [size] is scratch.
// Without an observation the residuals are 0.
func (b *Basis) features(dst, x, phi []float64, obs []float32) {
	b.centre(x, phi, obs)
	clear(dst)
	n := len(dst)
	for i, off := 0, 0; i < n; i++ {
		row := b.root[off : off+n-i]
		out := dst[i:]
		out = out[:len(row)]
		for j, l := range row {
			out[j] += float64(l * x[i])
		}
		off += n - i
	}
}

// centre writes (e, φ - μ) to x [size].
func (b *Basis) centre(x, phi []float64, obs []float32) {
	k, d := b.nuisance(), len(b.mean)
	centred := x[k:]
	for i, mean := range b.mean {
		centred[i] = phi[i] - mean
	}
	clear(x[:k])
	if obs == nil {
		return
	}
	for i, term := range b.residuals.Terms {
		e := term.At(obs) - b.residuals.Mean[i]
		fit := b.residuals.Fit[i*d : (i+1)*d]
		for j, v := range centred {
			e -= float64(fit[j] * v)
		}
		x[i] = e
	}
}

// task replaces the last d entries of u by z, in place.
func (b *Basis) task(u []float64) {
	for i, root := 0, b.taskRoot(); i < len(u); i++ {
		row := root[:len(u)-i]
		sum := 0.0
		for j, l := range row {
			sum += l * u[i+j]
		}
		u[i] = sum
		root = root[len(row):]
	}
}

// whiten replaces (g, z) [size] by L⁻¹(g, z), in place.
func (b *Basis) whiten(w []float64) {
	n := len(w)
	for i, off := n-1, len(b.root); i >= 0; i-- {
		off -= n - i
		row := b.root[off : off+n-i]
		for j := 1; j < len(row); j++ {
			w[i] -= row[j] * w[i+j]
		}
		w[i] /= row[0]
	}
}

// example writes u of an example to dst [size].
func (b *Basis) example(dst []float64, k int) {
	for i := range dst {
		dst[i] = float64(b.examples[k*len(dst)+i])
	}
	b.whiten(dst)
}

// along writes u of (0, z) to dst [size], with the median length of the examples. z [d] is not 0.
func (b *Basis) along(dst, z []float64) {
	lengths := make([]float64, len(b.examples)/len(dst))
	for k := range lengths {
		b.example(dst, k)
		lengths[k] = norm(dst)
	}
	slices.Sort(lengths)
	clear(dst)
	direction(dst[b.nuisance():], z)
	b.whiten(dst)
	direction(dst, dst)
	floats.Scale(lengths[len(lengths)/2], dst)
}

// multiply replaces the upper triangular matrix m [d, d], row-major, by the product of the last
// rows of L with it.
func (b *Basis) multiply(m []float64) {
	d := b.dim()
	root := b.taskRoot()
	for i := range d {
		row := root[:d-i]
		out := m[i*d : (i+1)*d]
		for j := i; j < d; j++ {
			out[j] *= row[0]
		}
		for k := i + 1; k < d; k++ {
			for j, v := range m[k*d+k : (k+1)*d] {
				out[k+j] += row[k-i] * v
			}
		}
		root = root[len(row):]
	}
}

// taskRoot returns the last d rows of L.
func (b *Basis) taskRoot() []float64 { return b.root[rowStart(b.size(), b.nuisance()):] }

// Fits returns an error unless the basis belongs to a model with obs channels and d features.
func (b *Basis) Fits(obs, d int) error {
	if len(b.mean) != d {
		return fmt.Errorf("controller: task prior: %d features for a model with %d", len(b.mean), d)
	}
	if err := b.residuals.Validate(obs, d); err != nil {
		return fmt.Errorf("controller: task prior: %w", err)
	}
	return nil
}

// dim returns d.
func (b *Basis) dim() int { return len(b.mean) }

// nuisance returns K.
func (b *Basis) nuisance() int { return len(b.residuals.Terms) }

// size returns K + d.
func (b *Basis) size() int { return b.nuisance() + b.dim() }

// BasisHash identifies the coordinates of the belief: the hash of the basis, "" for those of z.
func (c Config) BasisHash() string {
	basis := c.basis()
	if basis == nil {
		return ""
	}
	r := basis.residuals
	var text []byte
	for _, numbers := range [][]float64{basis.mean, basis.root, r.Numbers(), r.Mean, r.Fit} {
		text = append(text, appendNumbers(numbers)...)
	}
	return fmt.Sprintf("%016x", xxhash.Sum64(text))
}

// Mean writes the mean of z under the Gaussian belief b of this configuration to dst [d].
func (c Config) Mean(dst []float64, b *posterior.Belief) {
	b.Mean(dst)
	if basis := c.basis(); basis != nil {
		basis.task(dst)
	}
}

// Estimate writes ẑ, the estimate of z under a belief b of this configuration and scale,
// [Learner.Scale], to dst [d]: with Hypotheses the mean of z under them, else Mean. It allocates.
func (c Config) Estimate(dst []float64, b *posterior.Belief, scale float64) {
	c.Mean(dst, b)
	if h := newHypotheses(c, len(dst)); h.weigh(b, scale) {
		h.mean(dst)
		c.basis().task(dst)
	}
}

// Spread writes the upper triangular S [d, d], row-major, with the covariance SSᵀ of z under a
// belief b of this configuration and scale, [Learner.Scale]. O(d³).
func (c Config) Spread(dst []float64, b *posterior.Belief, scale float64) {
	b.InvR(dst)
	if basis := c.basis(); basis != nil {
		basis.multiply(dst)
	}
	if scale == 1 {
		return
	}
	for i := range dst {
		dst[i] *= scale
	}
}

// Expected returns the label that z [d] and an operator's zero predict at φ [d]: zero + (φ - μ)ᵀz,
// with (φ - μ)ᵀz in the unit of labels. Without a task prior, μ is 0.
func (c Config) Expected(phi, z []float64, zero float64) float64 {
	sum, unit := zero, c.labelScale().unit
	basis := c.basis()
	for i, x := range phi {
		if basis != nil {
			x -= basis.mean[i]
		}
		sum += unit * x * z[i]
	}
	return sum
}

// Zero returns the mean of the operator's zero under a belief b of this configuration, in the unit
// of labels.
func (c Config) Zero(b *posterior.Belief) float64 {
	return c.labelScale().label(float64(c.Offset * b.FirstNuisance()))
}

// basisJSON is a Basis in a log. A number is a float64, little-endian.
type basisJSON struct {
	Mean          []byte        `json:"mean"`
	Root          []byte        `json:"root"`
	Residuals     []tflite.Term `json:"residuals,omitempty"`
	ResidualMeans []byte        `json:"residual_means,omitempty"`
	ResidualFit   []byte        `json:"residual_fit,omitempty"`
	Examples      []byte        `json:"examples,omitempty"` // float32
}

// MarshalJSON encodes the basis with all its bits.
func (b *Basis) MarshalJSON() ([]byte, error) {
	r := b.residuals
	return json.Marshal(basisJSON{
		appendNumbers(b.mean), appendNumbers(b.root), r.Terms, appendNumbers(r.Mean), appendNumbers(r.Fit),
		appendNumbers(b.examples),
	})
}

// UnmarshalJSON decodes a basis. A damaged one is an error.
func (b *Basis) UnmarshalJSON(data []byte) error {
	var text basisJSON
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	read := Basis{
		mean: readNumbers[float64](text.Mean), root: readNumbers[float64](text.Root), residuals: tflite.Residuals{
			Terms: text.Residuals, Mean: readNumbers[float64](text.ResidualMeans),
			Fit: readNumbers[float64](text.ResidualFit),
		},
	}
	read.examples = readNumbers[float32](text.Examples)
	if n := read.size(); len(read.mean) == 0 || len(read.root) != rowStart(n, n) || len(read.examples)%n != 0 {
		return fmt.Errorf("controller: task prior: %d numbers for %d features", len(read.root), n)
	}
	for _, x := range append(read.mean, read.root...) {
		if !finite(x) {
			return errors.New("controller: task prior: not finite")
		}
	}
	for _, x := range read.examples {
		if !finite(float64(x)) {
			return errors.New("controller: task prior: an example is not finite")
		}
	}
	if err := read.residuals.Validate(hal.MaxChannels, len(read.mean)); err != nil {
		return fmt.Errorf("controller: task prior: %w", err)
	}
	*b = read
	return nil
}

func appendNumbers[T float32 | float64](values []T) []byte {
	dst, _ := binary.Append(nil, binary.LittleEndian, values) // fails only for other types
	return dst
}

func readNumbers[T float32 | float64](src []byte) []T {
	var values []T
	if n := len(src) / binary.Size(T(0)); n > 0 {
		values = make([]T, n)
		_, _ = binary.Decode(src, binary.LittleEndian, values) // fails only if src is too short
	}
	return values
}
