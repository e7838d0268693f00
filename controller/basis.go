package controller

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"optibfm/posterior"
)

// Basis is the coordinate system of the belief. With z ~ N(0, LLᵀ) before the first label, the belief is
// over u with z = Lu, so that its prior is isotropic. A label at φ has the features Lᵀ(φ - μ): a constant
// reward then belongs to the offset of the operator's scale, and not to the task.
//
// L is upper triangular, and so is L R⁻¹, the factor of z's covariance that the models' search takes.
type Basis struct {
	mean []float64 // μ, [d]
	root []float64 // L, packed upper triangular by rows, d(d+1)/2
}

// NewBasis returns the basis of a task prior with mean feature μ [d] and second moment LLᵀ [d, d] of z,
// row-major and positive definite. Its bits are the same on every CPU.
func NewBasis(mean, moment []float64) (*Basis, error) {
	d := len(mean)
	if len(moment) != d*d || d == 0 {
		return nil, fmt.Errorf("controller: task prior: %d moments for %d features; want the square", len(moment), d)
	}
	for _, v := range mean {
		if !finite(v) {
			return nil, errors.New("controller: task prior: the mean feature is not finite")
		}
	}
	b := &Basis{mean: mean, root: make([]float64, d*(d+1)/2)}
	// From the last column to the first: moment_ij = Σ_{k ≥ max(i,j)} L_ik L_jk.
	for j := d - 1; j >= 0; j-- {
		for i := j; i >= 0; i-- {
			sum := moment[i*d+j]
			for k := j + 1; k < d; k++ {
				sum -= float64(b.at(i, k) * b.at(j, k))
			}
			if i < j {
				b.root[rowStart(d, i)+j-i] = sum / b.at(j, j)
				continue
			}
			if !(sum > 0) || math.IsInf(sum, 0) {
				return nil, fmt.Errorf("controller: task prior: the moment is not positive definite (direction %d)", j)
			}
			b.root[rowStart(d, j)] = math.Sqrt(sum)
		}
	}
	return b, nil
}

// rowStart returns the index of row k in a packed upper triangular [d, d] matrix.
func rowStart(d, k int) int { return k*d - k*(k-1)/2 }

func (b *Basis) at(i, j int) float64 { return b.root[rowStart(len(b.mean), i)+j-i] }

// features writes Lᵀ(φ - μ) to dst [d].
func (b *Basis) features(dst, phi []float64) {
	d := len(b.mean)
	clear(dst)
	for i, off := 0, 0; i < d; i++ {
		row := b.root[off : off+d-i]
		x := phi[i] - b.mean[i]
		out := dst[i:]
		out = out[:len(row)]
		for j, l := range row {
			out[j] += float64(l * x)
		}
		off += d - i
	}
}

// task replaces u by z = Lu, in place.
func (b *Basis) task(u []float64) {
	d := len(b.mean)
	for i, off := 0, 0; i < d; i++ {
		row := b.root[off : off+d-i]
		sum := 0.0
		for j, l := range row {
			sum += l * u[i+j]
		}
		u[i] = sum
		off += d - i
	}
}

// multiply replaces the upper triangular matrix m [d, d], row-major, by Lm.
func (b *Basis) multiply(m []float64) {
	d := b.dim()
	for i, off := 0, 0; i < d; i++ {
		row := b.root[off : off+d-i]
		out := m[i*d : (i+1)*d]
		for j := i; j < d; j++ {
			out[j] *= row[0]
		}
		for k := i + 1; k < d; k++ {
			for j, v := range m[k*d+k : (k+1)*d] {
				out[k+j] += row[k-i] * v
			}
		}
		off += d - i
	}
}

// dim returns d.
func (b *Basis) dim() int { return len(b.mean) }

// BasisHash identifies the coordinates of the belief: the hash of the basis, "" for those of z.
func (c Config) BasisHash() string {
	basis := c.basis()
	if basis == nil {
		return ""
	}
	return fmt.Sprintf("%016x", xxhash.Sum64(append(appendFloats(basis.mean), appendFloats(basis.root)...)))
}

// Mean writes ẑ, the mean of z under a belief b of this configuration, to dst [d].
func (c Config) Mean(dst []float64, b *posterior.Belief) {
	b.Mean(dst)
	if basis := c.basis(); basis != nil {
		basis.task(dst)
	}
}

// Spread writes the upper triangular S [d, d], row-major, with the covariance SSᵀ of z under a belief b of
// this configuration and scale, [Learner.Scale]. O(d³).
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

// Expected returns the label that z [d] and an operator's zero predict at φ [d]: zero + (φ - μ)ᵀz. Without
// a task prior, μ is 0.
func (c Config) Expected(phi, z []float64, zero float64) float64 {
	sum := zero
	basis := c.basis()
	for i, x := range phi {
		if basis != nil {
			x -= basis.mean[i]
		}
		sum += x * z[i]
	}
	return sum
}

// Zero returns the mean of the operator's zero under a belief b of this configuration.
func (c Config) Zero(b *posterior.Belief) float64 { return float64(c.Offset * b.OffsetMean()) }

// basisJSON is a Basis in a log.
type basisJSON struct {
	Mean []byte `json:"mean"` // float64, little-endian
	Root []byte `json:"root"`
}

// MarshalJSON encodes the basis with all its bits.
func (b *Basis) MarshalJSON() ([]byte, error) {
	return json.Marshal(basisJSON{appendFloats(b.mean), appendFloats(b.root)})
}

// UnmarshalJSON decodes a basis. A damaged one is an error.
func (b *Basis) UnmarshalJSON(data []byte) error {
	var text basisJSON
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	mean, root := readFloats(text.Mean), readFloats(text.Root)
	d := len(mean)
	if d == 0 || len(root) != rowStart(d, d) {
		return fmt.Errorf("controller: task prior: %d numbers for %d features", len(root), d)
	}
	for _, x := range append(mean, root...) {
		if !finite(x) {
			return errors.New("controller: task prior: not finite")
		}
	}
	*b = Basis{mean: mean, root: root}
	return nil
}

func appendFloats(values []float64) (dst []byte) {
	for _, x := range values {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	return dst
}

func readFloats(src []byte) (values []float64) {
	for ; len(src) >= 8; src = src[8:] {
		values = append(values, math.Float64frombits(binary.LittleEndian.Uint64(src)))
	}
	return values
}
