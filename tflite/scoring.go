package tflite

import (
	"fmt"
	"math"

	"optibfm/tflite/internal/kernel"
)

// metric turns ψ into bounds ψᵀẑ + β‖R⁻ᵀψ‖, a product with one matrix.
type metric struct {
	dim    int            // d
	packed *kernel.Matrix // [d+1, d], R⁻ᵀ and below it ẑᵀ
	rows   []float32      // the same, not packed
	none   []float32      // [d+1], zeros
	beta   float32
}

func newMetric(d int) *metric {
	m := &metric{dim: d, rows: make([]float32, (d+1)*d), none: kernel.Aligned(d + 1)}
	m.packed = kernel.Pack(m.rows, d+1, d, d)
	return m
}

// take packs R⁻ᵀ and ẑᵀ; what lies below R⁻¹'s diagonal is not read.
func (m *metric) take(b Belief) {
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

// bounds writes the bounds of the first count rows of psi, [n, d]. It works in
// room, [n, d+1], and adds what it took to work.
func (m *metric) bounds(dst []float32, psi, room kernel.Rows, count int, work *Work) error {
	d := m.dim
	work.add(m.packed.Multiply(room, psi, kernel.Repeated(m.none), count, false, nil))
	for i := range count {
		row := room.Row(i, d+1)
		dst[i] = row[d] + m.beta*float32(norm(row[:d]))
		if !isFinite(dst[i]) || !allFinite(psi.Row(i, d)) {
			return errPsi
		}
	}
	return nil
}

// Scorer chooses among candidates by their ψ, for a backend that evaluates only
// the networks. It computes what Network.Search computes, with the same kernels.
// It is used by one goroutine at a time.
type Scorer struct {
	metric *metric
	room   kernel.Rows // [E·n, d+1]
	bounds []float32   // [E·n]
	work   Work
}

// NewScorer makes a scorer of ψ with d elements, at least 1.
func NewScorer(d int) *Scorer { return &Scorer{metric: newMetric(d)} }

// Best returns the candidate with the greatest score, the least bound
// ψ_mᵀẑ + β‖R⁻ᵀψ_m‖ of the members (the lowest index where scores tie), and that
// score. psi is [E, n, d] row-major with n at least 1. It allocates only where
// psi is larger than it has been.
func (s *Scorer) Best(psi []float32, members int, belief Belief) (best int, score float32, err error) {
	d := s.metric.dim
	if members < 1 || len(psi) == 0 || len(psi)%(members*d) != 0 {
		return 0, 0, fmt.Errorf("tflite: ψ of the candidates has %d elements, want a multiple of %d that is not 0", len(psi), members*d)
	}
	if err := checkBelief(belief, d); err != nil {
		return 0, 0, err
	}
	rows := len(psi) / d
	if rows > len(s.bounds) {
		s.room, s.bounds = kernel.NewRows(rows, d+1), make([]float32, rows)
	}
	s.metric.take(belief)
	if err := s.metric.bounds(s.bounds, kernel.Rows{Data: psi, Stride: d}, s.room, rows, &s.work); err != nil {
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
