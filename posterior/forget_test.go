package posterior

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestForget_KeepsThePriorInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim := rapid.IntRange(1, 24).Draw(t, "dim")
		least := 0.01
		if dim > 1 {
			least = math.Pow(0.5001, 1/float64(dim-1))
		}
		rho := rapid.Float64Range(least, 1).Draw(t, "rho")
		lambda := rapid.Float64Range(1e-6, 1e6).Draw(t, "lambda")
		b, err := New(dim, lambda, rho)
		if err != nil {
			t.Fatal(err)
		}
		lowest := lambda
		for range dim - 1 {
			lowest *= rho
		}
		d := make([]float64, dim)
		b.Prior(d)
		for range rapid.IntRange(0, 5*dim).Draw(t, "ticks") {
			b.Forget()
			b.Prior(d)
			for i, v := range d {
				if v < lowest || v > lambda {
					t.Fatalf("D[%d] = %g is not in [%g, %g]", i, v, lowest, lambda)
				}
			}
		}
		// Without labels V is D.
		v := dense(b)
		for i := range dim {
			if math.Abs(v.At(i, i)-d[i]) > 1e-13*d[i] {
				t.Fatalf("V[%d][%d] = %g is not D = %g", i, i, v.At(i, i), d[i])
			}
		}
	})
}

func TestBelief_AnySequenceMatchesTheTextbook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim := rapid.IntRange(1, 12).Draw(t, "dim")
		const lambda, rho = 0.8, 0.97
		b, err := New(dim, lambda, rho)
		if err != nil {
			t.Fatal(err)
		}
		type label struct {
			phi            []float64
			reward, weight float64
		}
		var labels []label
		seed := splitMix(rapid.Uint64().Draw(t, "seed"))
		ref := newReference(dim, lambda)
		for _, op := range rapid.SliceOfN(rapid.IntRange(0, 3), 0, 80).Draw(t, "ops") {
			switch {
			case op == 0:
				b.Forget()
				ref.forget(lambda, rho)
				for i := range labels {
					labels[i].weight *= rho
				}
			case op == 1 && len(labels) > 0:
				l := labels[0]
				labels = labels[1:]
				if err := b.Downdate(l.phi, l.reward, l.weight); err != nil {
					t.Fatal(err)
				}
				ref.add(l.phi, l.reward, -l.weight)
			default:
				l := label{make([]float64, dim), seed.float(), seed.weight()}
				seed.fill(l.phi)
				labels = append(labels, l)
				if err := b.Update(l.phi, l.reward, l.weight); err != nil {
					t.Fatal(err)
				}
				ref.add(l.phi, l.reward, l.weight)
			}
		}
		if e := relative(dense(b), ref.v); e > 1e-12 {
			t.Fatalf("V is off by %g", e)
		}
	})
}

func TestForget_ExactRestoreKeepsTheWholePrior(t *testing.T) {
	const dim, lambda, rho = 10, 2.0, 0.7
	b, ref := mustNew(t, dim, lambda, rho, WithExactRestore()), newReference(dim, lambda)
	seed := splitMix(9)
	phi := make([]float64, dim)
	for range 100 {
		seed.fill(phi)
		must(t, b.Update(phi, 1, 1))
		ref.add(phi, 1, 1)
		b.Forget()
		ref.v.ScaleSym(rho, ref.v)
		ref.b.ScaleVec(rho, ref.b)
		for i := range dim {
			ref.v.SetSym(i, i, ref.v.At(i, i)+lambda*(1-rho))
		}
	}
	ref.compare(t, b, 1e-13)
	for _, v := range b.prior {
		if v != lambda {
			t.Fatalf("D has %g, not λ", v)
		}
	}
}

func TestForget_ChangesNothingAtRhoOne(t *testing.T) {
	b := mustNew(t, 3, 1, 1)
	must(t, b.Update([]float64{1, 2, 3}, 1, 1))
	before := stateOf(b)
	b.Forget()
	if !sameBits(before, stateOf(b)) {
		t.Fatal("the belief changed")
	}
}

// A decaying prior would be 1e-78 here, and 0 in float32.
func TestForget_DoesNotUnderflowInAnHourAt50Hz(t *testing.T) {
	const dim = 50
	b := mustNew(t, dim, 1, 0.999)
	seed := splitMix(1)
	phi := make([]float64, dim)
	for range 100 {
		seed.fill(phi)
		must(t, b.Update(phi, 1, 1))
	}
	ticks := 50 * 3600
	if testing.Short() {
		ticks /= 10
	}
	for range ticks {
		b.Forget()
	}
	lowest := math.Sqrt(b.floor) * (1 - 1e-12)
	// A tenth of an hour leaves 1e-8 of the labels.
	for k := range dim {
		if v := b.r[rowStart(dim, k)]; v < lowest || v > 1+1e-6 {
			t.Fatalf("R[%d][%d] = %g has left [%g, 1]", k, k, v, lowest)
		}
	}
	must(t, b.check(stateOf(b)))
}

func TestForget_DecaysToZeroNotSubnormal(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithExactRestore()}} {
		const dim = 6
		b := mustNew(t, dim, 1, 0.9, opts...)
		must(t, b.Update([]float64{1, 2, 3, 4, 5, 6}, 1, 1))
		for range 8000 {
			b.Forget()
			for i, v := range b.state {
				if v != 0 && math.Abs(v) < 0x1p-1022 {
					t.Fatalf("entry %d of the state is subnormal (%g)", i, v)
				}
			}
		}
		if b.Weight() != 0 || b.b[dim-1] != 0 || b.r[1] != 0 {
			t.Fatal("the label remains")
		}
	}
}

func TestBelief_DiscountKeepsTheMean(t *testing.T) {
	b, err := New(3, 1, 1)
	must(t, err)
	for i := range 9 {
		x := float64(i)
		must(t, b.Update([]float64{1, math.Sin(x), math.Cos(3 * x)}, x, 2))
	}
	phi := []float64{1, -2, 0.5}
	mean, spread := b.Predict(phi), b.NormSq(phi)
	b.Discount(0.25)
	if got := b.Predict(phi); math.Abs(got-mean) > 1e-12*math.Abs(mean) {
		t.Errorf("predicts %g, want %g", got, mean)
	}
	if got := b.NormSq(phi); math.Abs(got-4*spread) > 1e-12*spread {
		t.Errorf("the variance is %g, want %g", got, 4*spread)
	}
}

func TestBelief_RestartHasThePriorOfSetPrior(t *testing.T) {
	b, err := New(3, 1, 1, WithMovablePrior())
	must(t, err)
	must(t, b.Update([]float64{1, 2, 3}, 1, 1))
	b.SetPrior(0.04)
	b.Restart()
	if got := b.NormSq([]float64{1, 0, 0}); math.Abs(got-25) > 1e-12 || b.Weight() != 0 {
		t.Errorf("‖e‖² is %g, weight %g: want 25 and 0", got, b.Weight())
	}
	if b.Reset(); b.NormSq([]float64{1, 0, 0}) != 1 {
		t.Error("Reset does not restore λ")
	}
}
