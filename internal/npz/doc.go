// Package npz reads and writes NumPy's .npz archives: a zip file with one
// .npy array per entry, as numpy.savez and numpy.savez_compressed write them.
//
// It is how observations, labels and reference vectors come from Python and go
// back. Arrays of float32, float64, bool and every integer type of up to 64
// bits are read, little- or big-endian, in C or Fortran order, of any
// number of dimensions; they arrive row-major. Every other type is refused.
//
//	archive, err := npz.ReadFile("obs.npz")
//	obs, err := archive.Shaped("obs", -1, 24) // any number of rows of 24
//	values, err := obs.Float32s()
//
// The format is that of https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
// The array parser is github.com/sbinet/npyio; this package stands before it
// because the files come from anywhere: it checks the declared sizes against
// the bytes that are there before anything is allocated, verifies every
// entry's checksum, and answers damage with an error.
package npz
