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
	must(t, x.SolveVec(w.v, b))
	return &x
}

// surprise solves the system for each label.
func (w *weighted) surprise(t *testing.T, phi []float64, reward, weight float64) float64 {
	t.Helper()
	x := mat.NewVecDense(len(phi), phi)
	return (reward - mat.Dot(x, w.solve(t, w.b))) / math.Sqrt(1+weight*mat.Dot(x, w.solve(t, x)))
}

func TestSurprise_IsTheRecursiveResidual(t *testing.T) {
	for _, d := range []int{1, 3, 16, 50} {
		for _, weight := range []float64{1, 100} {
			rng := rand.New(rand.NewPCG(uint64(d), 7))
			belief, err := New(d, 0.7, 1)
			must(t, err)
			want := newWeighted(d, 0.7)
			for range 300 {
				phi, reward := vector(rng, d), rng.NormFloat64()
				u := want.surprise(t, phi, reward, weight)
				if got := belief.Surprise(phi, reward, weight); !(math.Abs(got-u) <= 1e-9*(1+math.Abs(u))) {
					t.Fatalf("d %d: a surprise of %g, want %g", d, got, u)
				}
				must(t, belief.Update(phi, reward, weight))
				want.add(phi, reward, weight)
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
		must(t, err)
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
			must(t, belief.Update(phi, reward, 1))
		}
	}
	for name, sum := range map[string]float64{"first": early, "last": late} {
		// Of 4,000 squares of a normal number, the mean is within 0.1 in more than 4 of its
		// standard deviations.
		if got := sum / runs / (noise * noise); math.Abs(got-1) > 0.1 {
			t.Errorf("%s labels: the mean square is %.3f of the noise's", name, got)
		}
	}
}

func TestSurprise_DoesNotAllocate(t *testing.T) {
	belief, err := New(50, 1, 1)
	must(t, err)
	phi := vector(rand.New(rand.NewPCG(1, 1)), 50)
	n := testing.AllocsPerRun(100, func() { belief.Surprise(phi, 1, 1) })
	if n != 0 {
		t.Errorf("%v allocations a label", n)
	}
}
