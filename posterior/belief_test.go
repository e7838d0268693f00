package posterior

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// splitMix is SplitMix64: its numbers do not depend on the version of math/rand.
// Exact operations convert them to floats.
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// float returns a multiple of 2^-52 in [-1, 1).
func (s *splitMix) float() float64 { return float64(int64(s.next())>>11) * 0x1p-52 }

// weight returns a weight in (0, 2].
func (s *splitMix) weight() float64 { return s.float() + 1 + 0x1p-52 }

func (s *splitMix) fill(v []float64) {
	for i := range v {
		v[i] = s.float()
	}
}

func mustNew(t testing.TB, dim int, lambda, rho float64, opts ...Option) *Belief {
	t.Helper()
	b, err := New(dim, lambda, rho, opts...)
	must(t, err)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// trained returns a belief after labels and forgetting.
func trained(t testing.TB, dim int, seed splitMix) *Belief {
	t.Helper()
	b := mustNew(t, dim, 0.5, 0.999)
	phi := make([]float64, dim)
	for range 3*dim + 5 {
		seed.fill(phi)
		must(t, b.Update(phi, seed.float(), seed.weight()))
		b.Forget()
	}
	return b
}

func stateOf(b *Belief) []float64 {
	s := make([]float64, StateLen(b.Dim()))
	b.State(s)
	return s
}

func sameBits(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}

// dense returns V = RᵀR.
func dense(b *Belief) *mat.SymDense {
	d := b.dim
	r := mat.NewTriDense(d, mat.Upper, nil)
	for k, off := 0, 0; k < d; k++ {
		for j := k; j < d; j++ {
			r.SetTri(k, j, b.r[off])
			off++
		}
	}
	var v mat.SymDense
	v.SymOuterK(1, r.T())
	return &v
}

// reference is the textbook belief with full V and b.
type reference struct {
	v     *mat.SymDense
	b     *mat.VecDense
	prior []float64
	next  int
}

func newReference(dim int, lambda float64) *reference {
	ref := &reference{mat.NewSymDense(dim, nil), mat.NewVecDense(dim, nil), make([]float64, dim), 0}
	for i := range dim {
		ref.v.SetSym(i, i, lambda)
		ref.prior[i] = lambda
	}
	return ref
}

func (ref *reference) add(phi []float64, reward, weight float64) {
	x := mat.NewVecDense(len(phi), phi)
	ref.v.SymRankOne(ref.v, weight, x)
	ref.b.AddScaledVec(ref.b, weight*reward, x)
}

func (ref *reference) forget(lambda, rho float64) {
	ref.v.ScaleSym(rho, ref.v)
	ref.b.ScaleVec(rho, ref.b)
	for i := range ref.prior {
		ref.prior[i] *= rho
	}
	i := ref.next
	ref.v.SetSym(i, i, ref.v.At(i, i)+lambda-ref.prior[i])
	ref.prior[i] = lambda
	ref.next = (i + 1) % len(ref.prior)
}

func (ref *reference) cholesky(t testing.TB) *mat.Cholesky {
	t.Helper()
	var c mat.Cholesky
	if !c.Factorize(ref.v) {
		t.Fatal("the reference is not positive definite")
	}
	return &c
}

// compare checks V and all estimates of the belief against ref.
func (ref *reference) compare(t testing.TB, b *Belief, tolerance float64) {
	t.Helper()
	if e := relative(dense(b), ref.v); e > tolerance {
		t.Fatalf("V is off by %.3g", e)
	}
	if e := relative(mat.NewVecDense(b.dim, b.b), ref.b); e > tolerance {
		t.Fatalf("b is off by %.3g", e)
	}
	c := ref.cholesky(t)
	if e := math.Abs(b.LogDet() - c.LogDet()); e > tolerance*(1+math.Abs(c.LogDet())) {
		t.Fatalf("log det V is off by %.3g", e)
	}
	var z mat.VecDense
	must(t, c.SolveVecTo(&z, ref.b))
	got := make([]float64, b.dim)
	b.Mean(got)
	if e := relative(mat.NewVecDense(b.dim, got), &z); e > tolerance {
		t.Fatalf("the mean is off by %.3g", e)
	}
}

// relative returns ‖a-b‖/‖b‖ in the Frobenius norm, or ‖a‖ if b is zero.
func relative(a, b mat.Matrix) float64 {
	var diff mat.Dense
	diff.Sub(a, b)
	scale := mat.Norm(b, 2)
	if scale == 0 {
		scale = 1
	}
	return mat.Norm(&diff, 2) / scale
}

func TestNew_IsThePrior(t *testing.T) {
	b := mustNew(t, 4, 0.25, 1)
	newReference(4, 0.25).compare(t, b, 1e-15)
	if b.Dim() != 4 || b.Lambda() != 0.25 || b.Rho() != 1 || b.Weight() != 0 || b.ExactRestore() {
		t.Fatal("wrong parameters")
	}
}

func TestNew_RefusesBadParameters(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		dim         int
		lambda, rho float64
	}{
		{0, 1, 1}, {-1, 1, 1}, {MaxDim + 1, 1, 1},
		{4, 0, 1}, {4, -1, 1}, {4, nan, 1}, {4, inf, 1}, {4, 1e-60, 1}, {4, 1e60, 1},
		{4, 1, 0}, {4, 1, -0.5}, {4, 1, 1.0000001}, {4, 1, nan}, {4, 1, inf},
	} {
		if b, err := New(c.dim, c.lambda, c.rho); err == nil || b != nil {
			t.Errorf("New(%d, %g, %g) gave no error", c.dim, c.lambda, c.rho)
		}
	}
}

func TestNew_RequiresExactRestoreForSmallRho(t *testing.T) {
	if _, err := New(50, 1, 0.98); !errors.Is(err, ErrForgetsPrior) {
		t.Fatalf("0.98^49 < 0.5, but New returned %v", err)
	}
	mustNew(t, 50, 1, 0.98, WithExactRestore())
	mustNew(t, 50, 1, 0.99)
	mustNew(t, 2, 1, 0.5)
	mustNew(t, 1, 1, 0.01)
}

func TestBelief_MatchesTheTextbook(t *testing.T) {
	for _, dim := range []int{1, 2, 3, 7, 16, 50} {
		seed := splitMix(dim)
		b, ref := mustNew(t, dim, 0.3, 0.995), newReference(dim, 0.3)
		phi := make([]float64, dim)
		for range 4 * dim {
			seed.fill(phi)
			reward, weight := seed.float(), seed.weight()
			must(t, b.Update(phi, reward, weight))
			ref.add(phi, reward, weight)
			b.Forget()
			ref.forget(0.3, 0.995)
		}
		ref.compare(t, b, 1e-11)
		if !sameBits(ref.prior, b.prior) {
			t.Fatal("D does not follow the rule")
		}
	}
}

func TestBelief_NormSqUCBAndInvRMatchTheTextbook(t *testing.T) {
	const dim, n = 13, 9
	b := trained(t, dim, 7)
	seed := splitMix(8)
	psi := make([]float64, n*dim)
	seed.fill(psi)
	var inverse mat.Dense
	must(t, inverse.Inverse(dense(b)))
	mean := make([]float64, dim)
	b.Mean(mean)
	ucb := make([]float64, n)
	b.UCB(ucb, psi, n, 1.5)
	for i := range n {
		x := mat.NewVecDense(dim, psi[i*dim:(i+1)*dim])
		want := mat.Inner(x, &inverse, x)
		if got := b.NormSq(x.RawVector().Data); math.Abs(got-want) > 1e-12*want {
			t.Errorf("NormSq is %g, not %g", got, want)
		}
		bound := mat.Dot(x, mat.NewVecDense(dim, mean)) + 1.5*math.Sqrt(want)
		if math.Abs(ucb[i]-bound) > 1e-11 {
			t.Errorf("UCB is %g, not %g", ucb[i], bound)
		}
	}
	flat := make([]float64, dim*dim)
	b.InvR(flat)
	invR := mat.NewDense(dim, dim, flat)
	var product mat.Dense
	product.Mul(invR, invR.T())
	if e := relative(&product, &inverse); e > 1e-12 {
		t.Errorf("R⁻¹R⁻ᵀ is off V⁻¹ by %g", e)
	}
	for i := range dim {
		for j := range i {
			if invR.At(i, j) != 0 {
				t.Fatalf("R⁻¹ has %g below the diagonal", invR.At(i, j))
			}
		}
	}
}

func TestDGap_IsTheGainInLogDet(t *testing.T) {
	b := trained(t, 10, 3)
	seed := splitMix(4)
	phi := make([]float64, 10)
	seed.fill(phi)
	const weight = 0.7
	gap := DGap(b.NormSq(phi), weight)
	before := b.LogDet()
	must(t, b.Update(phi, 1, weight))
	if gained := b.LogDet() - before; math.Abs(gained-gap) > 1e-12 {
		t.Fatalf("log det V gained %g, the D-gap is %g", gained, gap)
	}
	for _, kappa := range []float64{0, 1e-6, 0.01, 1, 5} {
		if got := DGap(DGapThreshold(kappa, weight), weight); math.Abs(got-kappa) > 1e-15*(1+kappa) {
			t.Errorf("the threshold of κ = %g gives a D-gap of %g", kappa, got)
		}
	}
}

func TestDowndate_RemovesALabelCompletely(t *testing.T) {
	for _, weight := range []float64{1e-3, 1, 1e3, 1e6} {
		const dim, rho = 20, 0.999
		seed := splitMix(5)
		with, without := mustNew(t, dim, 1, rho), mustNew(t, dim, 1, rho)
		phi, undone := make([]float64, dim), make([]float64, dim)
		seed.fill(undone)
		present := weight
		for tick := range 500 {
			seed.fill(phi)
			reward := seed.float()
			must(t, with.Update(phi, reward, 1))
			must(t, without.Update(phi, reward, 1))
			if tick == 100 {
				must(t, with.Update(undone, 0.8, weight))
			}
			with.Forget()
			without.Forget()
			if tick >= 100 {
				present *= rho
			}
		}
		must(t, with.Downdate(undone, 0.8, present))
		a, b := stateOf(with), stateOf(without)
		if e := relative(mat.NewVecDense(len(a), a), mat.NewVecDense(len(b), b)); e > 1e-9 {
			t.Errorf("weight %g: the state is off by %.3g", weight, e)
		}
		za, zb := make([]float64, dim), make([]float64, dim)
		with.Mean(za)
		without.Mean(zb)
		if e := relative(mat.NewVecDense(dim, za), mat.NewVecDense(dim, zb)); e > 1e-9 {
			t.Errorf("weight %g: the mean is off by %.3g", weight, e)
		}
	}
}

func TestDowndate_RefusesUnknownLabels(t *testing.T) {
	b := mustNew(t, 5, 1, 0.99)
	phi := []float64{1, 0.5, 0, -0.5, 0.25}
	must(t, b.Update(phi, 1, 1))
	before := stateOf(b)
	for _, weight := range []float64{1.1, 1.4, 1.7, 2, 1e3, 1e50} {
		if err := b.Downdate(phi, 1, weight); !errors.Is(err, ErrNotPositiveDefinite) {
			t.Errorf("weight %g: %v", weight, err)
		}
	}
	for _, never := range [][]float64{{0, 0, 0.3, 0, 0}, {0.5, -1, 0, 0, 0}, {1, 0.5, 1, -0.5, 0.25}} {
		if err := b.Downdate(never, 1, 1); !errors.Is(err, ErrNotPositiveDefinite) {
			t.Errorf("%v: %v", never, err)
		}
	}
	if !sameBits(before, stateOf(b)) {
		t.Fatal("the belief changed")
	}
	must(t, b.Downdate(phi, 1, 1))
}

func TestDowndate_LeavesAStateThatRestoreAccepts(t *testing.T) {
	const dim = 4
	seed := splitMix(11)
	phi := make([]float64, dim)
	for run := range 300 {
		b := trained(t, dim, splitMix(run))
		for range 60 {
			seed.fill(phi)
			if err := b.Downdate(phi, 1, 0.3*seed.weight()); err != nil && !errors.Is(err, ErrNotPositiveDefinite) {
				t.Fatal(err)
			}
			must(t, b.check(b.state))
		}
	}
}

func TestDowndate_OfHeavyLabelsIsAccurateOrRefused(t *testing.T) {
	const dim = 10
	phi := make([]float64, dim)
	seed := splitMix(1)
	for exponent := -30; exponent < 50; exponent++ {
		b := trained(t, dim, 3)
		before := dense(b)
		seed.fill(phi)
		weight := math.Pow(10, float64(exponent))
		must(t, b.Update(phi, 1, weight))
		if err := b.Downdate(phi, 1, weight); err != nil {
			if exponent < 9 {
				t.Errorf("weight %g: %v", weight, err)
			}
			continue
		}
		if e := relative(dense(b), before); e > 1e-15*max(1e3, weight) || e > 0.1 {
			t.Errorf("weight %g: V is off by %g", weight, e)
		}
	}
}

func TestBelief_RefusesBadLabels(t *testing.T) {
	b := trained(t, 3, 1)
	before := stateOf(b)
	good := []float64{1, 2, 3}
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		phi            []float64
		reward, weight float64
	}{
		{nil, 1, 1}, {good[:2], 1, 1}, {[]float64{1, 2, 3, 4}, 1, 1},
		{[]float64{1, nan, 3}, 1, 1}, {[]float64{1, 2, inf}, 1, 1}, {[]float64{-inf, 2, 3}, 1, 1},
		{[]float64{1e200, 0, 0}, 1, 1}, {[]float64{1e60, 0, 0}, 1, 1},
		{good, nan, 1}, {good, inf, 1}, {good, -inf, 1}, {good, 1e200, 1},
		{good, 1, 0}, {good, 1, -1}, {good, 1, nan}, {good, 1, inf}, {good, 1, 1e101},
	} {
		var refused *LabelError
		if err := b.Update(c.phi, c.reward, c.weight); !errors.As(err, &refused) || refused.Error() == "" {
			t.Errorf("Update(%v, %g, %g): %v", c.phi, c.reward, c.weight, err)
		}
		if err := b.Downdate(c.phi, c.reward, c.weight); !errors.As(err, &refused) {
			t.Errorf("Downdate(%v, %g, %g): %v", c.phi, c.reward, c.weight, err)
		}
		batch := append([]float64{1, 1, 1}, c.phi...)
		err := b.UpdateBatch(batch, []float64{1, c.reward}, []float64{1, c.weight})
		if err == nil || (errors.As(err, &refused) && refused.Row != 1) {
			t.Errorf("UpdateBatch(%v, %g, %g): %v", c.phi, c.reward, c.weight, err)
		}
	}
	if err := b.UpdateBatch(good, []float64{1}, []float64{1, 2}); err == nil {
		t.Error("UpdateBatch accepts two weights for one label")
	}
	if !sameBits(before, stateOf(b)) {
		t.Fatal("a refused label changed the belief")
	}
}

func TestBelief_StaysFiniteForTheLargestLabels(t *testing.T) {
	b := mustNew(t, 3, MinLambda, 0.9)
	for range 100 {
		must(t, b.Update([]float64{3e49, -3e49, 3e49}, 3e49, 1))
		must(t, b.Update([]float64{1e-160, 0, 1e-170}, 1, 1e-300))
		must(t, b.Update([]float64{0, 0, 0}, 1, 1))
		must(t, b.UpdateBatch([]float64{3e49, 1, 2, 1e-8, 0, 0, 1e-12, 1e-11, 1e-10},
			[]float64{1, 1, 1}, []float64{1, 1e-300, 1e-300}))
		must(t, b.UpdateBatch([]float64{1e-8, 1e-7, 0, 1e-12, 1e-11, 1e-10},
			[]float64{1, 1}, []float64{1e-300, 1e-300}))
		b.Forget()
	}
	must(t, b.check(stateOf(b)))
}

func TestUpdateBatch_MatchesSingleUpdates(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 8, 63} {
		const dim = 11
		seed := splitMix(n)
		phi, reward, weight := make([]float64, n*dim), make([]float64, n), make([]float64, n)
		seed.fill(phi)
		seed.fill(reward)
		for i := range weight {
			weight[i] = seed.weight()
		}
		for _, w := range [][]float64{weight, nil} {
			batch, single := trained(t, dim, 1), trained(t, dim, 1)
			must(t, batch.UpdateBatch(phi, reward, w))
			for i := range n {
				must(t, single.Update(phi[i*dim:(i+1)*dim], reward[i], weightOf(w, i)))
			}
			a, b := stateOf(batch), stateOf(single)
			if e := relative(mat.NewVecDense(len(a), a), mat.NewVecDense(len(b), b)); e > 1e-13 {
				t.Fatalf("%d labels: off by %g", n, e)
			}
		}
	}
}

func TestMerge_AddsLabelsWithoutThePrior(t *testing.T) {
	const dim = 9
	seed := splitMix(6)
	phi := make([]float64, dim)
	// Both forget at the same ticks, so the sum of their data is the reference's.
	one, other := mustNew(t, dim, 0.5, 0.99), mustNew(t, dim, 2, 0.99)
	ref := newReference(dim, 0.5)
	for tick := range 60 {
		seed.fill(phi)
		reward, weight := seed.float(), seed.weight()
		target := one
		if tick%3 == 0 {
			target = other
		}
		must(t, target.Update(phi, reward, weight))
		ref.add(phi, reward, weight)
		one.Forget()
		other.Forget()
		ref.forget(0.5, 0.99)
	}
	weight := one.Weight() + other.Weight()
	must(t, one.Merge(other))
	ref.compare(t, one, 1e-12)
	if math.Abs(one.Weight()-weight) > 1e-12 {
		t.Errorf("the weight is %g, not %g", one.Weight(), weight)
	}
	before := stateOf(one)
	if err := one.Merge(mustNew(t, dim+1, 1, 1)); err == nil {
		t.Error("a belief of another dimension was merged")
	}
	if !sameBits(before, stateOf(one)) {
		t.Error("a refused merge changed the belief")
	}
}

func TestMerge_WithItselfDoublesTheData(t *testing.T) {
	b := trained(t, 6, 2)
	want := dense(b)
	want.AddSym(want, want)
	for i, v := range b.prior {
		want.SetSym(i, i, want.At(i, i)-v)
	}
	must(t, b.Merge(b))
	if e := relative(dense(b), want); e > 1e-13 {
		t.Fatalf("V is off by %g", e)
	}
}

func TestUnmerge_LeavesTheOtherLabels(t *testing.T) {
	const dim, lambda = 9, 0.5
	for _, scale := range []float64{1, 1e3} { // of the weights that are removed
		seed := splitMix(7)
		phi := make([]float64, dim)
		shared, all := mustNew(t, dim, lambda, 1), mustNew(t, dim, lambda, 1)
		ref := newReference(dim, lambda)
		for i := range 40 {
			seed.fill(phi)
			reward, weight := seed.float(), seed.weight()
			if i%2 == 0 {
				weight *= scale
				must(t, shared.Update(phi, reward, weight))
			} else {
				ref.add(phi, reward, weight)
			}
			must(t, all.Update(phi, reward, weight))
		}
		must(t, all.Unmerge(shared))
		ref.compare(t, all, 1e-12*scale)
		before := stateOf(all)
		if err := all.Unmerge(shared); !errors.Is(err, ErrNotPositiveDefinite) || !sameBits(before, stateOf(all)) {
			t.Errorf("labels that the belief does not have: %v", err)
		}
	}
}

func TestClone_SharesNothing(t *testing.T) {
	b := trained(t, 4, 1)
	c := b.Clone()
	before := stateOf(b)
	must(t, c.Update([]float64{1, 2, 3, 4}, 1, 1))
	c.Forget()
	if !sameBits(before, stateOf(b)) {
		t.Fatal("changing the clone changed the belief")
	}
	b.CopyFrom(c)
	if !sameBits(stateOf(b), stateOf(c)) || b.Hash() != c.Hash() {
		t.Fatal("CopyFrom did not copy everything")
	}
	b.Reset()
	if !sameBits(stateOf(b), stateOf(mustNew(t, 4, 0.5, 0.999))) {
		t.Fatal("Reset did not restore the prior")
	}
}

func TestBelief_PanicsForWrongShapes(t *testing.T) {
	b := mustNew(t, 3, 1, 1)
	short, rng := make([]float64, 2), rand.New(rand.NewPCG(1, 2))
	for name, f := range map[string]func(){
		"Mean":     func() { b.Mean(short) },
		"NormSq":   func() { b.NormSq(short) },
		"InvR":     func() { b.InvR(short) },
		"State":    func() { b.State(short) },
		"UCB":      func() { b.UCB(short, make([]float64, 5), 2, 1) },
		"CopyFrom": func() { b.CopyFrom(mustNew(t, 2, 1, 1)) },

		"SampleEllipsoid of part of a sample": func() { b.SampleEllipsoid(make([]float64, 4), 1, rng) },
		"SampleEllipsoid of none":             func() { b.SampleEllipsoid(nil, 1, rng) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s accepts a wrong shape", name)
				}
			}()
			f()
		}()
	}
}
