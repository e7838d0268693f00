package controller

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// testBasis returns a basis of dimension d with its mean and moment.
func testBasis(t testing.TB, d int) (*Basis, []float64, *mat.SymDense) {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(d), 3))
	factor := mat.NewDense(d, d, gaussian(random, d*d))
	var moment mat.SymDense
	moment.SymOuterK(1, factor)
	for i := range d {
		moment.SetSym(i, i, moment.At(i, i)+0.1)
	}
	mean, flat := gaussian(random, d), make([]float64, 0, d*d)
	for i := range d {
		for j := range d {
			flat = append(flat, moment.At(i, j))
		}
	}
	b, err := NewBasis(mean, flat)
	if err != nil {
		t.Fatal(err)
	}
	return b, mean, &moment
}

// dense returns L.
func (b *Basis) dense() *mat.Dense {
	d := b.dim()
	m := mat.NewDense(d, d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			m.Set(i, j, b.at(i, j))
		}
	}
	return m
}

func TestBasis_FactorsTheMoment(t *testing.T) {
	for d := 1; d <= 8; d++ {
		b, mean, moment := testBasis(t, d)
		l := b.dense()
		var product mat.Dense
		product.Mul(l, l.T())
		if !mat.EqualApprox(&product, moment, 1e-9) {
			t.Errorf("d = %d: LLᵀ is not the moment", d)
		}
		phi, centred := gaussian(rand.New(rand.NewPCG(1, 1)), d), mat.NewVecDense(d, nil)
		for i := range phi {
			centred.SetVec(i, phi[i]-mean[i])
		}
		got := make([]float64, d)
		b.features(got, phi)
		var want, z mat.VecDense
		want.MulVec(l.T(), centred)
		if !mat.EqualApprox(mat.NewVecDense(d, got), &want, 1e-9) {
			t.Errorf("d = %d: features %v, want %v", d, got, want)
		}
		u := append([]float64(nil), phi...)
		z.MulVec(l, mat.NewVecDense(d, phi))
		b.task(u)
		if !mat.EqualApprox(mat.NewVecDense(d, u), &z, 1e-9) {
			t.Errorf("d = %d: z = %v, want %v", d, u, z)
		}
	}
}

// priorConfig has a task prior, an offset and estimated noise.
func priorConfig(t testing.TB) (Config, *Basis) {
	t.Helper()
	cfg := PersonConfig()
	cfg.Basis, _, _ = testBasis(t, rigLatent)
	return cfg, cfg.Basis
}

func TestConfig_MeanAndSpreadAreThoseOfZ(t *testing.T) {
	cfg, basis := priorConfig(t)
	l, err := NewLearner(cfg, rigLatent, testPeriod)
	if err != nil {
		t.Fatal(err)
	}
	teach(l, 20, 5)
	belief := l.Belief()
	d := rigLatent
	u, inverse := make([]float64, d), make([]float64, d*d)
	belief.Mean(u)
	belief.InvR(inverse)
	var z mat.VecDense
	z.MulVec(basis.dense(), mat.NewVecDense(d, u))
	mean, spread := make([]float64, d), make([]float64, d*d)
	cfg.Mean(mean, belief)
	cfg.Spread(spread, belief, 0.5)
	if !mat.EqualApprox(mat.NewVecDense(d, mean), &z, 1e-9) {
		t.Errorf("mean %v, want %v", mean, z)
	}
	var want mat.Dense
	want.Mul(basis.dense(), mat.NewDense(d, d, inverse))
	want.Scale(0.5, &want)
	if !mat.EqualApprox(mat.NewDense(d, d, spread), &want, 1e-9) {
		t.Error("the spread is not scale·L·R⁻¹")
	}
	phi := gaussian(rand.New(rand.NewPCG(4, 4)), d)
	x := make([]float64, belief.Dim())
	l.features(x, phi)
	if got, want := cfg.Expected(phi, mean, cfg.Zero(belief)), belief.Predict(x); math.Abs(got-want) > 1e-9 {
		t.Errorf("expected label %g, want %g", got, want)
	}
}

func TestBasis_JSONKeepsAllBits(t *testing.T) {
	b, _, _ := testBasis(t, 5)
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var got Basis
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(&got, b) {
		t.Errorf("got %+v (%v), want %+v", got, err, b)
	}
	for _, bad := range []string{"", "{}", `{"mean":"AAAAAAAA8D8=","root":""}`, `{"mean":3}`,
		`{"mean":"AAAAAAAA8D8=","root":"AAAAAAAA+H8="}`} {
		if err := got.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s is a basis", bad)
		}
	}
}

func TestNewBasis_RefusesImpossibleMoments(t *testing.T) {
	for name, c := range map[string]struct{ mean, moment []float64 }{
		"no features":           {nil, nil},
		"not a square":          {[]float64{1, 2}, []float64{1, 0, 0}},
		"NaN":                   {[]float64{nan}, []float64{1}},
		"not positive definite": {[]float64{0, 0}, []float64{1, 2, 2, 1}},
		"infinite":              {[]float64{0}, []float64{inf}},
	} {
		if _, err := NewBasis(c.mean, c.moment); err == nil || !strings.Contains(err.Error(), "task prior") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
