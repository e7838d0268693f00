// Package npz reads and writes NumPy's .npz archives: a zip file with one
// .npy array per entry, as numpy.savez and numpy.savez_compressed write them.
//
// It exchanges observations, labels and reference vectors with Python. It reads
// arrays of float32, float64, bool and every integer type of up to 64 bits,
// little- or big-endian, in C or Fortran order, of any number of dimensions, and
// returns them in row-major order. It refuses all other types.
//
//	archive, err := npz.ReadFile("obs.npz")
//	obs, err := archive.Shaped("obs", -1, 24) // any number of rows of 24
//	values, err := obs.Float32s()
//
// The format is described at
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. github.com/sbinet/npyio
// parses the arrays. This package protects it from damaged and hostile files: it checks declared
// sizes before it allocates memory, limits that memory to a multiple of the size of the file,
// verifies the checksum of every entry, and returns an error for any damage.
package npz
