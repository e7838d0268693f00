package npz

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sbinet/npyio/npy"
	"github.com/x448/float16"

	"optibfm/internal/safefile"
)

// A damaged or hostile file cannot exhaust the memory: these are the limits of
// an archive's bytes in memory, of a .npy header and of the number of dimensions.
const (
	maxBytes  = 1<<31 - 1
	maxHeader = 1 << 16
	maxDims   = 32
)

// The values of an archive need at most ratio times the bytes of its file in memory, or leastBytes.
// Arrays of numbers compress by a factor of 1 to 5, integers of one byte become 8 bytes. Constant
// arrays compress by up to 1000 and fit into leastBytes.
const (
	ratio      = 32
	leastBytes = 64 << 20
)

// ErrMissing is wrapped by Get and Shaped for an unknown name.
var ErrMissing = errors.New("array not found")

// Archive holds the arrays of a file by name, without the ".npy".
type Archive map[string]Array

// unsupported is the error for a type of elements that is not read.
type unsupported string

func (u unsupported) Error() string {
	return fmt.Sprintf("dtype %q is not supported; save float16, float32, float64, integers or booleans", string(u))
}

// ReadFile reads every array of the named file. An array of neither numbers nor booleans is
// an error only where Get or Shaped asks for it.
func ReadFile(path string) (Archive, error) {
	f, size, err := safefile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("npz: %w", err)
	}
	defer f.Close()
	archive, err := Read(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return archive, nil
}

// Read reads every array of an archive of size bytes.
func Read(r io.ReaderAt, size int64) (Archive, error) {
	z, err := zip.NewReader(r, size)
	start := make([]byte, 64)
	n, _ := r.ReadAt(start, 0)
	if instead := safefile.Instead(start[:n]); err != nil && instead != "" {
		return nil, fmt.Errorf("npz: %s", instead)
	}
	if err != nil {
		return nil, fmt.Errorf("npz: not a readable zip archive (%w); write it again with numpy.savez", err)
	}
	archive := make(Archive, len(z.File))
	left := min(maxBytes, max(leastBytes, ratio*min(size, maxBytes)))
	for _, f := range z.File {
		name := strings.TrimSuffix(f.Name, ".npy")
		if _, twice := archive[name]; twice {
			return nil, fmt.Errorf("npz: array %q occurs twice; write the file again", name)
		}
		array, bytes, err := readEntry(f, left)
		if other := unsupported(""); errors.As(err, &other) {
			archive[name] = Array{unread: fmt.Errorf("npz: array %q: %w", name, other)}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("npz: array %q: %w", name, err)
		}
		left -= bytes
		archive[name] = array
	}
	return archive, nil
}

// Get returns the named array. The error for an unknown name lists the known ones.
func (a Archive) Get(name string) (Array, error) {
	array, ok := a[name]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(a)), ", ")
		return Array{}, fmt.Errorf("npz: %q: %w (the file has %s)", name, ErrMissing, known)
	}
	return array, array.unread
}

// Shaped is Get with a check of the number of dimensions and of each dimension;
// -1 stands for any.
func (a Archive) Shaped(name string, shape ...int) (Array, error) {
	array, err := a.Get(name)
	if err != nil {
		return Array{}, err
	}
	fits := slices.EqualFunc(array.shape, shape, func(is, want int) bool { return want < 0 || is == want })
	if !fits {
		return Array{}, fmt.Errorf("npz: %q has shape %v, want %v (-1: any)", name, array.shape, shape)
	}
	return array, nil
}

// readEntry reads an entry whose values have at most limit bytes. It reads to the end:
// archive/zip then verifies length and checksum.
func readEntry(f *zip.File, limit int64) (a Array, size int64, err error) {
	r, err := f.Open()
	if err != nil {
		return Array{}, 0, err
	}
	defer r.Close()
	in := bufio.NewReaderSize(r, maxHeader)
	a, size, err = parse(in, f.UncompressedSize64, limit)
	if err != nil {
		return Array{}, 0, err
	}
	switch n, err := io.CopyN(io.Discard, in, 1); {
	case n > 0:
		return Array{}, 0, errors.New("more data than the zip archive states; copy or write the file again")
	case !errors.Is(err, io.EOF):
		return Array{}, 0, fmt.Errorf("damaged (%w); copy or write the file again", err)
	}
	return a, size, nil
}

// parse reads a .npy file of length bytes. It checks the declared sizes before it allocates memory.
// It recovers because npyio panics on some malformed headers; the panic cannot damage data of the
// caller.
func parse(in *bufio.Reader, length uint64, limit int64) (a Array, size int64, err error) {
	defer func() {
		if p := recover(); p != nil {
			a, err = Array{}, fmt.Errorf("malformed .npy header (%v)", p)
		}
	}()
	start, err := in.Peek(maxHeader) // fewer bytes of a small file
	if err != nil && !errors.Is(err, io.EOF) {
		return Array{}, 0, fmt.Errorf("damaged (%w); copy or write the file again", err)
	}
	dataAt, err := headerEnd(start)
	if err != nil {
		return Array{}, 0, err
	}
	if length < uint64(dataAt) || length > maxBytes {
		return Array{}, 0, fmt.Errorf("impossible length (%d bytes); write the file again", length)
	}
	r, err := npy.NewReader(in)
	if err != nil {
		return Array{}, 0, fmt.Errorf("malformed .npy header: %w", err)
	}
	descr := r.Header.Descr
	if strings.HasPrefix(descr.Type, "(") { // npyio removes the bracket of a list of fields
		return Array{}, 0, unsupported("[" + descr.Type)
	}
	if size, err = checkSize(descr.Type, descr.Shape, int(length)-dataAt); err != nil {
		return Array{}, 0, err
	}
	if descr.Fortran {
		size *= 2 // transpose copies
	}
	if size > limit {
		return Array{}, 0, fmt.Errorf("its values need %d bytes, at most %d for a file of this size; split the file, "+
			"or write it with numpy.savez, without compression", size, limit)
	}
	values, err := readValues(r, in, descr.Type)
	if err != nil {
		return Array{}, 0, fmt.Errorf("damaged (%w); copy or write the file again", err)
	}
	a = Array{shape: slices.Clone(descr.Shape), values: values}
	if descr.Fortran {
		a.transpose()
	}
	return a, size, nil
}

// headerEnd returns the start of the data. It checks the length of the header
// before npyio allocates that much memory.
func headerEnd(start []byte) (int, error) {
	const prefix = "\x93NUMPY"
	if len(start) < 12 || string(start[:len(prefix)]) != prefix {
		return 0, errors.New("not a .npy array (wrong magic)")
	}
	end := 10 + int64(binary.LittleEndian.Uint16(start[8:]))
	if start[6] != 1 {
		end = 12 + int64(binary.LittleEndian.Uint32(start[8:]))
	}
	if end > int64(len(start)) {
		return 0, fmt.Errorf("the .npy header is cut off or too long (ends at byte %d of %d)", end, len(start))
	}
	return int(end), nil
}

// types are those of the elements that are read, without the order of the bytes.
var types = []string{"f2", "f4", "f8", "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"}

// checkSize compares the declared size with the number of bytes after the header. It returns the
// bytes that reading the values needs.
func checkSize(dtype string, shape []int, have int) (int64, error) {
	if len(dtype) != 3 || !slices.Contains(types, dtype[1:]) {
		return 0, unsupported(dtype)
	}
	width := int(dtype[2] - '0')
	n, ok := elements(shape)
	if !ok || len(shape) > maxDims {
		return 0, fmt.Errorf("impossible shape %v", shape)
	}
	if n*width != have {
		return 0, fmt.Errorf("shape %v of %q needs %d bytes of data, found %d; write the file again",
			shape, dtype, n*width, have)
	}
	if dtype[1:] == "f2" {
		return 2 * int64(have), nil // as float32
	}
	if dtype[1] == 'f' || dtype[1:] == "i8" {
		return int64(have), nil
	}
	return int64(have) + 8*int64(n), nil // as int64
}

// readValues reads the data in file order and converts them to one of the three
// types of an Array. data is the stream that r reads.
func readValues(r *npy.Reader, data io.Reader, dtype string) (any, error) {
	switch dtype[1:] {
	case "f2":
		return readFloat16(data, r.Header.Descr.Shape, dtype[0] == '>')
	case "f4":
		return read[float32](r)
	case "f8":
		return read[float64](r)
	case "b1":
		flags, err := read[bool](r)
		wide := make([]int64, len(flags))
		for i, x := range flags {
			if x {
				wide[i] = 1
			}
		}
		return wide, err
	case "i1":
		return widen[int8](r)
	case "i2":
		return widen[int16](r)
	case "i4":
		return widen[int32](r)
	case "i8":
		return read[int64](r)
	case "u1":
		return widen[uint8](r)
	case "u2":
		return widen[uint16](r)
	case "u4":
		return widen[uint32](r)
	case "u8":
		return readUint64(r)
	}
	return nil, unsupported(dtype)
}

// readFloat16 reads what npyio does not.
func readFloat16(data io.Reader, shape []int, bigEndian bool) ([]float32, error) {
	n, _ := elements(shape)
	raw := make([]byte, 2*n)
	if _, err := io.ReadFull(data, raw); err != nil {
		return nil, err
	}
	values := make([]float32, n)
	for i := range values {
		bits := binary.LittleEndian.Uint16(raw[2*i:])
		if bigEndian {
			bits = binary.BigEndian.Uint16(raw[2*i:])
		}
		values[i] = float16.Frombits(bits).Float32()
	}
	return values, nil
}

func read[T any](r *npy.Reader) ([]T, error) {
	var values []T
	err := r.Read(&values)
	return values, err
}

func widen[T int8 | int16 | int32 | uint8 | uint16 | uint32](r *npy.Reader) ([]int64, error) {
	narrow, err := read[T](r)
	return convert[int64](narrow), err
}

func readUint64(r *npy.Reader) ([]int64, error) {
	raw, err := read[uint64](r)
	values := make([]int64, len(raw))
	for i, x := range raw {
		if x > math.MaxInt64 {
			return nil, fmt.Errorf("element %d does not fit int64 (%d)", i, x)
		}
		values[i] = int64(x)
	}
	return values, err
}

// transpose reorders column-major values as row-major.
func (a *Array) transpose() {
	switch v := a.values.(type) {
	case []float32:
		a.values = rowMajor(v, a.shape)
	case []float64:
		a.values = rowMajor(v, a.shape)
	case []int64:
		a.values = rowMajor(v, a.shape)
	}
}

func rowMajor[T any](columnMajor []T, shape []int) []T {
	rows := make([]T, len(columnMajor))
	index := make([]int, len(shape))
	for at := range rows {
		from := 0
		for k := len(shape) - 1; k >= 0; k-- {
			from = from*shape[k] + index[k]
		}
		rows[at] = columnMajor[from]
		for k := len(shape) - 1; k >= 0; k-- {
			index[k]++
			if index[k] < shape[k] {
				break
			}
			index[k] = 0
		}
	}
	return rows
}
