package tflite

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// Every matrix product and transcendental of the networks goes through this
// file. Weights lie as [out, in]. See doc.go for the measurements behind it.

// Tiles of addRows: one has 2 blocks of 64 by 64, below the 4 from which
// gonum's Gemm starts goroutines, which would allocate.
const (
	tileRows = 64
	tileCols = 128
)

// addProduct computes dst += w·x for one input. dst is [w.Rows], x [w.Cols].
func addProduct(dst []float32, w blas32.General, x []float32) {
	blas32.Gemv(blas.NoTrans, 1, w, vector(x), 1, vector(dst))
}

// addRows computes dst += x·wᵀ for the n rows of x. dst is [n, w.Rows], x
// [n, w.Cols].
func addRows(dst []float32, w blas32.General, x []float32, n int) {
	if n == 1 {
		addProduct(dst[:w.Rows], w, x[:w.Cols])
		return
	}
	for r := 0; r < n; r += tileRows {
		rows := min(tileRows, n-r)
		in := blas32.General{Rows: rows, Cols: w.Cols, Stride: w.Cols, Data: x[r*w.Cols:]}
		for c := 0; c < w.Rows; c += tileCols {
			cols := min(tileCols, w.Rows-c)
			part := blas32.General{Rows: cols, Cols: w.Cols, Stride: w.Stride, Data: w.Data[c*w.Stride:]}
			out := blas32.General{Rows: rows, Cols: cols, Stride: w.Rows, Data: dst[r*w.Rows+c:]}
			blas32.Gemm(blas.NoTrans, blas.Trans, 1, in, part, 1, out)
		}
	}
}

// timesUpper computes x ← x·r for the n rows of x, where r is upper triangular.
// x is [n, d], r [d, d]; what lies below r's diagonal is not read.
func timesUpper(x, r []float32, n, d int) {
	triangle := blas32.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: d, Stride: d, Data: r}
	blas32.Trmm(blas.Right, blas.NoTrans, 1, triangle, blas32.General{Rows: n, Cols: d, Stride: d, Data: x})
}

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
