package controller

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"optibfm/posterior"
)

const (
	// hypothesisSpread is the share of the prior's variance around a hypothesis.
	hypothesisSpread = 0.3
	// amplitude and amplitudeDeviation describe the factor between a task's reward and that of its hypothesis.
	amplitude, amplitudeDeviation = 0.8, 0.5
	// MaxFormerTasks is the largest number of Config.FormerTasks.
	MaxFormerTasks = 32
	// maxWeighed is the number of labels beyond which the Gaussian belief needs no hypotheses.
	maxWeighed = 300
)

// hypotheses sharpen a Gaussian belief while it has few labels. Tasks are not normally distributed: a reward
// often depends on few channels, and its range is known. The examples of a task prior are random rewards m_k in
// the coordinates u of the belief. Hypotheses replace the prior u ~ N(0, I/λ) by
//
//	u ~ N(a m_k, 0.3 I/λ),   a ~ N(0.8, 0.5²),   each k with the same probability
//
// and leave that of the operator's zero as it is. Config.FormerTasks are further m_k, with half of the probability
// together. The weight of a hypothesis is its probability given the labels, with a and u integrated out. All follows
// from the belief: given a and k, u has the precision V - D + P and the mean (V - D + P)⁻¹(b + a P m_k), where P is
// the prior precision around a hypothesis.
type hypotheses struct {
	label  float64    // weight in the belief of a label of confidence 1
	lambda float64    // precision of the prior where σ is 1
	means  *mat.Dense // m_k, [H, n]
	first  int        // dimensions before those of the prior
	random int        // hypotheses that are examples; the others are former tasks
	former float64    // log of the probability of a former task, relative to that of an example

	known  bool      // the fields below are those of the labels with rhs and weight, and of scale
	rhs    []float64 // b, [n]
	weight float64   // of all labels: those of value 0 do not change b
	scale  float64   // Learner.Scale

	precision *mat.SymDense // V - D + P, [n, n]
	chol      mat.Cholesky  // of it
	scaled    *mat.Dense    // P m_k, [H, n]
	shifts    mat.Dense     // (V - D + P)⁻¹ P m_k, [n, H]
	base      *mat.VecDense // (V - D + P)⁻¹ b, [n]
	weights   []float64     // [H]
	a         []float64     // mean of a under each hypothesis, [H]
	spread    []float64     // standard deviation of a, [H]

	root  mat.TriDense // upper triangular root of V - D + P, [n, n]
	u     []float64    // scratch, [n]
	noise *mat.VecDense
}

// newHypotheses returns nil for a configuration or a prior without them. d is that of the model.
func newHypotheses(c Config, d int) *hypotheses {
	basis := c.basis()
	if !c.Hypotheses || basis == nil || len(basis.examples) == 0 {
		return nil
	}
	size := basis.size()
	random := len(basis.examples) / size
	n, count := d+c.nuisance(), random+len(c.FormerTasks)
	h := &hypotheses{
		label: c.labelWeight(), lambda: c.Lambda, means: mat.NewDense(count, n, nil), first: n - size,
		random: random, former: math.Log(float64(random) / float64(max(1, len(c.FormerTasks)))),
		rhs: make([]float64, n), precision: mat.NewSymDense(n, nil), scaled: mat.NewDense(count, n, nil),
		base: mat.NewVecDense(n, nil), weights: make([]float64, count), a: make([]float64, count),
		spread: make([]float64, count), u: make([]float64, n), noise: mat.NewVecDense(n, nil),
	}
	for k := range random {
		basis.example(h.means.RawRowView(k)[h.first:], k)
	}
	for i, u := range c.FormerTasks {
		copy(h.means.RawRowView(random + i)[h.first:], u)
	}
	return h
}

// FormerTask returns u [K+d] of a saved task for FormerTasks: the mean under its belief b of this configuration and
// scale, [Learner.Scale]. Without a belief of the configuration's dimension it follows from the task's z [d] alone,
// with the median length of the examples. It is nil for a configuration without hypotheses, and unless the length of
// u is at most 1e9.
func (c Config) FormerTask(z []float64, b *posterior.Belief, scale float64) []float64 {
	c.FormerTasks = nil
	h := newHypotheses(c, len(z))
	if h == nil {
		return nil
	}
	u := make([]float64, c.Basis.size())
	switch {
	case b == nil || b.Dim() != len(h.rhs):
		c.Basis.along(u, z)
	case h.weigh(b, scale):
		h.mean(u)
	default:
		unit := make([]float64, b.Dim())
		for i := range u {
			unit[h.first+i] = 1
			u[i] = b.Predict(unit)
			unit[h.first+i] = 0
		}
	}
	if !possibleTask(u) {
		return nil
	}
	return u
}

// possibleTask bounds the length of u of a former task, so that the weights of hypotheses are finite.
func possibleTask(u []float64) bool { return norm(u) <= maxReward }

// weigh computes the mixture for a belief of the given scale, unless it is known. It returns false where the
// Gaussian belief is to be used.
func (h *hypotheses) weigh(b *posterior.Belief, scale float64) bool {
	if h == nil || !(b.Weight() > 0 && b.Weight() <= maxWeighed*h.label) {
		return false
	}
	b.RewardSum(h.u)
	if h.known && h.scale == scale && h.weight == b.Weight() && slices.Equal(h.u, h.rhs) {
		return true
	}
	copy(h.rhs, h.u)
	h.scale, h.weight = scale, b.Weight()
	b.LabelSum(h.precision.RawSymmetric().Data)
	h.known = h.factor(scale) && h.compare(scale)
	return h.known
}

// factor adds P to the precision, factors it and solves for the hypotheses.
func (h *hypotheses) factor(scale float64) bool {
	prior := h.lambda * scale * scale
	n := len(h.rhs)
	for i := range n {
		p := prior
		if i >= h.first {
			p /= hypothesisSpread
		}
		h.precision.SetSym(i, i, h.precision.At(i, i)+p)
	}
	if !h.chol.Factorize(h.precision) {
		return false
	}
	h.chol.UTo(&h.root)
	h.scaled.Scale(prior/hypothesisSpread, h.means)
	// An error is about the condition, which the prior bounds.
	return h.chol.SolveTo(&h.shifts, h.scaled.T()) == nil &&
		h.chol.SolveVecTo(h.base, mat.NewVecDense(n, h.rhs)) == nil
}

// compare computes the weights and the amplitudes.
func (h *hypotheses) compare(scale float64) bool {
	const precision = 1 / (amplitudeDeviation * amplitudeDeviation)
	unit := 1 / (scale * scale) // the precision above is that of labels with σ = 1
	count, n := h.means.Dims()
	for k := range count {
		linear, square := 0.0, 0.0 // of log p(labels | a, k)
		scaled, mean := h.scaled.RawRowView(k), h.means.RawRowView(k)
		for i := range n {
			shift := h.shifts.At(i, k)
			linear += shift * h.rhs[i]
			square += scaled[i] * (mean[i] - shift)
		}
		linear = linear*unit + amplitude*precision
		square = square*unit + precision
		h.a[k], h.spread[k] = linear/square, 1/math.Sqrt(square)
		h.weights[k] = (linear*linear/square - math.Log(square)) / 2
		if k >= h.random {
			h.weights[k] += h.former
		}
	}
	most := floats.LogSumExp(h.weights)
	for k, w := range h.weights {
		h.weights[k] = math.Exp(w - most)
	}
	return finite(most)
}

// mean writes the mean of the last entries of u to dst, after weigh: those of the task to [d].
func (h *hypotheses) mean(dst []float64) {
	n, first := len(h.rhs), len(h.rhs)-len(dst)
	for i := first; i < n; i++ {
		sum := h.base.AtVec(i)
		for k, w := range h.weights {
			sum += w * h.a[k] * h.shifts.At(i, k)
		}
		dst[i-first] = sum
	}
}

// choose writes the mean of u of the task under a random hypothesis and amplitude to dst [d], after weigh.
func (h *hypotheses) choose(dst []float64, random *rand.Rand) {
	k, left := 0, random.Float64()
	for ; k < len(h.weights)-1 && left >= h.weights[k]; k++ {
		left -= h.weights[k]
	}
	a := h.a[k] + h.spread[k]*random.NormFloat64()
	first := len(h.rhs) - len(dst)
	for i := range dst {
		dst[i] = h.base.AtVec(first+i) + a*h.shifts.At(first+i, k)
	}
}

// around adds a draw from the distribution of u around its mean, times scale, to dst [d].
func (h *hypotheses) around(dst []float64, scale float64, random *rand.Rand) {
	for i := range h.noise.Len() {
		h.noise.SetVec(i, scale*random.NormFloat64())
	}
	// With V - D + P = UᵀU, U⁻¹ noise has its inverse as covariance.
	_ = h.noise.SolveVec(&h.root, h.noise) // the error is about the condition, see factor
	floats.Add(dst, h.noise.RawVector().Data[h.noise.Len()-len(dst):])
}
