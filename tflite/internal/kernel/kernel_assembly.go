//go:build (amd64 || arm64) && !noasm

package kernel

import (
	"unsafe"

	"github.com/x448/float16"
)

const tileRows = 6

func denseTile(rows int, dst, x Rows, w []float32, k int, start Rows, floor float32) {
	if !accelerated {
		portableDense(rows, dst, x, w, k, start, floor)
		return
	}
	to, from, weights, sums := &dst.Data[0], &x.Data[0], &w[0], &start.Data[0]
	switch rows {
	case 1:
		dense1(to, dst.Stride, from, x.Stride, weights, k, sums, start.Stride, floor)
	case 2:
		dense2(to, dst.Stride, from, x.Stride, weights, k, sums, start.Stride, floor)
	case 3:
		dense3(to, dst.Stride, from, x.Stride, weights, k, sums, start.Stride, floor)
	case 4:
		dense4(to, dst.Stride, from, x.Stride, weights, k, sums, start.Stride, floor)
	case 5:
		dense5(to, dst.Stride, from, x.Stride, weights, k, sums, start.Stride, floor)
	case 6:
		dense6(to, dst.Stride, from, x.Stride, weights, k, sums, start.Stride, floor)
	}
}

func vectorTile(panels int, dst, x, w []float32, panelStride, k int, start []float32, floor float32) {
	if !accelerated {
		portableVector(panels, dst, x, w, panelStride, k, start, floor)
		return
	}
	switch panels {
	case 1:
		dense1(&dst[0], 0, &x[0], 0, &w[0], k, &start[0], 0, floor)
	case 2:
		vector2(&dst[0], &x[0], &w[0], panelStride, k, &start[0], floor)
	case 3:
		vector3(&dst[0], &x[0], &w[0], panelStride, k, &start[0], floor)
	case 4:
		vector4(&dst[0], &x[0], &w[0], panelStride, k, &start[0], floor)
	}
}

func halfVectorTile(
	panels int, dst, x []float32, w []float16.Float16, panelStride, k int, start []float32, floor float32,
) {
	if !accelerated {
		portableHalfVector(panels, dst, x, w, panelStride, k, start, floor)
		return
	}
	weights := (*uint16)(&w[0])
	switch panels {
	case 1:
		halfVector1(&dst[0], &x[0], weights, panelStride, k, &start[0], floor)
	case 2:
		halfVector2(&dst[0], &x[0], weights, panelStride, k, &start[0], floor)
	case 3:
		halfVector3(&dst[0], &x[0], weights, panelStride, k, &start[0], floor)
	case 4:
		halfVector4(&dst[0], &x[0], weights, panelStride, k, &start[0], floor)
	}
}

func sparseTile(rows int, dst, x Rows, w []float32, list []uint32, start Rows, floor float32) {
	if !accelerated {
		portableSparse(rows, dst, x, w, list, start, floor)
		return
	}
	to, from, weights, sums := &dst.Data[0], &x.Data[0], &w[0], &start.Data[0]
	first, n := unsafe.SliceData(list), len(list)
	switch rows {
	case 1:
		sparse1(to, dst.Stride, from, x.Stride, weights, first, n, sums, start.Stride, floor)
	case 2:
		sparse2(to, dst.Stride, from, x.Stride, weights, first, n, sums, start.Stride, floor)
	case 3:
		sparse3(to, dst.Stride, from, x.Stride, weights, first, n, sums, start.Stride, floor)
	case 4:
		sparse4(to, dst.Stride, from, x.Stride, weights, first, n, sums, start.Stride, floor)
	case 5:
		sparse5(to, dst.Stride, from, x.Stride, weights, first, n, sums, start.Stride, floor)
	case 6:
		sparse6(to, dst.Stride, from, x.Stride, weights, first, n, sums, start.Stride, floor)
	}
}

func sparseVectorTile(
	panels int, dst, x, w []float32, panelStride int, list []uint32, start []float32, floor float32,
) {
	if !accelerated {
		portableSparseVector(panels, dst, x, w, panelStride, list, start, floor)
		return
	}
	first := unsafe.SliceData(list)
	switch panels {
	case 1:
		sparse1(&dst[0], 0, &x[0], 0, &w[0], first, len(list), &start[0], 0, floor)
	case 2:
		sparseVector2(&dst[0], &x[0], &w[0], panelStride, first, len(list), &start[0], floor)
	case 3:
		sparseVector3(&dst[0], &x[0], &w[0], panelStride, first, len(list), &start[0], floor)
	case 4:
		sparseVector4(&dst[0], &x[0], &w[0], panelStride, first, len(list), &start[0], floor)
	}
}

func active(rows int, list []uint32, x []float32, xStride, k int) int {
	if !accelerated {
		return portableActive(rows, list, x, xStride, k)
	}
	switch rows {
	case 1:
		return active1(&list[0], &x[0], xStride, k)
	case 2:
		return active2(&list[0], &x[0], xStride, k)
	case 3:
		return active3(&list[0], &x[0], xStride, k)
	case 4:
		return active4(&list[0], &x[0], xStride, k)
	case 5:
		return active5(&list[0], &x[0], xStride, k)
	}
	return active6(&list[0], &x[0], xStride, k)
}

// The lengths of the following functions are multiples of 16.

func widen(dst []float32, src []float16.Float16) {
	if !accelerated || len(src) == 0 {
		portableWiden(dst, src)
		return
	}
	widen16(&dst[0], (*uint16)(&src[0]), len(src))
}

func sum(x []float32) float64 {
	if !accelerated || len(x) == 0 {
		return portableSum(x)
	}
	return sum16(&x[0], len(x))
}

func squares(x []float32, mean float64) float64 {
	if !accelerated || len(x) == 0 {
		return portableSquares(x, mean)
	}
	return squares16(&x[0], len(x), mean)
}

func normTanh(x, gain, bias []float32, mean, scale float32) {
	if !accelerated || len(x) == 0 {
		portableNormTanh(x, gain, bias, mean, scale)
		return
	}
	normTanh16(&x[0], &gain[0], &bias[0], len(x), mean, scale, &tanhTable)
}

func tanhRow(x []float32) {
	if !accelerated || len(x) == 0 {
		portableTanh(x)
		return
	}
	tanh16(&x[0], len(x), &tanhTable)
}

func normRow(dst, x, gain, bias []float32, mean, scale float32) {
	if !accelerated || len(x) == 0 {
		portableNorm(dst, x, gain, bias, mean, scale)
		return
	}
	norm16(&dst[0], &x[0], &gain[0], &bias[0], len(x), mean, scale)
}

func finishRow(x, sums, bias []float32, mean, scale float32) {
	if !accelerated || len(x) == 0 {
		portableFinish(x, sums, bias, mean, scale)
		return
	}
	finish16(&x[0], &sums[0], &bias[0], len(x), mean, scale)
}

func mishRow(x []float32) {
	if !accelerated || len(x) == 0 {
		portableMish(x)
		return
	}
	mish16(&x[0], len(x), &mishTable)
}
