package tflite

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// Every matrix product and transcendental of the networks goes through this
// file. Weights lie as [out, in]. See doc.go for the measurements behind it.

// tileOutputs is how many outputs addRows takes at once, so that their weights
// stay in the cache while the rows pass by. A multiple of the 4 that gonum's
// kernel takes at once: where a tile begins does not change a sum.
const tileOutputs = 64

// addProduct computes dst += w·x for one input. dst is [w.Rows], x [w.Cols].
func addProduct(dst []float32, w blas32.General, x []float32) {
	blas32.Gemv(blas.NoTrans, 1, w, vector(x), 1, vector(dst))
}

// addRows computes dst += x·wᵀ for the n rows of x. dst is [n, padded(w.Rows)],
// x [n, padded(w.Cols)]. Each row gets the same bits as by addProduct.
func addRows(dst []float32, w blas32.General, x []float32, n int) {
	in, out := padded(w.Cols), padded(w.Rows)
	for at := 0; at < w.Rows; at += tileOutputs {
		stop := min(at+tileOutputs, w.Rows)
		tile := blas32.General{Rows: stop - at, Cols: w.Cols, Stride: w.Stride, Data: w.Data[at*w.Stride:]}
		for i := range n {
			addProduct(dst[i*out+at:i*out+stop], tile, x[i*in:i*in+w.Cols])
		}
	}
}

// padded is the distance between rows of a width. gonum's dot product adds in
// an order that depends on where its second argument lies within 16 bytes, so
// every row of inputs begins at a multiple of that: then the same numbers give
// the same bits in every row, every Network and every run.
func padded(width int) int { return (width + 3) &^ 3 }

// aligned returns n numbers, a multiple of 16 bytes long: Go's allocator puts
// such a slice at a multiple of 16 bytes.
func aligned[T float32 | float64](n int) []T { return make([]T, padded(n))[:n] }

// timesUpper computes x ← x·r for the n rows of x, where r is upper triangular.
// x is [n, padded(d)], r [d, d]; what lies below r's diagonal is not read.
func timesUpper(x, r []float32, n, d int) {
	triangle := blas32.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: d, Stride: d, Data: r}
	blas32.Trmm(blas.Right, blas.NoTrans, 1, triangle, blas32.General{Rows: n, Cols: d, Stride: padded(d), Data: x})
}

// dot is x·y; y is the one that must be aligned.
func dot(x, y []float32) float32 { return blas32.Dot(vector(x), vector(y)) }

func norm(x []float32) float32 { return float32(math.Sqrt(float64(dot(x, x)))) }

func vector(x []float32) blas32.Vector { return blas32.Vector{N: len(x), Inc: 1, Data: x} }

func relu(x []float32) {
	for i, v := range x {
		x[i] = max(v, 0)
	}
}

func tanh(x []float32) {
	for i, v := range x {
		x[i] = float32(math.Tanh(float64(v)))
	}
}
