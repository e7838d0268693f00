package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/x448/float16"
)

// guard surrounds the memory of a test: a write changes it, a read gives NaN.
var guard = float32(math.NaN())

// guarded returns n random numbers, and the same slice with guards around it.
func guarded(rng *rand.Rand, n int) (x, whole []float32) {
	const edge = 24
	whole = make([]float32, n+2*edge)
	for i := range whole {
		whole[i] = guard
	}
	x = whole[edge : edge+n : edge+n]
	for i := range x {
		if x[i] = float32(rng.NormFloat64()); rng.IntN(3) == 0 {
			x[i] = 0
		}
	}
	return x, whole
}

// sameBits compares, guards included.
func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

func checkClose(t *testing.T, what string, got, want []float32, terms int) {
	t.Helper()
	for i, w := range want {
		if !(math.Abs(float64(got[i]-w)) <= 2e-6*(math.Sqrt(float64(terms))+math.Abs(float64(w)))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], w)
		}
	}
}

// reference is start + x·wᵀ in float64.
func reference(w []float32, out, in, stride int, x, start Rows, n int, relu bool) []float32 {
	var y []float32
	for r := range n {
		for o := range out {
			sum := float64(start.Data[r*start.Stride+o])
			for k := range in {
				sum += float64(w[o*stride+k]) * float64(x.Data[r*x.Stride+k])
			}
			if relu {
				sum = max(sum, 0)
			}
			y = append(y, float32(sum))
		}
	}
	return y
}

func TestMultiply_AgreesWithBruteForce(t *testing.T) {
	rng, products := rand.New(rand.NewPCG(1, 1)), 3000
	if testing.Short() {
		products = 500
	}
	for range products {
		n, in, out := 1+rng.IntN(20), 1+rng.IntN(70), 1+rng.IntN(70)
		if rng.IntN(20) == 0 {
			in += inputBlock * rng.IntN(3)
		}
		checkMultiply(t, rng, n, in, out)
	}
	for size := 1; size <= 70; size++ {
		checkMultiply(t, rng, 1+size%7, size, size)
	}
}

func checkMultiply(t *testing.T, rng *rand.Rand, n, in, out int) {
	t.Helper()
	stride := in + rng.IntN(3)
	w, _ := guarded(rng, out*stride)
	pack := Pack
	if rng.IntN(3) == 0 {
		pack = PackHalf
		for i, v := range w {
			w[i] = float16.Fromfloat32(v).Float32()
		}
	}
	m := pack(w, out, in, stride)
	xStride, yStride := in+rng.IntN(5), Padded(out)+rng.IntN(5)
	xs, xWhole := guarded(rng, (n-1)*xStride+in)
	ys, yWhole := guarded(rng, (n-1)*yStride+Padded(out))
	x, y := Rows{xs, xStride}, Rows{ys, yStride}
	start := Repeated(Aligned(out))
	copy(start.Data, w)
	if rng.IntN(2) == 0 {
		start = y
	}
	relu := rng.IntN(2) == 0
	want := reference(w, out, in, stride, x, Rows{slices.Clone(start.Data), start.Stride}, n, relu)
	xBefore, yBefore := slices.Clone(xWhole), slices.Clone(yWhole)
	what := fmt.Sprintf("%d rows of [%d, %d]", n, out, in)
	var first []float32
	for _, sparse := range []bool{false, true} {
		copy(yWhole, yBefore)
		m.Multiply(y, x, start, n, relu, sparse, NewScratch(n, in, nil))
		for r := range n {
			checkClose(t, what, y.Row(r, out), want[r*out:][:out], in)
		}
		edge := (len(yWhole) - len(ys)) / 2
		after := edge + len(ys)
		if !sameBits(xWhole, xBefore) || !sameBits(yWhole[:edge], yBefore[:edge]) ||
			!sameBits(yWhole[after:], yBefore[after:]) {
			t.Fatalf("%s: write outside of the result", what)
		}
		for r := range n {
			gap := r*yStride + Padded(out)
			if stop := min((r+1)*yStride, len(ys)); gap < stop && !sameBits(ys[gap:stop], yBefore[edge+gap:edge+stop]) {
				t.Fatalf("%s: write between the rows", what)
			}
		}
		if first == nil {
			first = slices.Clone(ys)
		}
		for r := range n {
			if !slices.Equal(y.Row(r, out), first[r*yStride:][:out]) {
				t.Fatalf("%s: skipping zeros changes row %d", what, r)
			}
		}
	}
}

func TestMultiply_RowGetsTheSameBitsAloneAndAmongOthers(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, in := range []int{1, 7, 255, 256, 257, 600} {
		for _, n := range []int{2, 5, 6, 7, 13, 128} {
			const out = 75
			w, _ := guarded(rng, out*in)
			scratch := NewScratch(n, in, nil)
			x, y, one := NewRows(n, in), NewRows(n, out), NewRows(1, out)
			for r := range n {
				row, _ := guarded(rng, in)
				copy(x.Row(r, in), row)
			}
			start := Repeated(Aligned(out))
			for _, m := range []*Matrix{Pack(w, out, in, in), PackHalf(w, out, in, in)} {
				for _, sparse := range []bool{false, true} {
					m.Multiply(y, x, start, n, false, sparse, scratch)
					for r := range n {
						m.Multiply(one, x.From(r), start, 1, false, sparse, scratch)
						if !slices.Equal(one.Row(0, out), y.Row(r, out)) {
							t.Fatalf("%d rows, %d inputs: row %d differs alone", n, in, r)
						}
					}
				}
			}
		}
	}
}

func TestTile_AgreesWithPortable(t *testing.T) {
	tile := func(x []float32) Rows { return Rows{x, panelWidth} }
	rng := rand.New(rand.NewPCG(3, 3))
	for k := 1; k <= 70; k++ {
		for rows := 1; rows <= tileRows; rows++ {
			x, _ := guarded(rng, (rows-1)*(k+1)+k)
			w, _ := guarded(rng, k*panelWidth)
			start, _ := guarded(rng, rows*panelWidth)
			floor := float32(math.Inf(-1))
			if k%2 == 0 {
				floor = 0
			}
			got, gotWhole := guarded(rng, rows*panelWidth)
			want := make([]float32, len(got))
			list, reference := make([]uint32, k), make([]uint32, k)
			n := active(rows, list, x, k+1, k)
			if m := portableActive(rows, reference, x, k+1, k); n != m || !slices.Equal(list[:n], reference[:m]) {
				t.Fatalf("k %d, %d rows: active inputs %v, want %v", k, rows, list[:n], reference[:m])
			}
			for _, sparse := range []bool{false, true} {
				if sparse {
					sparseTile(rows, tile(got), Rows{x, k + 1}, w, list[:n], tile(start), floor)
					portableSparse(rows, tile(want), Rows{x, k + 1}, w, list[:n], tile(start), floor)
				} else {
					denseTile(rows, tile(got), Rows{x, k + 1}, w, k, tile(start), floor)
					portableDense(rows, tile(want), Rows{x, k + 1}, w, k, tile(start), floor)
				}
				checkClose(t, fmt.Sprintf("k %d, %d rows, sparse %v", k, rows, sparse), got, want, k)
				checkGuards(t, gotWhole, len(got))
			}
		}
		for panels := 1; panels <= groupPanels; panels++ {
			x, _ := guarded(rng, k)
			w, _ := guarded(rng, panels*k*panelWidth)
			start, _ := guarded(rng, panels*panelWidth)
			got, gotWhole := guarded(rng, panels*panelWidth)
			want := make([]float32, len(got))
			list := make([]uint32, k)
			list = list[:active(1, list, x, 0, k)]
			vectorTile(panels, got, x, w, k*panelWidth, k, start, 0)
			portableVector(panels, want, x, w, k*panelWidth, k, start, 0)
			checkClose(t, fmt.Sprintf("k %d, %d panels", k, panels), got, want, k)
			sparseVectorTile(panels, got, x, w, k*panelWidth, list, start, 0)
			portableSparseVector(panels, want, x, w, k*panelWidth, list, start, 0)
			checkClose(t, fmt.Sprintf("k %d, %d panels, sparse", k, panels), got, want, k)
			checkGuards(t, gotWhole, len(got))
		}
	}
}

// TestGroup_AgreesWithTiles compares the tiles of AVX-512 with those of a panel: to the bit.
func TestGroup_AgreesWithTiles(t *testing.T) {
	if !wide {
		t.Skip("this processor has no AVX-512")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for k := 1; k <= 70; k++ {
		for rows := 2; rows <= tileRows; rows++ {
			stride := k*panelWidth + 3
			x, _ := guarded(rng, (rows-1)*(k+1)+k)
			w, _ := guarded(rng, (groupPanels-1)*stride+k*panelWidth)
			start, _ := guarded(rng, rows*groupWidth)
			got, gotWhole := guarded(rng, rows*(groupWidth+1)-1)
			floor, want := float32(math.Inf(-1)), slices.Clone(got)
			if k%2 == 0 {
				floor = 0
			}
			list := make([]uint32, k)
			list = list[:active(rows, list, x, k+1, k)]
			for _, sparse := range []bool{false, true} {
				to, from, sums := Rows{got, groupWidth + 1}, Rows{x, k + 1}, Rows{start, groupWidth}
				if sparse {
					sparseGroup(rows, to, from, w, stride, list, sums, floor)
				} else {
					denseGroup(rows, to, from, w, stride, k, sums, floor)
				}
				for p := range groupPanels {
					to, sums := Rows{want, groupWidth + 1}.at(0, p*panelWidth), sums.at(0, p*panelWidth)
					if sparse {
						sparseTile(rows, to, from, w[p*stride:], list, sums, floor)
					} else {
						denseTile(rows, to, from, w[p*stride:], k, sums, floor)
					}
				}
				if !sameBits(got, want) {
					t.Fatalf("k %d, %d rows, sparse %v: %v, want %v", k, rows, sparse, got, want)
				}
				checkGuards(t, gotWhole, len(got))
			}
		}
	}
}

func checkGuards(t *testing.T, whole []float32, n int) {
	t.Helper()
	edge := (len(whole) - n) / 2
	for _, v := range append(slices.Clone(whole[:edge]), whole[edge+n:]...) {
		if !math.IsNaN(float64(v)) {
			t.Fatal("write outside of the result")
		}
	}
}

func TestTanh_IsAccurateOddAndBounded(t *testing.T) {
	x := NewRows(1, 16)
	worst, step := 0.0, uint32(16*97)
	if testing.Short() {
		step *= 50
	}
	for bits := uint32(1); bits < 0x7f800000; bits += step {
		for i := range 16 {
			x.Data[i] = math.Float32frombits(min(bits+uint32(i)*97, 0x7f7fffff))
		}
		in := slices.Clone(x.Data[:16])
		Tanh(x, 1, 16)
		for i, v := range in {
			got, want := float64(x.Data[i]), math.Tanh(float64(v))
			worst = max(worst, math.Abs(got-want)/want)
			portable := tanh32(v)
			if !(got <= 1) || -tanh32(-v) != portable || math.Abs(float64(portable)-got) > 8e-7*want {
				t.Fatalf("tanh %v is %v, the portable one %v", v, got, portable)
			}
			if math.Abs(got-want) > 5e-7*want+1e-45 {
				t.Fatalf("tanh %v is %v, want %v", v, got, want)
			}
		}
	}
	t.Logf("largest relative error %.2g", worst)
}

func TestLayerNorm_AgreesWithFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for width := 1; width <= 70; width++ {
		gain, _ := guarded(rng, width)
		bias, _ := guarded(rng, width)
		x := NewRows(3, width)
		var want []float32
		for r := range 3 {
			row, _ := guarded(rng, width)
			copy(x.Row(r, width), row)
			mean, variance := 0.0, 0.0
			for _, v := range row {
				mean += float64(v) / float64(width)
			}
			for _, v := range row {
				variance += (float64(v) - mean) * (float64(v) - mean) / float64(width)
			}
			for k, v := range row {
				y := (float64(v)-mean)/math.Sqrt(variance+1e-5)*float64(gain[k]) + float64(bias[k])
				want = append(want, float32(math.Tanh(y)))
			}
		}
		NewLayerNorm(gain, bias, 1e-5).Tanh(x, 3)
		for r := range 3 {
			checkClose(t, fmt.Sprint("width ", width), x.Row(r, width), want[r*width:][:width], 100)
		}
	}
}

func TestMultiply_ShortSlicePanics(t *testing.T) {
	m := Pack(make([]float32, 6), 2, 3, 3)
	good := NewRows(2, 3)
	for what, call := range map[string]func(){
		"x":     func() { m.Multiply(good, Rows{make([]float32, 5), 3}, good, 2, false, false, nil) },
		"dst":   func() { m.Multiply(Rows{make([]float32, 2), 2}, good, good, 2, false, false, nil) },
		"start": func() { m.Multiply(good, good, Rows{make([]float32, 2), 0}, 2, false, false, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			call()
		}()
	}
}

func TestMultiply_DoesNotAllocate(t *testing.T) {
	w := make([]float32, 40*300)
	m, half, scratch := Pack(w, 40, 300, 300), PackHalf(w, 40, 300, 300), NewScratch(9, 300, nil)
	x, y, start := NewRows(9, 300), NewRows(9, 40), Repeated(Aligned(40))
	if allocs := testing.AllocsPerRun(10, func() {
		m.Multiply(y, x, start, 9, true, true, scratch)
		m.Multiply(y, x, start, 1, true, false, nil)
		half.Multiply(y, x, start, 9, true, true, scratch)
		half.Multiply(y, x, start, 1, true, false, scratch)
	}); allocs != 0 {
		t.Errorf("%g allocations", allocs)
	}
}

func TestWiden_ConvertsEveryFloat16(t *testing.T) {
	all := make([]float16.Float16, 1<<16)
	for i := range all {
		all[i] = float16.Frombits(uint16(i))
	}
	got := make([]float32, len(all))
	widen(got, all)
	for i, v := range all {
		if want := v.Float32(); got[i] != want && (got[i] == got[i] || want == want) {
			t.Errorf("%#04x is %g, want %g", i, got[i], want)
		}
	}
}

// bits returns the numbers' bits, with +0 for -0.
func bits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		if v != 0 {
			b[i] = math.Float32bits(v)
		}
	}
	return b
}
