package tflite

import (
	"fmt"
	"math"

	"optibfm/tflite/internal/kernel"
)

// boundMatrix turns ψ into bounds ψᵀẑ + β‖R⁻ᵀψ‖ by a product with one matrix.
type boundMatrix struct {
	dim    int            // d
	packed *kernel.Matrix // [d+1, d], R⁻ᵀ and below it ẑᵀ
	rows   []float32      // the same, not packed
	zero   []float32      // [d+1]
	beta   float32
}

func newBoundMatrix(d int) *boundMatrix {
	m := &boundMatrix{dim: d, rows: make([]float32, (d+1)*d), zero: kernel.Aligned(d + 1)}
	m.packed = kernel.Pack(m.rows, d+1, d, d)
	return m
}

// set packs R⁻ᵀ and ẑᵀ. It ignores what lies below R⁻¹'s diagonal.
func (m *boundMatrix) set(b Belief) {
	d := m.dim
	for j := range d {
		for i := range j + 1 {
			m.rows[j*d+i] = b.InvR[i*d+j]
		}
	}
	copy(m.rows[d*d:], b.Mean)
	m.packed.Set(m.rows, d)
	m.beta = b.Beta
}

// apply writes the bounds of the first len(dst) rows of psi, [n, d]. whitened, [n, d+1], and s are
// its scratch memory.
func (m *boundMatrix) apply(dst []float32, psi, whitened kernel.Rows, s *scratch) error {
	d := m.dim
	s.multiply(whitened, m.packed, psi, kernel.Repeated(m.zero), len(dst), false, false)
	for i := range dst {
		row := whitened.Row(i, d+1)
		dst[i] = row[d] + m.beta*float32(norm(row[:d]))
		if !isFinite(dst[i]) || !allFinite(psi.Row(i, d)) {
			return errPsi
		}
	}
	return nil
}

// Scorer chooses among candidates by their ψ, for a backend that evaluates only the
// networks. It computes the scores of Network.Search, with the same kernels. One
// goroutine uses it at a time.
type Scorer struct {
	matrix   *boundMatrix
	whitened kernel.Rows // [E·n, d+1]
	bounds   []float32   // [E·n]
	scratch  scratch
}

// NewScorer makes a scorer of ψ with d elements, at least 1.
func NewScorer(d int) *Scorer { return &Scorer{matrix: newBoundMatrix(d)} }

// Best returns the candidate with the highest score, the least bound
// ψ_mᵀẑ + β‖R⁻ᵀψ_m‖ of the members (the lowest index if scores tie), and that
// score. psi is [E, n, d] row-major with n at least 1. Best allocates only if psi is
// larger than before.
func (s *Scorer) Best(psi []float32, members int, belief Belief) (best int, score float32, err error) {
	d := s.matrix.dim
	if members < 1 || len(psi) == 0 || len(psi)%(members*d) != 0 {
		return 0, 0, fmt.Errorf("tflite: ψ of the candidates has %d elements, want a positive multiple of %d",
			len(psi), members*d)
	}
	if err := belief.Validate(d); err != nil {
		return 0, 0, err
	}
	rows := len(psi) / d
	if rows > len(s.bounds) {
		s.whitened, s.bounds = kernel.NewRows(rows, d+1), make([]float32, rows)
	}
	s.matrix.set(belief)
	if err := s.matrix.apply(s.bounds[:rows], kernel.Rows{Data: psi, Stride: d}, s.whitened, &s.scratch); err != nil {
		return 0, 0, err
	}
	n := rows / members
	score = float32(math.Inf(-1))
	for i := range n {
		least := s.bounds[i]
		for m := 1; m < members; m++ {
			least = min(least, s.bounds[m*n+i])
		}
		if least > score {
			best, score = i, least
		}
	}
	return best, score, nil
}
