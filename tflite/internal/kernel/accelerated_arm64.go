//go:build !noasm

package kernel

// accelerated is true: every arm64 processor has NEON.
const accelerated = true

// wide is false: NEON has no group of panels.
const wide = false

func denseGroup(rows int, dst, x Rows, w []float32, stride, k int, start Rows, floor float32) {
	portableDenseGroup(rows, dst, x, w, stride, k, start, floor)
}

func sparseGroup(rows int, dst, x Rows, w []float32, stride int, list []uint32, start Rows, floor float32) {
	portableSparseGroup(rows, dst, x, w, stride, list, start, floor)
}
