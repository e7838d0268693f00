//go:build !noasm

package kernel

// The functions of kernel_amd64.s that kernel_arm64.s lacks.

// denseGroup2 computes 2 rows by 4 panels of 16 outputs.
func denseGroup2(dst *float32, dstStride int, x *float32, xStride int, w *float32, panelStride int, k int,
	start *float32, startStride int, floor float32)

// sparseGroup2 computes 2 rows by 4 panels of 16 outputs over the listed inputs.
func sparseGroup2(dst *float32, dstStride int, x *float32, xStride int, w *float32, panelStride int,
	list *uint32, n int, start *float32, startStride int, floor float32)

// denseGroup3 computes 3 rows by 4 panels of 16 outputs.
func denseGroup3(dst *float32, dstStride int, x *float32, xStride int, w *float32, panelStride int, k int,
	start *float32, startStride int, floor float32)

// sparseGroup3 computes 3 rows by 4 panels of 16 outputs over the listed inputs.
func sparseGroup3(dst *float32, dstStride int, x *float32, xStride int, w *float32, panelStride int,
	list *uint32, n int, start *float32, startStride int, floor float32)

// denseGroup4 computes 4 rows by 4 panels of 16 outputs.
func denseGroup4(dst *float32, dstStride int, x *float32, xStride int, w *float32, panelStride int, k int,
	start *float32, startStride int, floor float32)

// sparseGroup4 computes 4 rows by 4 panels of 16 outputs over the listed inputs.
func sparseGroup4(dst *float32, dstStride int, x *float32, xStride int, w *float32, panelStride int,
	list *uint32, n int, start *float32, startStride int, floor float32)

// denseGroup5 computes 5 rows by 4 panels of 16 outputs.
func denseGroup5(dst *float32, dstStride int, x *float32, xStride int, w *float32, panelStride int, k int,
	start *float32, startStride int, floor float32)

// sparseGroup5 computes 5 rows by 4 panels of 16 outputs over the listed inputs.
func sparseGroup5(dst *float32, dstStride int, x *float32, xStride int, w *float32, panelStride int,
	list *uint32, n int, start *float32, startStride int, floor float32)

// denseGroup6 computes 6 rows by 4 panels of 16 outputs.
func denseGroup6(dst *float32, dstStride int, x *float32, xStride int, w *float32, panelStride int, k int,
	start *float32, startStride int, floor float32)

// sparseGroup6 computes 6 rows by 4 panels of 16 outputs over the listed inputs.
func sparseGroup6(dst *float32, dstStride int, x *float32, xStride int, w *float32, panelStride int,
	list *uint32, n int, start *float32, startStride int, floor float32)

// hasF16C reports whether the processor converts float16 (CPUID leaf 1, bit 29 of ECX).
func hasF16C() bool
