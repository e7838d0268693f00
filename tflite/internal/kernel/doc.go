// Package kernel multiplies rows of inputs by weight matrices and evaluates ReLU, Mish,
// LayerNorm and tanh, all in float32.
//
// # Packing
//
// A Matrix holds its weights in the order in which the loops read them: panels of 16
// outputs, in each panel all inputs, for each input the 16 weights. Rows have capacity for
// a multiple of 16 elements, so that the loops store whole panels; the elements beyond a
// row's width are undefined. A Matrix is packed once and then shared read-only.
//
// Many rows are multiplied in tiles of up to 6 rows by one panel, or four with AVX-512, with the
// sums in registers; a single row is multiplied by up to four panels at once.
//
// A Matrix may also hold float16 weights (PackHalf). The loops of a single row widen them to
// float32 in registers, which halves the memory traffic. Tiles of many rows share blocks of widened
// weights.
//
// # Sparse inputs
//
// ReLU sets about half of its outputs to 0, and mostly the same ones for the similar
// candidates of a search. Multiply can therefore list the inputs that are not 0 in all rows
// of a tile, and read and multiply only these and their weights: half the work and half
// the memory traffic.
//
// # The same bits
//
// An output is start + x₀w₀ + x₁w₁ + ..., added in this order for any number of rows, any
// position and any lists: a row gets the same bits alone and among others. (Skipping a 0
// may change the sign of a sum that is 0.) On amd64 with AVX2 and FMA, and on arm64, each
// multiply-add is rounded once and sums have the same order: both give the same bits,
// except for the signs of zeros. On other processors, and with the build tag noasm, the Go
// compiler chooses; results agree to about 1e-6 of the largest addend.
//
// # Several processors
//
// A Team divides the panels of a product between goroutines that stay. Each reads its own part of
// the weights, for all rows. Every output has the same sum, so bits do not depend on the number of
// workers. The caller takes parts as well and does not wait for a worker without a part.
// Scratch.Each divides other work, such as LayerNorm, by rows.
//
// # Assembly
//
// kernel_amd64.s needs AVX2, FMA and F16C, detected when the program starts, and the tiles of four
// panels AVX-512F; GODEBUG=cpu.avx512f=off switches these off. kernel_arm64.s needs NEON, which
// every arm64 processor has. It is designed for the Cortex-A78AE of a Jetson Orin; the comment
// above a loop counts its instructions, and generate/arm64/tiles.go has the reasons. The tests of
// the arm64 kernels run under qemu; their speed has not been measured on an arm64 processor.
//
// # Files
//
// matrix.go has the loops over blocks and tiles; team.go divides them; portable.go the tiles in Go,
// the reference for the assembly, which the programs in generate write; kernel_assembly.go and
// kernel_portable.go select one of them.
package kernel

//go:generate go -C generate run ./amd64 -out ../kernel_amd64.s
//go:generate go -C generate run ./arm64 -out ../kernel_arm64.s -stubs ../stubs.go
