package controller

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
)

// testPrior returns a task prior with d features and k residuals of two channels.
func testPrior(d, k int) *tflite.Prior {
	random := rand.New(rand.NewPCG(uint64(d), 3))
	n := k + d
	factor := mat.NewDense(n, n, gaussian(random, n*n))
	var moment mat.SymDense
	moment.SymOuterK(1, factor)
	p := &tflite.Prior{Mean: gaussian(random, d), Residuals: tflite.Residuals{
		Mean: gaussian(random, k), Fit: gaussian(random, k*d),
	}}
	for i := range n {
		moment.SetSym(i, i, moment.At(i, i)+0.1)
	}
	for i := range n {
		for j := range n {
			p.Moment = append(p.Moment, moment.At(i, j))
		}
	}
	for i := range k {
		p.Residuals.Terms = append(p.Residuals.Terms, tflite.Term{{
			Channel: i % 2, Shape: tflite.Shape(i % 3), Centre: random.NormFloat64(), Slope: random.NormFloat64(),
		}})
	}
	return p
}

func testBasis(t testing.TB, d, k int) *Basis {
	t.Helper()
	b, err := NewBasis(testPrior(d, k))
	fatal.If(t, err)
	return b
}

// dense returns L.
func (b *Basis) dense() *mat.Dense {
	n := b.size()
	m := mat.NewDense(n, n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			m.Set(i, j, b.at(i, j))
		}
	}
	return m
}

// taskDense returns the block of L that belongs to z.
func (b *Basis) taskDense() mat.Matrix {
	k, n := b.nuisance(), b.size()
	return b.dense().Slice(k, n, k, n)
}

func TestBasis_FactorsTheMoment(t *testing.T) {
	for d := 1; d <= 8; d++ {
		for _, k := range []int{0, 1, 5} {
			testBasisAgainstGonum(t, testPrior(d, k))
		}
	}
}

func testBasisAgainstGonum(t *testing.T, p *tflite.Prior) {
	d, k := len(p.Mean), len(p.Residuals.Terms)
	n := k + d
	b, err := NewBasis(p)
	fatal.If(t, err)
	l := b.dense()
	var product mat.Dense
	product.Mul(l, l.T())
	if !mat.EqualApprox(&product, mat.NewDense(n, n, p.Moment), 1e-9) {
		t.Errorf("d = %d, k = %d: LLᵀ is not the moment", d, k)
	}
	phi, obs := gaussian(rand.New(rand.NewPCG(1, 1)), d), []float32{0.5, -2}
	centred := mat.NewVecDense(d, nil)
	for i := range phi {
		centred.SetVec(i, phi[i]-p.Mean[i])
	}
	// e = c - E[c] - A (φ - μ)
	x := mat.NewVecDense(n, nil)
	for i, term := range p.Residuals.Terms {
		row := mat.NewVecDense(d, p.Residuals.Fit[i*d:(i+1)*d])
		x.SetVec(i, term.At(obs)-p.Residuals.Mean[i]-mat.Dot(row, centred))
	}
	x.SliceVec(k, n).(*mat.VecDense).CopyVec(centred)
	got, scratch := make([]float64, n), make([]float64, n)
	check := func(what string) {
		t.Helper()
		var want mat.VecDense
		want.MulVec(l.T(), x)
		if !mat.EqualApprox(mat.NewVecDense(n, got), &want, 1e-9) {
			t.Errorf("d = %d, k = %d: features %s %v, want %v", d, k, what, got, want)
		}
	}
	b.features(got, scratch, phi, obs)
	check("with an observation")
	for i := range k {
		x.SetVec(i, 0)
	}
	b.features(got, scratch, phi, nil)
	check("without an observation")

	var z mat.VecDense
	z.MulVec(b.taskDense(), mat.NewVecDense(d, phi))
	u := append([]float64(nil), phi...)
	b.task(u)
	if !mat.EqualApprox(mat.NewVecDense(d, u), &z, 1e-9) {
		t.Errorf("d = %d, k = %d: z = %v, want %v", d, k, u, z)
	}
}

// priorConfig has a task prior, an offset and estimated noise.
func priorConfig(t testing.TB) (Config, *Basis) {
	t.Helper()
	cfg := PersonConfig()
	cfg.Basis = testBasis(t, rigLatent, 3)
	return cfg, cfg.Basis
}

func TestConfig_MeanAndSpreadAreThoseOfZ(t *testing.T) {
	cfg, basis := priorConfig(t)
	l, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	teach(l, 20, 5)
	belief := l.Belief()
	d := rigLatent
	u, inverse := make([]float64, d), make([]float64, d*d)
	belief.Mean(u)
	belief.InvR(inverse)
	var z mat.VecDense
	z.MulVec(basis.taskDense(), mat.NewVecDense(d, u))
	mean, spread := make([]float64, d), make([]float64, d*d)
	cfg.Mean(mean, belief)
	cfg.Spread(spread, belief, 0.5)
	if !mat.EqualApprox(mat.NewVecDense(d, mean), &z, 1e-9) {
		t.Errorf("mean %v, want %v", mean, z)
	}
	var want mat.Dense
	want.Mul(basis.taskDense(), mat.NewDense(d, d, inverse))
	want.Scale(0.5, &want)
	if !mat.EqualApprox(mat.NewDense(d, d, spread), &want, 1e-9) {
		t.Error("the spread is not scale·L·R⁻¹")
	}
	phi := gaussian(rand.New(rand.NewPCG(4, 4)), d)
	x := make([]float64, belief.Dim())
	l.features(x, phi, nil)
	if got, want := cfg.Expected(phi, mean, cfg.Zero(belief)), belief.Predict(x); math.Abs(got-want) > 1e-9 {
		t.Errorf("expected label %g, want %g", got, want)
	}
}

func TestBasis_JSONKeepsAllBits(t *testing.T) {
	b := testBasis(t, 5, 3)
	text, err := json.Marshal(b)
	fatal.If(t, err)
	var got Basis
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(&got, b) {
		t.Errorf("got %+v (%v), want %+v", got, err, b)
	}
	for _, bad := range []string{"", "{}", `{"mean":"AAAAAAAA8D8=","root":""}`, `{"mean":3}`,
		`{"mean":"AAAAAAAA8D8=","root":"AAAAAAAA+H8="}`,
		`{"mean":"AAAAAAAA8D8=","root":"AAAAAAAA8D8=","residuals":[[]]}`,
		strings.Replace(string(text), `"Channel":1`, `"Channel":-1`, 1),
		strings.Replace(string(text), `"Shape":2`, `"Shape":7`, 1)} {
		if err := got.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s is a basis", bad)
		}
	}
}

func TestBasis_FitsItsModelOnly(t *testing.T) {
	b := testBasis(t, 5, 3) // of two channels
	errtest.Nil(t, b.Fits(2, 5))
	if b.Fits(1, 5) == nil || b.Fits(2, 4) == nil {
		t.Error("it fits a model with fewer channels or features")
	}
}

func TestConfig_BasisHashDependsOnEveryPart(t *testing.T) {
	hash := func(change func(p *tflite.Prior)) string {
		p := testPrior(4, 2)
		change(p)
		b, err := NewBasis(p)
		fatal.If(t, err)
		return Config{Prior: TaskPrior, Basis: b}.BasisHash()
	}
	same := hash(func(*tflite.Prior) {})
	for name, change := range map[string]func(p *tflite.Prior){
		"mean":          func(p *tflite.Prior) { p.Mean[1]++ },
		"moment":        func(p *tflite.Prior) { p.Moment[0]++ },
		"residual mean": func(p *tflite.Prior) { p.Residuals.Mean[1]++ },
		"residual fit":  func(p *tflite.Prior) { p.Residuals.Fit[3]++ },
		"slope":         func(p *tflite.Prior) { p.Residuals.Terms[0][0].Slope++ },
	} {
		if hash(change) == same {
			t.Errorf("another %s has the same hash", name)
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
		_, err := NewBasis(&tflite.Prior{Mean: c.mean, Moment: c.moment})
		if err == nil || !strings.Contains(err.Error(), "task prior") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
