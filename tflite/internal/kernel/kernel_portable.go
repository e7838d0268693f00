//go:build noasm || !(amd64 || arm64)

package kernel

const tileRows = 4

func denseTile(rows int, dst []float32, dstStride int, x []float32, xStride int, w []float32, k int, start []float32, startStride int, floor float32) {
	portableDense(rows, dst, dstStride, x, xStride, w, k, start, startStride, floor)
}

func vectorTile(panels int, dst, x, w []float32, panelStride, k int, start []float32, floor float32) {
	portableVector(panels, dst, x, w, panelStride, k, start, floor)
}

func sparseTile(rows int, dst []float32, dstStride int, x []float32, xStride int, w []float32, list []uint32, start []float32, startStride int, floor float32) {
	portableSparse(rows, dst, dstStride, x, xStride, w, list, start, startStride, floor)
}

func sparseVectorTile(panels int, dst, x, w []float32, panelStride int, list []uint32, start []float32, floor float32) {
	portableSparseVector(panels, dst, x, w, panelStride, list, start, floor)
}

func active(rows int, list []uint32, x []float32, xStride, k int) int {
	return portableActive(rows, list, x, xStride, k)
}

func sum(x []float32) float64 { return portableSum(x) }

func squares(x []float32, mean float64) float64 { return portableSquares(x, mean) }

func normTanh(x, gain, bias []float32, mean, scale float32) {
	portableNormTanh(x, gain, bias, mean, scale)
}

func tanhRow(x []float32) { portableTanh(x) }
