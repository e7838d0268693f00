package npz

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"optibfm/internal/safefile"
)

// WriteFile writes the arrays to the named file, compressed. It replaces the file
// atomically.
func WriteFile(path string, arrays Archive) error {
	err := safefile.Replace(path, 0o640, func(w io.Writer) error { return Write(w, arrays) })
	if err != nil {
		return fmt.Errorf("npz: %w", err)
	}
	return nil
}

// Write writes the arrays as an archive, sorted by name: the same arrays give
// the same bytes.
func Write(w io.Writer, arrays Archive) error {
	z := zip.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		entry, err := z.Create(name + ".npy")
		if err != nil {
			return fmt.Errorf("npz: array %q: %w", name, err)
		}
		if err := writeArray(entry, arrays[name]); err != nil {
			return fmt.Errorf("npz: array %q: %w", name, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("npz: %w", err)
	}
	return nil
}

// writeArray writes one .npy of version 1.0. The writer of npyio supports only
// vectors and matrices of float64.
func writeArray(w io.Writer, a Array) error {
	var dtype string
	switch a.values.(type) {
	case []float32:
		dtype = "<f4"
	case []float64:
		dtype = "<f8"
	case []int64:
		dtype = "<i8"
	default:
		return errors.New("the zero Array has no values; use Float32, Float64 or Int64")
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, tuple(a.shape))
	const prefix = "\x93NUMPY\x01\x00"
	// The data start at a multiple of 64 bytes.
	padding := 63 - (len(prefix)+2+len(header))%64
	header += strings.Repeat(" ", padding) + "\n"
	start := binary.LittleEndian.AppendUint16([]byte(prefix), uint16(len(header)))
	if _, err := w.Write(append(start, header...)); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, a.values)
}

// tuple formats a shape as a Python tuple: (), (3,), (3, 4).
func tuple(shape []int) string {
	words := make([]string, len(shape))
	for i, d := range shape {
		words[i] = strconv.Itoa(d)
	}
	if len(words) == 1 {
		return "(" + words[0] + ",)"
	}
	return "(" + strings.Join(words, ", ") + ")"
}
