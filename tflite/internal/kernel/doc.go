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
// with AVX2 and FMA a product and its addition are rounded once; elsewhere, and
// with the build tag noasm, as the Go compiler does it. Results of different
// kinds of processors agree to about 1e-6 of the largest addend.
//
// # Files
//
// matrix.go has the loops over blocks and tiles; portable.go the tiles in Go, the
// reference for the assembly of kernel_amd64.s, which the program in generate
// writes.
package kernel

//go:generate go -C generate run ./amd64 -out ../kernel_amd64.s -stubs ../stubs_amd64.go -pkg kernel
//go:generate go -C generate run ./arm64 -out ../kernel_arm64.s -stubs ../stubs_arm64.go
