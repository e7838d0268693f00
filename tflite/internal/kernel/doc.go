// Package kernel multiplies rows of inputs by weight matrices, and applies what
// stands between the layers of the networks: ReLU, LayerNorm and tanh. All in
// float32.
//
// # Packing
//
// A Matrix holds its weights in the order in which the loops read them: panels
// of 16 outputs, in each panel all the inputs, for each input the 16 weights.
// Rows are stored with room for a multiple of 16 elements, so that a loop always
// stores whole panels; what is beyond a row's width is rubbish that nothing
// reads. A Matrix is packed once and then shared read-only.
//
// Many rows are multiplied in tiles of up to 6 rows by one panel, whose sums stay
// in registers; a single row takes up to four panels at once.
//
// # Sparse inputs
//
// ReLU leaves about half of its outputs 0, and the candidates of a search, which
// are neighbours, leave the same ones. So the inputs of a tile that are not 0 in
// all its rows are listed first, and only they and their weights are read and
// multiplied: half the work and half the memory traffic.
//
// # The same bits
//
// An output is start + x₀w₀ + x₁w₁ + ..., added in this order whatever the number
// of rows, their place and the lists: a row gets the same bits alone and among
// others. (A 0 that is left out may change the sign of a sum that is 0.) On amd64
// with AVX2 and FMA, and on arm64, a product and its addition are rounded once, and
// sums are added in one order: both give the same bits, but for the signs of
// zeros. On other processors, and with the build tag noasm, it is as the Go
// compiler does it: results agree to about 1e-6 of the largest addend.
//
// # Assembly
//
// kernel_amd64.s needs AVX2 and FMA, looked for when the program starts; there is
// nothing for AVX-512, since no machine was at hand to test it on. kernel_arm64.s
// needs NEON, which every arm64 processor has. It was made for the Cortex-A78AE of a
// Jetson Orin by counting what each loop asks of that core (the comment above a loop
// has the count, generate/arm64/tiles.go the reasons): of the instructions of a tile
// of 6 rows 86 % are multiply-adds, 69 % where the inputs are listed; of a row by 4
// panels 62 % and 52 %. Its results are tested under qemu, which says nothing of
// time: no arm64 processor has timed it.
//
// # Files
//
// matrix.go has the loops over blocks and tiles; portable.go the tiles in Go, the
// reference for the assembly, which the programs in generate write;
// kernel_assembly.go and kernel_portable.go choose between them.
package kernel

//go:generate go -C generate run ./amd64 -out ../kernel_amd64.s -stubs ../stubs_amd64.go -pkg kernel
//go:generate go -C generate run ./arm64 -out ../kernel_arm64.s -stubs ../stubs_arm64.go
