package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// mish64 is Mish in float64.
func mish64(x float64) float64 {
	if x > 30 {
		return x
	}
	return x * math.Tanh(math.Log1p(math.Exp(x)))
}

func TestMish_IsAccurate(t *testing.T) {
	worst := 0.0
	x := NewRows(1, 16)
	for i := -80_000; i < 40_000; i++ {
		v := float32(i) / 1000
		for k := range 16 {
			x.Data[k] = v
		}
		Mish(x, 1, 16)
		got, want := float64(x.Data[i&15]), mish64(float64(v))
		if want != 0 {
			worst = max(worst, math.Abs(got-want)/math.Abs(want))
		}
	}
	t.Logf("largest relative error %.2g", worst)
	if worst > 5e-7 {
		t.Errorf("largest relative error %g, want at most 5e-7", worst)
	}
}

func TestMish_OfSpecialNumbers(t *testing.T) {
	x, nan := NewRows(1, 16), float32(math.NaN())
	copy(x.Data, []float32{0, 1e30, -1e30, float32(math.Inf(1)), nan, 1e-40})
	Mish(x, 1, 16)
	if x.Data[0] != 0 || x.Data[1] != 1e30 || math.Abs(float64(x.Data[2])) > 1e-3 || isFinite(x.Data[3]) ||
		isFinite(x.Data[4]) || math.Abs(float64(x.Data[5])) > 1e-40 {
		t.Errorf("got %v", x.Data[:6])
	}
}

func isFinite(x float32) bool { return x-x == 0 }

func TestMish_SlopeAgreesWithDifferences(t *testing.T) {
	for i := -300; i < 300; i++ {
		x := float64(i) / 20
		want := (mish64(x+1e-5) - mish64(x-1e-5)) / 2e-5
		if got := MishSlope(x); math.Abs(got-want) > 1e-8 {
			t.Errorf("at %g: %g, want %g", x, got, want)
		}
	}
}

// A folded LayerNorm of split inputs equals LayerNorm and product one after the other.
func TestFolded_AgreesWithLayerNormAndProduct(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for _, in := range []int{2, 5, 16, 33, 70} {
		const out = 19
		normals := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			return x
		}
		norm := NewLayerNorm(normals(in), normals(in), 1e-5)
		w, bias := normals(out*in), normals(out)
		x := NewRows(2, in)
		copy(x.Row(0, in), normals(in))
		copy(x.Row(1, in), normals(in))
		normed, want, start := NewRows(2, in), NewRows(2, out), Aligned(out)
		copy(start, bias)
		norm.Apply(normed, x, 2)
		Pack(w, out, in, in).Multiply(want, normed, Repeated(start), 2, false, false, nil)

		split := in / 2
		folded := norm.Fold(w, slices.Clone(bias), false)
		got := NewRows(2, out)
		Pack(w, out, split, in).Multiply(got, x, Repeated(Aligned(out)), 2, false, false, nil)
		Pack(w[split:], out, in-split, in).Multiply(got, Rows{x.Data[split:], x.Stride}, got, 2, false, false, nil)
		for r := range 2 {
			row := x.Row(r, in)
			folded.Finish(got.Row(r, out), SumsOf(row[:split]).Plus(SumsOf(row[split:])))
			checkClose(t, "folded", got.Row(r, out), want.Row(r, out), 4*in)
		}
	}
}

// Sums of weights before rounding would multiply the error of the rounding by the mean of the
// inputs.
func TestFolded_Float16DoesNotDependOnTheMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	const in, out = 64, 16
	w, gain := weightsOf(rng, out, in), weightsOf(rng, 1, in)
	folded := NewLayerNorm(gain, make([]float32, in), 1e-5).Fold(w, make([]float32, out), true)
	m, scratch := PackHalf(w, out, in, in), NewScratch(1, in, nil)
	result := func(mean float32) []float32 {
		x, y := NewRows(1, in), NewRows(1, out)
		for i := range in {
			x.Data[i] = mean + float32(i%7)
		}
		m.Multiply(y, x, Repeated(Aligned(out)), 1, false, false, scratch)
		folded.Finish(y.Row(0, out), SumsOf(x.Row(0, in)))
		return y.Row(0, out)
	}
	for i, want := range result(0) {
		if got := result(100)[i]; math.Abs(float64(got-want)) > 1e-3 {
			t.Errorf("output %d is %g with the mean 100, %g with 0", i, got, want)
		}
	}
}

// The assembly agrees with the Go code, and writes nothing beyond its rows.
func TestBlock_AssemblyAgreesWithPortable(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for width := 16; width <= 80; width += 16 {
		gain, _ := guarded(rng, width)
		bias, _ := guarded(rng, width)
		for what, call := range map[string]struct{ fast, portable func(x []float32) }{
			"norm": {
				func(x []float32) { normRow(x, x, gain, bias, 0.25, 1.5) },
				func(x []float32) { portableNorm(x, x, gain, bias, 0.25, 1.5) },
			},
			"finish": {
				func(x []float32) { finishRow(x, gain, bias, 0.25, 1.5) },
				func(x []float32) { portableFinish(x, gain, bias, 0.25, 1.5) },
			},
			"mish": {mishRow, portableMish},
		} {
			x, whole := guarded(rng, width)
			want := slices.Clone(x)
			call.fast(x)
			call.portable(want)
			checkClose(t, what, x, want, 1)
			checkGuards(t, whole, width)
		}
	}
}
