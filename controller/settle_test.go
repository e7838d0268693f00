package controller

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"optibfm/internal/fatal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// teach gives a learner n labels of a linear reward with little noise. The ticks and IDs start at
// 1.
func teach(l *Learner, n int, seed uint64) (phis [][]float64, rewards []float64) {
	random := rand.New(rand.NewPCG(seed, 1))
	truth := gaussian(random, rigLatent)
	for i := range uint64(n) {
		phi, reward := gaussian(random, rigLatent), 0.05*random.NormFloat64()
		for k, x := range phi {
			reward += 0.3 * x * truth[k]
		}
		if i%6 == 5 { // a mistake
			reward = -reward - 2
		}
		l.Observe(i+1, 0, phi, nil)
		label := value(0, i+1, reward)
		label.ID = i + 1
		l.Apply(label, 0)
		phis, rewards = append(phis, phi), append(rewards, reward)
	}
	return phis, rewards
}

// settled calls Settle until nothing changes.
func settled(l *Learner, from uint64) {
	for quiet, tick := 0, from; quiet < 3*SettlingTicks; tick++ {
		quiet++
		if r := l.Settle(tick); r.ID != 0 {
			quiet = 0
		}
	}
}

// The fixed point of iteratively reweighted least squares, with the expected squared residuals of
// expectation-maximisation, computed densely.
func TestLearner_SettlesAtStudentsT(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Noise.Freedom, cfg.Sigma, cfg.Offset = 1.5, 0.2, 0.7
	l, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	phis, rewards := teach(l, 40, 2)
	settled(l, 41)

	d, n := rigLatent+1, len(rewards)
	x := mat.NewDense(n, d, nil)
	for i, phi := range phis {
		x.SetRow(i, append([]float64{0.7}, phi...))
	}
	mean, weights := studentsT(t, x, rewards)
	got := make([]float64, rigLatent)
	l.Belief().Mean(got)
	for i, g := range got {
		if want := mean.AtVec(i + 1); math.Abs(g-want) > 0.01 {
			t.Errorf("element %d of the mean: %g, want %g", i, g, want)
		}
	}
	for i, w := range weights {
		e := l.ledger.recent(n - 1 - i)
		if got := e.weight * 0.04; math.Abs(got-w) > 2*revisionStep {
			t.Errorf("label %d: weight %.3f, want %.3f", i+1, got, w)
		}
		if mistake := i%6 == 5; mistake != (w < 0.5) {
			t.Errorf("label %d: weight %.3f, mistake %v", i+1, w, mistake)
		}
	}
}

// studentsT returns the fixed point for σ = 0.2, 1.5 degrees of freedom and the prior N(0, I).
func studentsT(t *testing.T, x *mat.Dense, rewards []float64) (mean mat.VecDense, weights []float64) {
	t.Helper()
	n, d := x.Dims()
	weights = make([]float64, n)
	for i := range weights {
		weights[i] = 1
	}
	for range 500 {
		v, rhs := mat.NewSymDense(d, nil), mat.NewVecDense(d, nil)
		for i := range d {
			v.SetSym(i, i, 1)
		}
		for i, w := range weights {
			row := x.RowView(i)
			v.SymRankOne(v, w/0.04, row)
			rhs.AddScaledVec(rhs, w*rewards[i]/0.04, row)
		}
		var chol mat.Cholesky
		if !chol.Factorize(v) {
			t.Fatal("V is not positive definite")
		}
		fatal.If(t, chol.SolveVecTo(&mean, rhs))
		for i := range weights {
			row := x.RowView(i)
			var solved mat.VecDense
			fatal.If(t, chol.SolveVecTo(&solved, row))
			residual := rewards[i] - mat.Dot(row, &mean)
			square := residual*residual + mat.Dot(row, &solved)
			weights[i] = math.Min(1, 2.5/(1.5+square/0.04))
		}
	}
	return mean, weights
}

func TestLearner_UndoRemovesTheRevisedWeight(t *testing.T) {
	cfg, _ := priorConfig(t)
	with, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	teach(with, 30, 3)
	settled(with, 31)
	undone := with.Apply(rewardsrc.Label{ID: 99, Kind: rewardsrc.Undo, Undoes: 6, Tick: rewardsrc.NoTick}, 0)
	if undone.Outcome != Applied {
		t.Fatalf("undo: %v", undone.Outcome)
	}
	// The belief of the other labels with the same weights and the same prior.
	without, err := cfg.NewBelief(rigLatent)
	fatal.If(t, err)
	prior := make([]float64, without.Dim())
	with.Belief().Prior(prior)
	for i := range 30 {
		if e := with.ledger.recent(29 - i); e.active {
			fatal.If(t, without.Update(e.phi, e.reward, e.weight))
		}
	}
	v, want := mat.NewSymDense(without.Dim(), nil), precisionOf(without)
	for i, p := range prior {
		want.SetSym(i, i, want.At(i, i)+p-without.Lambda())
	}
	v.CopySym(precisionOf(with.Belief()))
	if !mat.EqualApprox(v, want, 1e-9*mat.Norm(want, 2)) {
		t.Error("the belief differs from that without the label")
	}
}

// precisionOf returns V = RᵀR.
func precisionOf(b *posterior.Belief) *mat.SymDense {
	d := b.Dim()
	state := make([]float64, posterior.StateLen(d))
	b.State(state)
	r := mat.NewTriDense(d, mat.Upper, nil)
	for i, k := 0, 0; i < d; i++ {
		for j := i; j < d; j++ {
			r.SetTri(i, j, state[k])
			k++
		}
	}
	v := mat.NewSymDense(d, nil)
	v.SymOuterK(1, r.T())
	return v
}

func TestLearner_EstimatesSigma(t *testing.T) {
	cfg, _ := priorConfig(t)
	for _, sigma := range []float64{0.2, 0.6} {
		l, err := NewLearner(cfg, rigLatent, testPeriod)
		fatal.If(t, err)
		random := rand.New(rand.NewPCG(5, 6))
		for i := range uint64(2000) {
			l.Observe(i+1, 0, gaussian(random, rigLatent), nil)
			label := value(0, i+1, sigma*random.NormFloat64())
			label.ID = i + 1
			l.Apply(label, 0)
			l.Settle(i + 1)
		}
		// A scale of Student's t fitted to normal noise is smaller than its standard deviation.
		if got := l.Sigma() / sigma; got < 0.6 || got > 1.1 {
			t.Errorf("σ %g: estimated %g", sigma, l.Sigma())
		}
		prior := make([]float64, l.Belief().Dim())
		l.Belief().Prior(prior)
		for i, p := range prior {
			if want := l.Sigma() * l.Sigma(); math.Abs(p-want) > 0.05*want {
				t.Errorf("σ %g: the precision of direction %d is %g, want λσ² = %g", sigma, i, p, want)
			}
		}
	}
	exact, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	for i := range uint64(400) {
		exact.Observe(i+1, 0, make([]float64, rigLatent), nil)
		exact.Apply(value(0, i+1, 0), 0)
	}
	if got := exact.Sigma(); got != cfg.Noise.Floor {
		t.Errorf("exact labels: σ %g, want the floor %g", got, cfg.Noise.Floor)
	}
}

func TestNoiseModel_IgnoresImpossibleSurprises(t *testing.T) {
	for _, freedom := range []float64{0, 1.5} {
		n := noiseModel{NoiseConfig: NoiseConfig{Estimate: true, Freedom: freedom}, first: 1}
		for _, surprise := range []float64{nan, inf, -inf, 1e200} {
			n.add(surprise)
		}
		if n.state != (NoiseState{}) {
			t.Errorf("freedom %g: %+v", freedom, n.state)
		}
	}
}

func TestLearner_RestoreRefusesImpossibleNoise(t *testing.T) {
	l, _ := newTestLearner(t, nil)
	state := make([]float64, posterior.StateLen(l.Belief().Dim()))
	l.Belief().State(state)
	for _, bad := range []NoiseState{
		{Squares: nan}, {Count: nan}, {Squares: -1}, {Count: -1}, {Squares: inf}, {Count: 1e9},
	} {
		if l.Restore(state, bad) == nil || l.Noise() != (NoiseState{}) {
			t.Errorf("%+v is accepted", bad)
		}
	}
	if want := (NoiseState{Squares: 2, Count: 10}); l.Restore(state, want) != nil || l.Noise() != want {
		t.Errorf("restored %+v, want %+v", l.Noise(), want)
	}
}

// A learner that repeats the log of another has the same bits.
func TestLearner_ResettleRepeatsSettle(t *testing.T) {
	cfg, _ := priorConfig(t)
	cfg.Rho = 0.999
	run, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	replay, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	random := rand.New(rand.NewPCG(8, 8))
	revisions := 0
	for tick := range uint64(600) {
		phi := gaussian(random, rigLatent)
		for _, l := range []*Learner{run, replay} {
			l.Advance(1)
			l.Observe(tick, 0, phi, nil)
		}
		if tick%5 == 0 {
			label := value(0, tick, float64(random.IntN(5))/4)
			label.ID = tick + 1
			applied := run.Apply(label, 0)
			if own, err := replay.Reapply(applied); err != nil || own != applied {
				t.Fatalf("tick %d: %+v (%v), want %+v", tick, own, err, applied)
			}
		}
		revised := run.Settle(tick)
		if own, err := replay.Resettle(tick, revised); err != nil || own != revised {
			t.Fatalf("tick %d: revised %+v (%v), want %+v", tick, own, err, revised)
		}
		if revised.ID != 0 {
			revisions++
		}
		if run.Belief().Hash() != replay.Belief().Hash() || run.Noise() != replay.Noise() {
			t.Fatalf("tick %d: the beliefs differ", tick)
		}
	}
	if revisions < 20 {
		t.Errorf("%d revisions", revisions)
	}
	if _, err := replay.Resettle(600, Revision{ID: 9999, Before: 1, After: 0.5}); !errors.Is(err, ErrUnknownFeatures) {
		t.Errorf("an unknown label: %v", err)
	}
}
