package posterior

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// weighted is textbook least squares, which keeps every label.
type weighted struct {
	v *mat.SymDense
	b *mat.VecDense
}

func newWeighted(d int, lambda float64) *weighted {
	w := &weighted{mat.NewSymDense(d, nil), mat.NewVecDense(d, nil)}
	for i := range d {
		w.v.SetSym(i, i, lambda)
	}
	return w
}

func (w *weighted) add(phi []float64, reward, weight float64) {
	x := mat.NewVecDense(len(phi), phi)
	w.v.SymRankOne(w.v, weight, x)
	w.b.AddScaledVec(w.b, weight*reward, x)
}

func (w *weighted) solve(t *testing.T, b mat.Vector) *mat.VecDense {
	t.Helper()
	var x mat.VecDense
	if err := x.SolveVec(w.v, b); err != nil {
		t.Fatal(err)
	}
	return &x
}

// surprise solves the system for each label.
func (w *weighted) surprise(t *testing.T, phi []float64, reward, weight float64) float64 {
	t.Helper()
	x := mat.NewVecDense(len(phi), phi)
	return (reward - mat.Dot(x, w.solve(t, w.b))) / math.Sqrt(1+weight*mat.Dot(x, w.solve(t, x)))
}

func TestTrust_GivesHuberWeightedLeastSquares(t *testing.T) {
	const limit = 0.5
	for _, d := range []int{1, 3, 16, 50} {
		for _, full := range []float64{1, 100} {
			rng := rand.New(rand.NewPCG(uint64(d), 7))
			belief, err := New(d, 0.7, 1)
			if err != nil {
				t.Fatal(err)
			}
			want := newWeighted(d, 0.7)
			reduced := 0
			for range 300 {
				phi := vector(rng, d)
				reward := rng.NormFloat64()
				u := want.surprise(t, phi, reward, full)
				weight := full * min(1, limit/math.Abs(u))
				if got := belief.Surprise(phi, reward, full); !(math.Abs(got-u) <= 1e-9*(1+math.Abs(u))) {
					t.Fatalf("d %d: a surprise of %g, want %g", d, got, u)
				}
				trust := Trust(belief.Surprise(phi, reward, full), limit)
				if trust < 1 {
					reduced++
				}
				if err := belief.Update(phi, reward, full*trust); err != nil {
					t.Fatal(err)
				}
				want.add(phi, reward, weight)
			}
			mean := make([]float64, d)
			belief.Mean(mean)
			z := want.solve(t, want.b)
			for i := range mean {
				if !(math.Abs(mean[i]-z.AtVec(i)) <= 1e-9*(1+mat.Norm(z, 2))) {
					t.Fatalf("d %d: element %d of the mean is %g, want %g", d, i, mean[i], z.AtVec(i))
				}
			}
			if reduced < 50 || reduced > 290 {
				t.Errorf("d %d: %d of 300 labels were reduced: the test shows little", d, reduced)
			}
		}
	}
}

func vector(rng *rand.Rand, d int) []float64 {
	x := make([]float64, d)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

func TestSurprise_HasTheVarianceOfTheNoise(t *testing.T) {
	const d, noise, runs = 8, 0.3, 4000
	rng := rand.New(rand.NewPCG(11, 12))
	var early, late float64
	for range runs {
		belief, err := New(d, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		truth := vector(rng, d)
		for i := range truth {
			truth[i] *= noise // the prior's spread for λ = 1
		}
		for k := range 30 {
			phi := vector(rng, d)
			reward := dot(phi, truth) + noise*rng.NormFloat64()
			u := belief.Surprise(phi, reward, 1)
			switch k {
			case 0:
				early += u * u
			case 29:
				late += u * u
			}
			if err := belief.Update(phi, reward, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, sum := range map[string]float64{"first": early, "last": late} {
		// Of 4,000 squares of a normal number, the mean is within 0.1 in more than 4 of its standard deviations.
		if got := sum / runs / (noise * noise); math.Abs(got-1) > 0.1 {
			t.Errorf("%s labels: the mean square is %.3f of the noise's", name, got)
		}
	}
}

func TestTrust_IsOneUpToTheLimitAndNeverZero(t *testing.T) {
	for _, c := range []struct{ surprise, limit, want float64 }{
		{0, 0.5, 1}, {0.5, 0.5, 1}, {-0.5, 0.5, 1}, {1, 0.5, 0.5}, {-2, 0.5, 0.25},
		{1e9, 0.5, 0.5e-9}, {1e300, 0.5, leastTrust},
		{math.Inf(1), 0.5, leastTrust}, {math.Inf(-1), 0.5, leastTrust}, {math.NaN(), 0.5, leastTrust},
	} {
		if got := Trust(c.surprise, c.limit); got != c.want {
			t.Errorf("Trust(%g, %g) = %g, want %g", c.surprise, c.limit, got, c.want)
		}
	}
}

func TestTrust_BoundsTheMoveOfTheMean(t *testing.T) {
	const d, limit = 6, 0.3
	rng := rand.New(rand.NewPCG(5, 6))
	belief, err := New(d, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if err := belief.Update(vector(rng, d), rng.NormFloat64(), 1); err != nil {
			t.Fatal(err)
		}
	}
	phi := vector(rng, d)
	move := func(off float64) float64 {
		b := belief.Clone()
		before, after := make([]float64, d), make([]float64, d)
		b.Mean(before)
		spread := math.Sqrt(1 + b.NormSq(phi))
		reward := dot(phi, before) + off*spread
		if err := b.Update(phi, reward, Trust(b.Surprise(phi, reward, 1), limit)); err != nil {
			t.Fatal(err)
		}
		b.Mean(after)
		for i := range after {
			after[i] -= before[i]
		}
		return math.Sqrt(dot(after, after))
	}
	// A weight w moves ẑ by w·off/(1+w‖φ‖²), and the force w·off is capped: the
	// move can grow only by what the smaller weight takes from the denominator.
	most := move(limit) * (1 + belief.NormSq(phi))
	for _, off := range []float64{1, 10, 1e3, 1e6} {
		if got := move(off); !(got <= most*1.000001) {
			t.Errorf("a label that is off by %g moves the mean by %g, more than %g", off, got, most)
		}
	}
}

func TestSurprise_DoesNotAllocate(t *testing.T) {
	belief, err := New(50, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	phi := vector(rand.New(rand.NewPCG(1, 1)), 50)
	n := testing.AllocsPerRun(100, func() {
		if err := belief.Update(phi, 1, Trust(belief.Surprise(phi, 1, 1), 0.2)); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a label", n)
	}
}

func BenchmarkRobustUpdate(b *testing.B) {
	belief, err := New(50, 1, 1)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	phi := make([][]float64, 64)
	for i := range phi {
		phi[i] = vector(rng, 50)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		x := phi[i%len(phi)]
		i++
		if err := belief.Update(x, float64(i%3)-1, Trust(belief.Surprise(x, float64(i%3)-1, 1), 0.2)); err != nil {
			b.Fatal(err)
		}
	}
}
