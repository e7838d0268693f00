//go:build !noasm

package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// accelerated reports whether the processor and the operating system support the
// assembly's instructions.
var accelerated = cpu.X86.HasAVX2 && cpu.X86.HasFMA && hasF16C()

// wide reports whether the tiles of groups of panels are used, which need AVX-512. The environment
// variable GODEBUG=cpu.avx512f=off switches them off.
var wide = accelerated && cpu.X86.HasAVX512F

func denseGroup(rows int, dst, x Rows, w []float32, stride, k int, start Rows, floor float32) {
	if !wide || rows == 1 {
		portableDenseGroup(rows, dst, x, w, stride, k, start, floor)
		return
	}
	to, from, weights, sums := &dst.Data[0], &x.Data[0], &w[0], &start.Data[0]
	switch rows {
	case 2:
		denseGroup2(to, dst.Stride, from, x.Stride, weights, stride, k, sums, start.Stride, floor)
	case 3:
		denseGroup3(to, dst.Stride, from, x.Stride, weights, stride, k, sums, start.Stride, floor)
	case 4:
		denseGroup4(to, dst.Stride, from, x.Stride, weights, stride, k, sums, start.Stride, floor)
	case 5:
		denseGroup5(to, dst.Stride, from, x.Stride, weights, stride, k, sums, start.Stride, floor)
	case 6:
		denseGroup6(to, dst.Stride, from, x.Stride, weights, stride, k, sums, start.Stride, floor)
	}
}

func sparseGroup(rows int, dst, x Rows, w []float32, stride int, list []uint32, start Rows, floor float32) {
	if !wide || rows == 1 {
		portableSparseGroup(rows, dst, x, w, stride, list, start, floor)
		return
	}
	to, from, weights, sums := &dst.Data[0], &x.Data[0], &w[0], &start.Data[0]
	first, n := unsafe.SliceData(list), len(list)
	switch rows {
	case 2:
		sparseGroup2(to, dst.Stride, from, x.Stride, weights, stride, first, n, sums, start.Stride, floor)
	case 3:
		sparseGroup3(to, dst.Stride, from, x.Stride, weights, stride, first, n, sums, start.Stride, floor)
	case 4:
		sparseGroup4(to, dst.Stride, from, x.Stride, weights, stride, first, n, sums, start.Stride, floor)
	case 5:
		sparseGroup5(to, dst.Stride, from, x.Stride, weights, stride, first, n, sums, start.Stride, floor)
	case 6:
		sparseGroup6(to, dst.Stride, from, x.Stride, weights, stride, first, n, sums, start.Stride, floor)
	}
}
