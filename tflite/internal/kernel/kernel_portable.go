//go:build noasm || !(amd64 || arm64)

package kernel

import "github.com/x448/float16"

const tileRows = 4

func denseTile(rows int, dst, x Rows, w []float32, k int, start Rows, floor float32) {
	portableDense(rows, dst, x, w, k, start, floor)
}

// wide is false: tiles of groups of panels are not faster in Go.
const wide = false

func denseGroup(rows int, dst, x Rows, w []float32, stride, k int, start Rows, floor float32) {
	portableDenseGroup(rows, dst, x, w, stride, k, start, floor)
}

func sparseGroup(rows int, dst, x Rows, w []float32, stride int, list []uint32, start Rows, floor float32) {
	portableSparseGroup(rows, dst, x, w, stride, list, start, floor)
}

func vectorTile(panels int, dst, x, w []float32, panelStride, k int, start []float32, floor float32) {
	portableVector(panels, dst, x, w, panelStride, k, start, floor)
}

func halfVectorTile(
	panels int, dst, x []float32, w []float16.Float16, panelStride, k int, start []float32, floor float32,
) {
	portableHalfVector(panels, dst, x, w, panelStride, k, start, floor)
}

func sparseTile(rows int, dst, x Rows, w []float32, list []uint32, start Rows, floor float32) {
	portableSparse(rows, dst, x, w, list, start, floor)
}

func sparseVectorTile(
	panels int, dst, x, w []float32, panelStride int, list []uint32, start []float32, floor float32,
) {
	portableSparseVector(panels, dst, x, w, panelStride, list, start, floor)
}

func active(rows int, list []uint32, x []float32, xStride, k int) int {
	return portableActive(rows, list, x, xStride, k)
}

func widen(dst []float32, src []float16.Float16) { portableWiden(dst, src) }

func sum(x []float32) float64 { return portableSum(x) }

func squares(x []float32, mean float64) float64 { return portableSquares(x, mean) }

func normTanh(x, gain, bias []float32, mean, scale float32) {
	portableNormTanh(x, gain, bias, mean, scale)
}

func tanhRow(x []float32) { portableTanh(x) }

func mishRow(x []float32) { portableMish(x) }

func normRow(dst, x, gain, bias []float32, mean, scale float32) {
	portableNorm(dst, x, gain, bias, mean, scale)
}

func finishRow(x, sums, bias []float32, mean, scale float32) {
	portableFinish(x, sums, bias, mean, scale)
}
