package tflite

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/x448/float16"

	"optibfm/internal/safefile"
)

// Limits of a safetensors file, so that a damaged one cannot exhaust the memory.
const (
	maxHeaderBytes = 16 << 20
	maxRank        = 8
)

// Tensor is a row-major array of a safetensors file. One of F32, F64 and F16 holds its
// elements. Elements of the type BF16 are converted to F32.
type Tensor struct {
	Shape []int
	F32   []float32
	F64   []float64
	F16   []float16.Float16
}

// count returns the number of elements that the tensor holds.
func (t Tensor) count() int { return len(t.F32) + len(t.F64) + len(t.F16) }

// float64s returns the elements as float64, as a new slice.
func (t Tensor) float64s() []float64 {
	if t.F64 != nil {
		return slices.Clone(t.F64)
	}
	narrow := t.float32s()
	wide := make([]float64, len(narrow))
	for i, x := range narrow {
		wide[i] = float64(x)
	}
	return wide
}

// float32s returns the elements as float32: the tensor's slice, or a converted copy of its
// elements.
func (t Tensor) float32s() []float32 {
	if t.F32 != nil {
		return t.F32
	}
	converted := make([]float32, t.count())
	for i, x := range t.F64 {
		converted[i] = float32(x)
	}
	for i, x := range t.F16 {
		converted[i] = x.Float32()
	}
	return converted
}

// of returns part i of the first dimension.
func (t Tensor) of(i int) Tensor {
	n := t.count() / t.Shape[0]
	part := Tensor{Shape: t.Shape[1:]}
	switch {
	case t.F64 != nil:
		part.F64 = t.F64[i*n:][:n]
	case t.F16 != nil:
		part.F16 = t.F16[i*n:][:n]
	default:
		part.F32 = t.F32[i*n:][:n]
	}
	return part
}

// finite reports whether all elements are finite as float32, with the index of the first
// that is not.
func (t Tensor) finite() (int, bool) {
	if t.F16 != nil {
		const exponent = 0x7c00
		if finiteHalves(t.F16) {
			return -1, true
		}
		i := slices.IndexFunc(t.F16, func(x float16.Float16) bool { return x&exponent == exponent })
		return i, i < 0
	}
	i := slices.IndexFunc(t.float32s(), func(x float32) bool { return !isFinite(x) })
	return i, i < 0
}

// finiteHalves reports whether all numbers are finite: their exponents are below 31. It has a
// branch for each block, not for each number.
func finiteHalves(x []float16.Float16) bool {
	for block := range slices.Chunk(x, 4096) {
		carry := float16.Float16(0)
		for _, v := range block {
			carry |= v&0x7c00 + 0x0400 // bit 15 is set if all bits of the exponent are
		}
		if carry&0x8000 != 0 {
			return false
		}
	}
	return true
}

func isFinite(x float32) bool { return x-x == 0 }

// span is the place of a tensor in the data, in bytes.
type span struct {
	name        string
	dtype       string
	shape       []int
	begin, stop int64
}

// widths are the sizes of elements. Only floats are read; the others may be in tensors that are
// skipped.
var widths = map[string]int64{
	"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
	"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}

// plainName removes from the names of tensors the parts that torch.compile (_orig_mod) and
// DataParallel (module) add.
func plainName(name string) string {
	parts := slices.DeleteFunc(strings.Split(name, "."), func(s string) bool { return s == "_orig_mod" || s == "module" })
	return strings.Join(parts, ".")
}

// parseSafetensors is readSafetensors of all tensors of a file in memory.
func parseSafetensors(raw []byte) (map[string]Tensor, error) {
	return readSafetensors(bytes.NewReader(raw), int64(len(raw)), reading{})
}

// reading has the options of readSafetensors.
type reading struct {
	skip   func(name string) bool // whether to leave a tensor out; nil: none
	memory func(s span) []byte    // for the data of a tensor; nil, or a nil result: a new slice
}

// readSafetensors reads a safetensors file (https://github.com/huggingface/safetensors#format) of a
// size from beginning to end. As the format requires, the tensors must cover the data without gap
// or overlap.
func readSafetensors(r io.Reader, size int64, o reading) (map[string]Tensor, error) {
	header, err := readHeader(r, size)
	if err != nil {
		return nil, err
	}
	var spans []span
	seen := make(map[string]string)
	err = eachKey(header, func(name string, value json.RawMessage) error {
		if name == "__metadata__" {
			return nil
		}
		s, err := parseSpan(name, value)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		s.name = plainName(name)
		if other, twice := seen[s.name]; twice {
			return fmt.Errorf("tensors %q and %q are the same; keep one", other, name)
		}
		seen[s.name] = name
		spans = append(spans, s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.stop, b.stop))
	})
	if err := checkCover(spans, size-8-int64(len(header))); err != nil {
		return nil, err
	}
	tensors := make(map[string]Tensor, len(spans))
	for _, s := range spans {
		if o.skip != nil && o.skip(s.name) {
			if _, err := io.CopyN(io.Discard, r, s.stop-s.begin); err != nil {
				return nil, err
			}
			continue
		}
		var memory []byte
		if o.memory != nil {
			memory = o.memory(s)
		}
		if tensors[s.name], err = readTensor(r, s, memory); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", s.name, err)
		}
	}
	return tensors, nil
}

func readHeader(r io.Reader, size int64) ([]byte, error) {
	if size < 8 {
		return nil, fmt.Errorf("truncated (%d bytes, want at least 8); copy the file again", size)
	}
	var length [8]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if instead := safefile.Instead(length[:]); instead != "" {
		return nil, errors.New(instead)
	}
	if string(length[:4]) == "PK\x03\x04" {
		return nil, errors.New("a zip archive, such as PyTorch's; save the tensors with safetensors.torch.save_file")
	}
	if n > maxHeaderBytes {
		return nil, fmt.Errorf("the header has %d bytes, want at most %d", n, maxHeaderBytes)
	}
	if n > uint64(size-8) {
		return nil, fmt.Errorf("truncated inside the header (%d bytes of %d); copy the file again", size-8, n)
	}
	header := make([]byte, n)
	_, err := io.ReadFull(r, header)
	return header, err
}

func parseSpan(name string, value json.RawMessage) (span, error) {
	s := span{name: name}
	var offsets []int64
	if err := decodeObject(value, fields{"dtype": &s.dtype, "shape": &s.shape, "data_offsets": &offsets}); err != nil {
		return s, err
	}
	width, ok := widths[s.dtype]
	if !ok {
		return s, fmt.Errorf("dtype %q is not supported; save it as F32", s.dtype)
	}
	if len(s.shape) > maxRank {
		return s, fmt.Errorf("%d dimensions, want at most %d", len(s.shape), maxRank)
	}
	if len(offsets) != 2 || offsets[0] < 0 || offsets[1] < offsets[0] {
		return s, fmt.Errorf("data_offsets are %v, want two ascending offsets", offsets)
	}
	s.begin, s.stop = offsets[0], offsets[1]
	size := width
	for _, d := range s.shape {
		if d < 0 || (d > 0 && size > math.MaxInt64/int64(d)) {
			return s, fmt.Errorf("impossible shape %v", s.shape)
		}
		size *= int64(d)
	}
	if size != s.stop-s.begin {
		return s, fmt.Errorf("shape %v of %s takes %d bytes, data_offsets span %d",
			s.shape, s.dtype, size, s.stop-s.begin)
	}
	return s, nil
}

// checkCover returns an error unless sorted spans cover the data.
func checkCover(sorted []span, size int64) error {
	at := int64(0)
	for _, s := range sorted {
		if s.begin != at {
			return fmt.Errorf("tensor %q begins at byte %d of the data, want %d", s.name, s.begin, at)
		}
		at = s.stop
	}
	if at != size {
		return fmt.Errorf("the tensors take %d bytes, the file has %d; copy the file again", at, size)
	}
	return nil
}

func readTensor(r io.Reader, s span, memory []byte) (t Tensor, err error) {
	t.Shape = s.shape
	n := int(s.stop-s.begin) / int(widths[s.dtype])
	switch s.dtype {
	case "F64":
		t.F64, err = readElements[float64](r, n, memory)
	case "F32":
		t.F32, err = readElements[float32](r, n, memory)
	case "F16":
		t.F16, err = readElements[float16.Float16](r, n, memory)
	case "BF16":
		var upper []uint16
		upper, err = readElements[uint16](r, n, nil)
		t.F32 = make([]float32, n)
		for i, x := range upper {
			t.F32[i] = math.Float32frombits(uint32(x) << 16)
		}
	default:
		err = fmt.Errorf("dtype %q is not supported; save it as F32", s.dtype)
	}
	return t, err
}

// readElements reads n numbers into memory, or into a new slice if that is nil.
func readElements[T float16.Float16 | uint16 | float32 | float64](r io.Reader, n int, memory []byte) ([]T, error) {
	var x []T
	if memory != nil {
		x = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n)
	} else {
		x = make([]T, n)
	}
	raw := bytesOf(x)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, err
	}
	width := int(unsafe.Sizeof(*new(T)))
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 { // the file is little-endian
		for b := range slices.Chunk(raw, width) {
			slices.Reverse(b)
		}
	}
	return x, nil
}

// bytesOf returns the memory of numbers.
func bytesOf[T any](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}

// writeSafetensors writes the tensors by decreasing width of their elements, so that the data are
// aligned, and in the order of their names. The same tensors give the same bytes and hash.
func writeSafetensors(w io.Writer, tensors map[string]Tensor) error {
	names := slices.SortedFunc(maps.Keys(tensors), func(a, b string) int {
		return cmp.Or(cmp.Compare(widths[tensors[b].dtype()], widths[tensors[a].dtype()]), strings.Compare(a, b))
	})
	header, err := encodeHeader(names, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, name := range names {
		t := tensors[name]
		if err := binary.Write(w, binary.LittleEndian, t.values()); err != nil {
			return err
		}
	}
	return nil
}

// dtype returns the type of the elements, "" unless exactly one slice holds them.
func (t Tensor) dtype() string {
	switch [3]bool{t.F32 != nil, t.F64 != nil, t.F16 != nil} {
	case [3]bool{true, false, false}:
		return "F32"
	case [3]bool{false, true, false}:
		return "F64"
	case [3]bool{false, false, true}:
		return "F16"
	}
	return ""
}

// values returns the slice of the elements.
func (t Tensor) values() any {
	switch {
	case t.F64 != nil:
		return t.F64
	case t.F16 != nil:
		return t.F16
	}
	return t.F32
}

func encodeHeader(names []string, tensors map[string]Tensor) ([]byte, error) {
	type entry struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	entries := make(map[string]entry, len(names))
	at := int64(0)
	for _, name := range names {
		t := tensors[name]
		e := entry{DType: t.dtype(), Shape: t.Shape}
		if e.DType == "" {
			return nil, fmt.Errorf("tensor %q: want one of F32, F64 and F16", name)
		}
		e.Offsets = [2]int64{at, at + widths[e.DType]*int64(t.count())}
		if e.Shape == nil {
			e.Shape = []int{}
		}
		at = e.Offsets[1]
		entries[name] = e
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return nil, err
	}
	if len(text) > maxHeaderBytes {
		return nil, errors.New("too many tensors for one file")
	}
	text = append(text, bytes.Repeat([]byte{' '}, (8-len(text)%8)%8)...)
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), nil
}
