package controller

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"optibfm/posterior"
)

const (
	// gaussianShare is the probability of a task that is like no example.
	gaussianShare = 0.2
	// amplitude and amplitudeDeviation describe the factor between a task's reward and that of its
	// hypothesis.
	amplitude, amplitudeDeviation = 0.8, 0.5
	// MaxFormerTasks is the largest number of Config.FormerTasks.
	MaxFormerTasks = 32
	// maxWeighed is the number of labels beyond which the Gaussian belief needs no hypotheses.
	maxWeighed = 300
)

// spreads are the shares of the prior's variance around a hypothesis: a task is more or less like
// an example. Each has the same probability.
var spreads = []float64{0.1, 0.3, 0.7}

// hypotheses sharpen a Gaussian belief while it has few labels. Tasks are not normally distributed:
// a reward often depends on few channels, and its range is known. The examples of a task prior are
// random rewards m_k in the coordinates u of the belief. Hypotheses replace the prior u ~ N(0, I/λ)
// by
//
//	u ~ N(a m_k, s I/λ),   a ~ N(0.8, 0.5²),   with probability 0.8
//	u ~ N(0, I/λ)                              with probability 0.2
//
// and leave that of the operator's zero as it is. Each k, and each s of spreads, has the same
// probability. Config.FormerTasks are further m_k, with half of the probability of the m_k
// together. The weight of a hypothesis is its probability given the labels, with a and u integrated
// out. All follows from the belief: given a, k and s, u has the precision V - D + P = UᵀU and the
// mean U⁻¹(U⁻ᵀb + a U⁻ᵀP m_k), where P is the prior precision around a hypothesis.
type hypotheses struct {
	label  float64 // weight in the belief of a label of confidence 1
	lambda float64 // precision of the prior where σ is 1
	first  int     // dimensions before those of the prior
	random int     // examples among the hypotheses of a layer; the others are former tasks
	former float64 // log of the probability of a former task, relative to that of an example

	known  bool      // the fields below are those of the labels with rhs and weight, and of scale
	rhs    []float64 // b, [n]
	weight float64   // of all labels: those of value 0 do not change b
	scale  float64   // Learner.Scale

	labels  *mat.SymDense // V - D, [n, n]
	sum     *mat.SymDense // scratch, [n, n]
	layers  []*layer
	weights []float64 // of all layers, one after the other
	average []float64 // mean of u, [n]
	chosen  *layer    // of the newest choose
	u       []float64 // scratch, [n]
}

// layer has the hypotheses with the same spread.
type layer struct {
	spread float64
	log    float64    // log of the probability of an example
	means  *mat.Dense // m_k, [n, H]

	chol   mat.Cholesky // of V - D + P
	root   mat.TriDense // U, [n, n]
	half   []float64    // U⁻ᵀ b, [n]
	halves mat.Dense    // U⁻ᵀ P m_k, [n, H]

	weights   []float64 // [H], a part of those of all layers
	a         []float64 // mean of a under each hypothesis, [H]
	deviation []float64 // standard deviation of a, [H]
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
	means := mat.NewDense(n, count, nil)
	h := &hypotheses{
		label: c.labelWeight(), lambda: c.Lambda, first: n - size,
		random: random, former: math.Log(float64(random) / float64(max(1, len(c.FormerTasks)))),
		rhs: make([]float64, n), labels: mat.NewSymDense(n, nil), sum: mat.NewSymDense(n, nil),
		u: make([]float64, n), average: make([]float64, n),
		weights: make([]float64, len(spreads)*count+1),
	}
	u := make([]float64, n)
	for k := range count {
		if k < random {
			basis.example(u[h.first:], k)
		} else {
			copy(u[h.first:], c.FormerTasks[k-random])
		}
		means.SetCol(k, u)
	}
	for i, spread := range spreads {
		probability := (1 - gaussianShare) / float64(len(spreads)*random)
		if len(c.FormerTasks) > 0 {
			probability /= 2
		}
		h.layers = append(h.layers, newLayer(spread, probability, means, h.weights[i*count:(i+1)*count]))
	}
	likeNone := mat.NewDense(n, 1, nil)
	h.layers = append(h.layers, newLayer(1, gaussianShare, likeNone, h.weights[len(h.weights)-1:]))
	return h
}

func newLayer(spread, probability float64, means *mat.Dense, weights []float64) *layer {
	return &layer{
		spread: spread, log: math.Log(probability), means: means, half: make([]float64, means.RawMatrix().Rows),
		weights: weights, a: make([]float64, len(weights)), deviation: make([]float64, len(weights)),
	}
}

// FormerTask returns u [K+d] of a saved task for FormerTasks: the mean under its belief b of this
// configuration and scale, [Learner.Scale]. Without a belief of the configuration's dimension it
// follows from the task's z [d] alone, with the median length of the examples. It is nil for a
// configuration without hypotheses, and unless the length of u is at most 1e9.
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

// possibleTask bounds the length of u of a former task, so that the weights of hypotheses are
// finite.
func possibleTask(u []float64) bool { return norm(u) <= maxReward }

// weigh computes the mixture for a belief of the given scale, unless it is known. It returns false
// where the Gaussian belief is to be used.
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
	b.LabelSum(h.labels.RawSymmetric().Data)
	h.known = h.compare()
	if h.known {
		h.findAverage()
	}
	return h.known
}

// compare computes the weights of all hypotheses.
func (h *hypotheses) compare() bool {
	prior := h.lambda * h.scale * h.scale
	for _, l := range h.layers {
		if !l.factor(h, prior/l.spread) {
			return false
		}
		l.compare(h, prior/l.spread)
	}
	sum := floats.LogSumExp(h.weights)
	for k, w := range h.weights {
		h.weights[k] = math.Exp(w - sum)
	}
	return finite(sum)
}

// factor adds the prior precision to that of the labels, factors the sum and solves for the
// hypotheses.
func (l *layer) factor(h *hypotheses, precision float64) bool {
	h.sum.CopySym(h.labels)
	for i := range h.rhs {
		p := precision
		if i < h.first {
			p *= l.spread
		}
		h.sum.SetSym(i, i, h.sum.At(i, i)+p)
	}
	if !l.chol.Factorize(h.sum) {
		return false
	}
	l.chol.UTo(&l.root)
	root := l.root.RawTriangular()
	copy(l.half, h.rhs)
	blas64.Trsv(blas.Trans, root, blas64.Vector{N: len(l.half), Data: l.half, Inc: 1})
	l.halves.Scale(precision, l.means)
	blas64.Trsm(blas.Left, blas.Trans, 1, root, l.halves.RawMatrix())
	return true
}

// compare computes the amplitudes and the logs of the weights, up to a constant.
func (l *layer) compare(h *hypotheses, precision float64) {
	const amplitudePrecision = 1 / (amplitudeDeviation * amplitudeDeviation)
	unit := 1 / (h.scale * h.scale) // the precision above is that of labels with σ = 1
	n := len(h.rhs)
	// The evidence of a hypothesis with the amplitude 0.
	log := l.log + (unit*floats.Dot(l.half, l.half)-l.chol.LogDet()-float64(n-h.first)*math.Log(l.spread))/2
	linear, square := l.a, l.deviation // of log p(labels | a, k)
	clear(linear)
	clear(square)
	for i, y := range l.half {
		means := l.means.RawRowView(i)
		for k, x := range l.halves.RawRowView(i) {
			linear[k] += y * x
			square[k] += precision*means[k]*means[k] - x*x
		}
	}
	for k := range linear {
		x := linear[k]*unit + amplitude*amplitudePrecision
		xx := square[k]*unit + amplitudePrecision
		l.a[k], l.deviation[k] = x/xx, 1/math.Sqrt(xx)
		l.weights[k] = log + (x*x/xx-math.Log(xx))/2
		if k >= h.random {
			l.weights[k] += h.former
		}
	}
}

// findAverage computes the mean of u.
func (h *hypotheses) findAverage() {
	clear(h.average)
	for _, l := range h.layers {
		total := floats.Sum(l.weights)
		for i, y := range l.half {
			h.u[i] = total * y
			for k, x := range l.halves.RawRowView(i) {
				h.u[i] += l.weights[k] * l.a[k] * x
			}
		}
		l.solve(h.u)
		floats.Add(h.average, h.u)
	}
}

// solve replaces the last entries of a vector v, any number of them, by those of U⁻¹v.
func (l *layer) solve(v []float64) {
	u := l.root.RawTriangular()
	first := u.N - len(v)
	for i := len(v) - 1; i >= 0; i-- {
		row := u.Data[(first+i)*u.Stride+first+i : (first+i)*u.Stride+u.N]
		v[i] = (v[i] - floats.Dot(row[1:], v[i+1:])) / row[0]
	}
}

// mean writes the mean of the last entries of u to dst, after weigh: those of the task to [d].
func (h *hypotheses) mean(dst []float64) { copy(dst, h.average[len(h.average)-len(dst):]) }

// choose writes the mean of u of the task under a random hypothesis and amplitude to dst [d], after
// weigh.
func (h *hypotheses) choose(dst []float64, random *rand.Rand) {
	left := random.Float64()
	var l *layer
	k := 0
	for i := range h.layers {
		for l, k = h.layers[i], 0; k < len(l.weights) && left >= l.weights[k]; k++ {
			left -= l.weights[k]
		}
		if k < len(l.weights) {
			break
		}
	}
	k = min(k, len(l.weights)-1) // the weights add up to less than 1
	h.chosen = l
	a := l.a[k] + l.deviation[k]*random.NormFloat64()
	first := len(h.rhs) - len(dst)
	for i := range dst {
		dst[i] = l.half[first+i] + a*l.halves.At(first+i, k)
	}
	l.solve(dst)
}

// around adds a draw from the distribution of u around the mean of the newest choose, times scale,
// to dst [d].
func (h *hypotheses) around(dst []float64, scale float64, random *rand.Rand) {
	noise := h.u[:len(dst)]
	for i := range noise {
		noise[i] = scale * random.NormFloat64()
	}
	h.chosen.solve(noise) // U⁻¹ noise has the covariance (UᵀU)⁻¹
	floats.Add(dst, noise)
}
