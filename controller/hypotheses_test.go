package controller

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"optibfm/internal/fatal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// mixture is the distribution of u of the task under the labels of a Learner, computed from the
// labels and the model of hypotheses without its belief.
type mixture struct {
	weights []float64
	means   []*mat.VecDense // of all of u
	covs    []*mat.SymDense
}

// newMixture conditions each hypothesis on labels with features x [n, D], rewards y and noise σ, by
// the formula for jointly normal vectors.
func newMixture(h *hypotheses, x *mat.Dense, y []float64, lambda, sigma float64) (m mixture) {
	n, dims := x.Dims()
	total := 0.0
	add := func(example *mat.VecDense, probability, spread float64) {
		prior := mat.NewVecDense(dims, nil)
		prior.ScaleVec(amplitude, example)
		cov := mat.NewSymDense(dims, nil)
		cov.SymRankOne(cov, amplitudeDeviation*amplitudeDeviation, example)
		for i := range dims {
			variance := 1 / lambda
			if i >= h.first {
				variance *= spread
			}
			cov.SetSym(i, i, cov.At(i, i)+variance)
		}
		var cross, labels, gain, left mat.Dense
		cross.Mul(cov, x.T())
		labels.Mul(x, &cross)
		sum := mat.NewSymDense(n, nil)
		for i := range n {
			for j := range i + 1 {
				sum.SetSym(i, j, (labels.At(i, j)+labels.At(j, i))/2)
			}
			sum.SetSym(i, i, sum.At(i, i)+sigma*sigma)
		}
		var expected mat.VecDense
		expected.MulVec(x, prior)
		var residual, solved, mean mat.VecDense
		residual.SubVec(mat.NewVecDense(n, y), &expected)
		var chol mat.Cholesky
		if !chol.Factorize(sum) || chol.SolveVecTo(&solved, &residual) != nil {
			panic("not positive definite")
		}
		m.weights = append(m.weights, probability*math.Exp(-(mat.Dot(&residual, &solved)+chol.LogDet())/2))
		total += m.weights[len(m.weights)-1]
		var inverse mat.Dense
		if err := inverse.Inverse(sum); err != nil {
			panic(err)
		}
		gain.Mul(&cross, &inverse)
		mean.MulVec(&gain, &residual)
		mean.AddVec(&mean, prior)
		m.means = append(m.means, &mean)
		left.Mul(&gain, cross.T())
		posteriorCov := mat.NewSymDense(dims, nil)
		for i := range dims {
			for j := range i + 1 {
				posteriorCov.SetSym(i, j, cov.At(i, j)-left.At(i, j))
			}
		}
		m.covs = append(m.covs, posteriorCov)
	}
	examples := h.layers[0].means
	_, count := examples.Dims()
	former := count - h.random
	for _, spread := range []float64{0.1, 0.3, 0.7} {
		for k := range count {
			probability := 0.8 / 3 / float64(h.random)
			if former > 0 {
				probability /= 2
			}
			if k >= h.random {
				probability = 0.8 / 3 / (2 * float64(former))
			}
			add(mat.NewVecDense(dims, mat.Col(nil, k, examples)), probability, spread)
		}
	}
	add(mat.NewVecDense(dims, nil), 0.2, 1)
	for k := range m.weights {
		m.weights[k] /= total
	}
	return m
}

// moments returns the mean and the covariance of the last d entries of u.
func (m mixture) moments(d int) (*mat.VecDense, *mat.SymDense) {
	dims := m.means[0].Len()
	mean, cov := mat.NewVecDense(d, nil), mat.NewSymDense(d, nil)
	for k, w := range m.weights {
		mean.AddScaledVec(mean, w, m.means[k].SliceVec(dims-d, dims))
	}
	for k, w := range m.weights {
		var off mat.VecDense
		off.SubVec(m.means[k].SliceVec(dims-d, dims), mean)
		cov.SymRankOne(cov, w, &off)
		for i := range d {
			for j := range i + 1 {
				cov.SetSym(i, j, cov.At(i, j)+w*m.covs[k].At(dims-d+i, dims-d+j))
			}
		}
	}
	return mean, cov
}

// taughtWithHypotheses returns a planner, the belief of a few labels with its scale, and their
// mixture.
func taughtWithHypotheses(t *testing.T, change func(c *Config)) (*Planner, *Learner, mixture) {
	t.Helper()
	prior := testPrior(rigLatent, 3)
	random := rand.New(rand.NewPCG(9, 9))
	for range 6 * (rigLatent + 3) {
		prior.Examples = append(prior.Examples, float32(random.NormFloat64()))
	}
	cfg := PersonConfig()
	cfg.Sigma, cfg.Noise.Freedom, cfg.Lambda = 0.4, 0, 2
	change(&cfg)
	var err error
	if cfg.Basis, err = NewBasis(prior); err != nil {
		t.Fatal(err)
	}
	l, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	p, err := NewPlanner(cfg, newStub(rigObs, rigAction, rigLatent))
	fatal.If(t, err)
	const labels = 7
	x, y := mat.NewDense(labels, l.Belief().Dim(), nil), make([]float64, labels)
	for i := range labels {
		phi, obs := gaussian(random, rigLatent), []float32{float32(i), -1}
		y[i] = random.NormFloat64()
		l.Observe(uint64(i), 0, phi, obs)
		l.features(x.RawRowView(i), phi, obs)
		label := rewardsrc.Label{ID: uint64(i + 1), Kind: rewardsrc.Value, Tick: uint64(i), Value: y[i]}
		if a := l.Apply(label, 0); a.Outcome != Applied {
			t.Fatal(a.Outcome)
		}
	}
	fatal.If(t, p.belief.Restore(beliefState(l)))
	return p, l, newMixture(p.hypotheses, x, y, cfg.Lambda, l.Sigma())
}

func beliefState(l *Learner) []float64 {
	state := make([]float64, posterior.StateLen(l.Belief().Dim()))
	l.Belief().State(state)
	return state
}

func TestHypotheses_AreWeighedByTheLabels(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"estimated noise": func(*Config) {},
		"fixed noise":     func(c *Config) { c.Noise = NoiseConfig{} },
		"no offset":       func(c *Config) { c.Offset = 0 },
		"former tasks":    func(c *Config) { c.FormerTasks = [][]float64{{0, 1, 2, 0, -1, 0, 1}, {1, 0, 0, 1, 0, 0, 1}} },
	} {
		p, l, want := taughtWithHypotheses(t, change)
		if !p.hypotheses.weigh(p.belief, l.Scale()) {
			t.Fatalf("%s: not weighed", name)
		}
		for k, w := range want.weights {
			if got := p.hypotheses.weights[k]; math.Abs(got-w) > 1e-9 {
				t.Errorf("%s: hypothesis %d has the weight %g, want %g", name, k, got, w)
			}
		}
		mean := make([]float64, rigLatent)
		p.estimate(mean, l.Scale())
		u, _ := want.moments(rigLatent)
		var z mat.VecDense
		z.MulVec(p.basis.taskDense(), u)
		if !mat.EqualApprox(mat.NewVecDense(rigLatent, mean), &z, 1e-9) {
			t.Errorf("%s: ẑ is %v, want %v", name, mean, z.RawVector().Data)
		}
	}
}

func TestHypotheses_DrawsHaveTheDistributionOfTheMixture(t *testing.T) {
	const n = 60_000
	p, l, want := taughtWithHypotheses(t, func(c *Config) { c.Draw.Scale, c.Draw.Ticks = 1, 1 })
	_, cov := want.moments(rigLatent)
	var product, zCov mat.Dense
	root := p.basis.taskDense()
	product.Mul(root, cov)
	zCov.Mul(&product, root.T())
	sum, got := mat.NewVecDense(rigLatent, nil), mat.NewDense(rigLatent, rigLatent, nil)
	mean := make([]float64, rigLatent)
	p.estimate(mean, l.Scale())
	z := make([]float64, rigLatent)
	s := NewState(p.cfg.Shape(p.model.Dims()))
	s.Scale = l.Scale()
	for i := range n {
		s.Next = uint64(i) + 1
		p.random.Uint64()
		p.draw(z, s)
		off := mat.NewVecDense(rigLatent, nil)
		off.SubVec(mat.NewVecDense(rigLatent, z), mat.NewVecDense(rigLatent, mean))
		sum.AddScaledVec(sum, 1.0/n, off)
		got.RankOne(got, 1.0/n, off, off)
	}
	size := mat.Norm(&zCov, 2)
	if mat.Norm(sum, 2) > 0.03*math.Sqrt(size) {
		t.Errorf("the mean of draws is off by %v", sum.RawVector().Data)
	}
	if !mat.EqualApprox(got, &zCov, 0.03*size) {
		t.Errorf("covariance\n%v, want\n%v", mat.Formatted(got), mat.Formatted(&zCov))
	}
}

func TestFormerTask_IsTheMeanOfItsBelief(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"few labels": func(*Config) {},
		"no offset":  func(c *Config) { c.Offset = 0 },
		"others":     func(c *Config) { c.FormerTasks = [][]float64{{0, 1, 2, 0, -1, 0, 1}} },
	} {
		p, l, _ := taughtWithHypotheses(t, change)
		cfg := p.cfg
		cfg.FormerTasks = nil
		want := make([]float64, rigLatent)
		cfg.Estimate(want, l.Belief(), l.Scale())
		u := p.cfg.FormerTask(want, l.Belief(), l.Scale())
		if len(u) != cfg.Basis.size() {
			t.Fatalf("%s: %d numbers", name, len(u))
		}
		cfg.Basis.task(u[cfg.Basis.nuisance():])
		if got := u[cfg.Basis.nuisance():]; !closeAll(got, want) {
			t.Errorf("%s: z of the task is %v, want %v", name, got, want)
		}
	}
}

// With so many labels that the belief is Gaussian, the mean of all of u predicts the labels as the
// belief does.
func TestFormerTask_OfManyLabelsIsTheGaussianMean(t *testing.T) {
	p, l, _ := taughtWithHypotheses(t, func(*Config) {})
	x := gaussian(rand.New(rand.NewPCG(3, 1)), l.Belief().Dim())
	for l.Belief().Weight() <= maxWeighed {
		fatal.If(t, l.Belief().Update(x, 0.5, 20))
	}
	u := p.cfg.FormerTask(make([]float64, rigLatent), l.Belief(), l.Scale())
	x[0] = 0 // without the operator's zero
	if got, want := floats.Dot(x[1:], u), l.Belief().Predict(x); math.Abs(got-want) > 1e-9 {
		t.Errorf("predicts %g, the belief %g", got, want)
	}
}

func TestFormerTask_WithoutABeliefHasTheLengthOfAnExample(t *testing.T) {
	p, _, _ := taughtWithHypotheses(t, func(*Config) {})
	z := []float64{3, -1, 0, 2}
	other, err := posterior.New(9, 1, 1)
	fatal.If(t, err)
	for _, belief := range []*posterior.Belief{nil, other} {
		u := p.cfg.FormerTask(z, belief, 1)
		var lengths []float64
		for k := range p.hypotheses.random {
			lengths = append(lengths, norm(mat.Col(nil, k, p.hypotheses.layers[0].means)))
		}
		slices.Sort(lengths)
		if got, want := norm(u), lengths[len(lengths)/2]; math.Abs(got-want) > 1e-9 {
			t.Errorf("length %g, want %g", got, want)
		}
		var w mat.VecDense // (g, z)
		w.MulVec(p.basis.dense(), mat.NewVecDense(len(u), u))
		scale := w.AtVec(w.Len()-1) / z[3]
		for i := range w.Len() {
			want := 0.0
			if i >= p.basis.nuisance() {
				want = scale * z[i-p.basis.nuisance()]
			}
			if math.Abs(w.AtVec(i)-want) > 1e-9 || scale <= 0 {
				t.Errorf("(g, z) is %v, want a multiple of %v", w.RawVector().Data, z)
			}
		}
	}
	cfg := p.cfg
	for _, extreme := range []float64{1e200, 1e-200} { // a saved task may have any finite z but 0
		if u := cfg.FormerTask([]float64{extreme, 0, 0, 0}, nil, 1); u != nil {
			t.Errorf("%g: %v", extreme, u)
		}
	}
	cfg.Hypotheses = false
	if cfg.FormerTask(z, nil, 1) != nil {
		t.Error("a former task without hypotheses")
	}
}

func TestConfig_FormerTasksKeepTheBasis(t *testing.T) {
	p, _, _ := taughtWithHypotheses(t, func(*Config) {})
	cfg := p.cfg
	hash := cfg.BasisHash()
	cfg.FormerTasks = [][]float64{{0.1, 1.0 / 3, 2, 0, -1, 0, 1}}
	if cfg.BasisHash() != hash {
		t.Error("former tasks change the hash of the basis")
	}
	text, err := json.Marshal(cfg)
	fatal.If(t, err)
	var read Config
	fatal.If(t, json.Unmarshal(text, &read))
	if !slices.Equal(read.FormerTasks[0], cfg.FormerTasks[0]) {
		t.Errorf("the log has %v", read.FormerTasks)
	}
	for _, bad := range [][][]float64{
		{{1}}, {{nan, 0, 0, 0, 0, 0, 0}}, {{1e10, 0, 0, 0, 0, 0, 0}}, make([][]float64, MaxFormerTasks+1),
	} {
		if cfg.FormerTasks = bad; cfg.Validate(rigLatent) == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

func closeAll(got, want []float64) bool {
	return mat.EqualApprox(mat.NewVecDense(len(got), got), mat.NewVecDense(len(want), want), 1e-9)
}

func TestHypotheses_AreWeighedAgainAfterALabelOfValue0(t *testing.T) {
	p, l, _ := taughtWithHypotheses(t, func(c *Config) { c.Noise = NoiseConfig{} })
	p.hypotheses.weigh(p.belief, l.Scale())
	before := append([]float64(nil), p.hypotheses.weights...)
	x := gaussian(rand.New(rand.NewPCG(5, 5)), p.belief.Dim())
	fatal.If(t, p.belief.Update(x, 0, 10))
	p.hypotheses.weigh(p.belief, l.Scale())
	if slices.Equal(before, p.hypotheses.weights) {
		t.Error("the weights are those without the label")
	}
}

func TestHypotheses_EndWithManyLabelsAndWithoutAny(t *testing.T) {
	p, l, _ := taughtWithHypotheses(t, func(*Config) {})
	belief := l.Belief().Clone()
	x := make([]float64, belief.Dim())
	x[1] = 1
	for belief.Weight() <= maxWeighed {
		if !p.hypotheses.weigh(belief, l.Scale()) {
			t.Fatalf("not weighed with %g labels", belief.Weight())
		}
		fatal.If(t, belief.Update(x, 0.5, 20))
	}
	if p.hypotheses.weigh(belief, l.Scale()) {
		t.Errorf("weighed with %g labels", belief.Weight())
	}
	belief.Reset()
	if p.hypotheses.weigh(belief, l.Scale()) {
		t.Error("weighed without labels")
	}
	cfg := p.cfg
	cfg.Hypotheses = false
	if newHypotheses(cfg, rigLatent).weigh(l.Belief(), l.Scale()) {
		t.Error("weighed though off")
	}
}
