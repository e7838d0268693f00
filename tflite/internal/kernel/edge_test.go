package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sameNumber reports whether both are NaN, or equal within the error of a sum of terms.
func sameNumber(got, want float32, terms int) bool {
	if want != want || got != got {
		return want != want && got != got
	}
	return got == want || math.Abs(float64(got-want)) <= 2e-6*(math.Sqrt(float64(terms))+math.Abs(float64(want)))
}

// eachWay multiplies n rows, all inputs and those that are not 0, and calls check with the result.
func eachWay(m *Matrix, x, start Rows, n int, relu bool, check func(way string, y Rows)) {
	for way, sparse := range map[string]bool{"all inputs": false, "listed inputs": true} {
		y := NewRows(n, m.Out())
		m.Multiply(y, x, start, n, relu, sparse, NewScratch(n, m.In(), nil))
		check(fmt.Sprintf("%d rows of [%d, %d], relu %v, %s", n, m.Out(), m.In(), relu, way), y)
	}
}

func TestMultiply_NaNAndInfinityStayInTheirRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	const out = 37
	inf := math.Inf(1)
	for n := 1; n <= 13; n++ {
		for _, in := range []int{1, 3, 4, 5, 8, 17, 259} {
			w, _ := guarded(rng, out*in) // a third of the weights are 0: Inf·0 is NaN
			m, start := Pack(w, out, in, in), Repeated(Aligned(out))
			for _, special := range []float64{math.NaN(), inf, -inf} {
				x := NewRows(n, in)
				for r := range n {
					row, _ := guarded(rng, in)
					copy(x.Row(r, in), row)
				}
				x.Row(rng.IntN(n), in)[rng.IntN(in)] = float32(special)
				for _, relu := range []bool{false, true} {
					want := reference(w, out, in, in, x, start, n, relu)
					eachWay(m, x, start, n, relu, func(what string, y Rows) {
						for i, v := range want {
							if got := y.Row(i/out, out)[i%out]; !sameNumber(got, v, in) {
								t.Fatalf("%s with %g: output %d of row %d is %g, want %g",
									what, special, i%out, i/out, got, v)
							}
						}
					})
				}
			}
		}
	}
}

func TestMultiply_ZeroInputsGiveTheStart(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	negative := float32(math.Copysign(0, -1))
	for n := 1; n <= 13; n++ {
		for _, in := range []int{1, 6, 16, 300} {
			const out = 50
			w, _ := guarded(rng, out*in)
			m, start, x := Pack(w, out, in, in), Repeated(Aligned(out)), NewRows(n, in)
			copy(start.Data, w[:min(out, len(w))])
			for i := range x.Data {
				if i%3 == 0 {
					x.Data[i] = negative
				}
			}
			eachWay(m, x, start, n, false, func(what string, y Rows) {
				for r := range n {
					if !slices.Equal(y.Row(r, out), start.Data[:out]) {
						t.Fatalf("%s: row %d is %v, want %v", what, r, y.Row(r, out), start.Data[:out])
					}
				}
			})
		}
	}
}

// Processors have a mode in which denormals are 0.
func TestMultiply_KeepsDenormals(t *testing.T) {
	const out, in, tiny = 33, 21, 3 * math.SmallestNonzeroFloat32
	w := make([]float32, out*in)
	for o := range out {
		w[o*in+o%in] = 2
	}
	m, start := Pack(w, out, in, in), Repeated(Aligned(out))
	for n := 1; n <= 13; n++ {
		x := NewRows(n, in)
		for r := range n {
			for k := range in {
				x.Row(r, in)[k] = tiny
			}
		}
		eachWay(m, x, start, n, true, func(what string, y Rows) {
			for r := range n {
				for o, v := range y.Row(r, out) {
					if v != 2*tiny {
						t.Fatalf("%s: output %d of row %d is %g, want %g", what, o, r, v, 2*tiny)
					}
				}
			}
		})
	}
}

func TestTanh_StaysWithinItsRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for width := 1; width <= 50; width++ {
		x, whole := guarded(rng, Padded(width))
		Tanh(Rows{x, len(x)}, 1, width)
		checkGuards(t, whole, len(x))
		gain, _ := guarded(rng, width)
		NewLayerNorm(gain, gain, 1e-5).Tanh(Rows{x, len(x)}, 1)
		checkGuards(t, whole, len(x))
		for i, v := range x[:width] {
			if !(v >= -1 && v <= 1) {
				t.Fatalf("width %d: element %d is %g", width, i, v)
			}
		}
	}
}

func TestTanh_OfSpecialNumbers(t *testing.T) {
	inf, tiny := math.Inf(1), float64(math.SmallestNonzeroFloat32)
	for place := range 16 {
		for x, want := range map[float64]float64{inf: 1, -inf: -1, tiny: tiny, -5 * tiny: -5 * tiny, 100: 1, 0: 0} {
			row := NewRows(1, 16)
			row.Data[place] = float32(x)
			Tanh(row, 1, 16)
			for i, got := range row.Data[:16] {
				if i == place && !(math.Abs(float64(got)-want) <= 5e-7*math.Abs(want)) || i != place && got != 0 {
					t.Fatalf("tanh %g in place %d: element %d is %g", x, place, i, got)
				}
			}
		}
		row := NewRows(1, 16)
		row.Data[place] = float32(math.NaN())
		Tanh(row, 1, 16)
		for i, got := range row.Data[:16] {
			if isNaN := got != got; isNaN != (i == place) {
				t.Fatalf("tanh NaN in place %d: element %d is %g", place, i, got)
			}
		}
	}
}

func TestLayerNorm_NaNStaysInItsRow(t *testing.T) {
	gain := make([]float32, 40)
	for i := range gain {
		gain[i] = 1
	}
	for place := range gain {
		x := NewRows(2, len(gain))
		x.Data[place] = float32(math.NaN())
		NewLayerNorm(gain, gain, 1e-5).Tanh(x, 2)
		for i := range gain {
			if v := x.Data[i]; v == v {
				t.Fatalf("NaN in place %d: element %d is %g", place, i, v)
			}
			if v := x.Row(1, len(gain))[i]; math.Abs(float64(v)-math.Tanh(1)) > 1e-6 {
				t.Fatalf("NaN in place %d: element %d of the next row is %g", place, i, v)
			}
		}
	}
}

func TestSum_AgreesWithPortable(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for n := 0; n <= 1040; n += panelWidth {
		x, _ := guarded(rng, n)
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*(1+math.Abs(b)) }
		if got, want := sum(x), portableSum(x); !near(got, want) {
			t.Fatalf("the sum of %d is %g, want %g", n, got, want)
		}
		if got, want := squares(x, 0.3), portableSquares(x, 0.3); !near(got, want) {
			t.Fatalf("the squares of %d are %g, want %g", n, got, want)
		}
	}
}
