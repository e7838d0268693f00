package tflite

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"unsafe"

	"github.com/x448/float16"
	"golang.org/x/sys/unix"

	"optibfm/tflite/internal/kernel"
)

// packing makes the matrices of a bundle, on the heap or in a file of LoadShared, or takes them
// from such a file.
type packing struct {
	begins func()            // called before the packing; may be nil
	small  map[string]Tensor // the tensors that are not packed
	to     *sharedWriter     // nil: not to a file
	from   *sharedWeights    // nil: not from a file
}

// columns packs the weights of the inputs from..to.
func (k *packing) columns(u unpacked, from, to int) (m *kernel.Matrix) {
	if k.from != nil {
		return k.from.next(u.out, to-from)
	}
	memory := k.to.panels(kernel.RawBytes(u.out, to-from, u.half))
	switch {
	case u.w.F16 != nil:
		m = packColumns(memory, u.w.F16, u, from, to)
	case u.half:
		m = kernel.PackHalfIn(memory, u.w.F32[from:], u.out, to-from, u.in)
	default:
		m = packColumns(memory, u.w.float32s(), u, from, to)
	}
	k.to.add(m)
	return m
}

func packColumns[T float32 | float16.Float16](memory []byte, w []T, u unpacked, from, to int) *kernel.Matrix {
	if u.transposed {
		return kernel.PackAs(memory, w[from*u.out:], u.out, to-from, u.out, true)
	}
	return kernel.PackAs(memory, w[from:], u.out, to-from, u.in, false)
}

// fold folds a LayerNorm into the following weights. name is unique.
func (k *packing) fold(norm kernel.LayerNorm, name string, u unpacked, bias []float32) kernel.Folded {
	if k.from != nil {
		f := k.from.Folded[name]
		if len(f.Sums) != u.out || len(f.Bias) != u.out {
			k.from.short = true
			f = foldedArrays{bias, bias}
		}
		return norm.RestoreFolded(f.Sums, f.Bias)
	}
	folded := norm.Fold(u.w.F32, bias, u.half)
	if k.to != nil {
		sums, bias := folded.Arrays()
		k.to.Folded[name] = foldedArrays{sums, bias}
	}
	return folded
}

// wide returns the weights as float32, [out, in], until the next call.
func (k *packing) wide(u unpacked) []float32 {
	wide := k.to.floats(u.out * u.in)
	switch {
	case !u.transposed && u.w.F16 != nil:
		kernel.Widen(wide, u.w.F16)
	case !u.transposed:
		copy(wide, u.w.float32s())
	case u.w.F16 != nil:
		row := make([]float32, u.out)
		for i := range u.in {
			kernel.Widen(row, u.w.F16[i*u.out:][:u.out])
			scatter(wide[i:], row, u.in)
		}
	default:
		w := u.w.float32s()
		for i := range u.in {
			scatter(wide[i:], w[i*u.out:][:u.out], u.in)
		}
	}
	return wide
}

// scatter copies elements to positions that are stride apart.
func scatter(to, from []float32, stride int) {
	for i, x := range from {
		to[i*stride] = x
	}
}

// sharedLayout describes a file of LoadShared. The file begins with the packed matrices, each at a
// multiple of 64 bytes. After them it has the layout (JSON), the tensors that are not packed
// (safetensors) and a footer.
type sharedLayout struct {
	Manifest Manifest
	Hash     string
	Bytes    int
	Float16  bool
	Prior    *Prior
	Halves   []bool // of each matrix: its weights are float16
	Folded   map[string]foldedArrays
}

type foldedArrays struct{ Sums, Bias []float32 }

// sharedFooter is the end of the file, little-endian.
type sharedFooter struct {
	Layout, Small uint64   // sizes of layout and tensors, bytes
	Sum           [32]byte // sha256 of both
}

func aligned(n int) int { return (n + 63) &^ 63 }

// seals make a memory file constant.
const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK

// LoadShared is LoadDir of a file system, with the packed weights in a sealed file in memory.
// Another process opens this file with OpenShared and uses the same copy of the weights. dir names
// the model in errors. The mapping of the file stays until the process ends.
//
// After loading, the process does not keep unused memory, which mlockall(2) would lock. LoadShared
// calls packs between reading and packing the weights.
func LoadShared(fsys fs.FS, dir string, packs func()) (b *Bundle, weights *os.File, err error) {
	fd, err := unix.MemfdCreate("optibfm-weights", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("tflite: memfd_create: %w", err)
	}
	to := &sharedWriter{file: os.NewFile(uintptr(fd), "weights")}
	to.Folded, to.mapped = map[string]foldedArrays{}, map[*byte][]byte{}
	defer to.free()
	packed := &packing{begins: packs, to: to}
	if b, err = loadAny(fsys, dir, packed); err == nil {
		err = to.finish(b, packed.small)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("tflite: %s: %w", dir, err), to.file.Close())
	}
	return b, to.file, nil
}

// sharedWriter writes the file of LoadShared. The methods of a nil sharedWriter write nothing and
// return memory on the heap, or nil.
type sharedWriter struct {
	file *os.File
	sharedLayout
	matrices []*kernel.Matrix
	end      int // of the matrices in the file
	writing  sync.WaitGroup
	err      error // the first one of the writing

	// mapped has the mappings that this load made and has not released, by their first byte.
	// Another load may get the same address after a release. The memory is outside the heap,
	// because the garbage collector would keep its pages.
	mapped    map[*byte][]byte
	layers    [2][]byte // panels of this layer, and of the one before, which is being written
	wideLayer []byte    // a layer as float32
}

// add writes a matrix while the caller packs the next one. After finish the matrix uses the file.
func (w *sharedWriter) add(m *kernel.Matrix) {
	if w == nil {
		return
	}
	w.writing.Wait()
	raw, at := m.Raw(), int64(w.end)
	w.writing.Go(func() {
		if _, err := w.file.WriteAt(raw, at); w.err == nil {
			w.err = err
		}
	})
	w.end += aligned(m.Bytes())
	w.matrices = append(w.matrices, m)
	w.Halves = append(w.Halves, m.Half())
}

// finish completes and seals the file, and lets the matrices use it.
func (w *sharedWriter) finish(b *Bundle, small map[string]Tensor) error {
	w.writing.Wait()
	w.Manifest, w.Hash, w.Bytes, w.Float16, w.Prior = b.Manifest, b.Hash, b.Bytes, b.Float16, b.Prior
	text, err := json.Marshal(w.sharedLayout)
	end := bytes.NewBuffer(text)
	if err := errors.Join(w.err, err, writeSafetensors(end, small)); err != nil {
		return err
	}
	footer := sharedFooter{uint64(len(text)), uint64(end.Len() - len(text)), sha256.Sum256(end.Bytes())}
	if err := binary.Write(end, binary.LittleEndian, footer); err != nil {
		return err
	}
	if _, err := w.file.WriteAt(end.Bytes(), int64(w.end)); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(w.file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("seals: %w", err)
	}
	raw, err := mapSealed(w.file)
	if err != nil {
		return err
	}
	for _, m := range w.matrices {
		*m = *kernel.View(m.Out(), m.In(), m.Half(), raw[:m.Bytes()])
		raw = raw[aligned(m.Bytes()):]
	}
	return nil
}

// tensor returns memory for a tensor that will be packed, and nil for any other tensor.
func (w *sharedWriter) tensor(s span) []byte {
	if w == nil || !isLinear(s.name, s.shape) {
		return nil
	}
	return w.allocate(int(s.stop - s.begin))
}

// allocate returns memory outside the heap, or nil if mmap fails.
func (w *sharedWriter) allocate(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // fewer page faults
	w.mapped[unsafe.SliceData(b)] = b
	return b
}

// release unmaps the memory of a packed tensor if allocate returned it.
func (w *sharedWriter) release(t Tensor) {
	if w == nil {
		return
	}
	first := unsafe.SliceData(bytesOf(t.F16))
	if t.F16 == nil {
		first = unsafe.SliceData(bytesOf(t.F32))
	}
	if b, ok := w.mapped[first]; ok {
		delete(w.mapped, first)
		_ = unix.Munmap(b)
	}
}

// panels returns memory for the panels of a layer until the next call, or nil.
func (w *sharedWriter) panels(n int) []byte {
	if w == nil {
		return nil
	}
	w.layers[0], w.layers[1] = w.layers[1], w.layers[0]
	return w.resize(&w.layers[0], n)
}

// floats returns memory for n numbers until the next call.
func (w *sharedWriter) floats(n int) []float32 {
	if w != nil {
		if b := w.resize(&w.wideLayer, 4*n); b != nil {
			return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), n)
		}
	}
	return make([]float32, n)
}

func (w *sharedWriter) resize(b *[]byte, n int) []byte {
	if len(*b) < n {
		*b = w.allocate(n)
	}
	return (*b)[:min(n, len(*b)):len(*b)]
}

// free releases all memory outside the heap.
func (w *sharedWriter) free() {
	w.writing.Wait()
	for _, b := range w.mapped {
		_ = unix.Munmap(b)
	}
}

// mapSealed maps a sealed file for reading.
func mapSealed(f *os.File) ([]byte, error) {
	found, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("seals: %w", err)
	}
	if found&seals != seals {
		return nil, fmt.Errorf("the seals are %#x, want %#x", found, seals)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
}

// sharedWeights has the contents of a file of LoadShared.
type sharedWeights struct {
	sharedLayout
	shapes map[string][]int
	raw    []byte // matrices that next has not returned yet
	made   int
	short  bool // arrays are missing
}

// shapeOf returns the sizes of a layer.
func (p parts) shapeOf(name string) unpacked {
	shape := p.from.shapes[name]
	if p.members == 1 {
		return unpacked{out: shape[0], in: shape[1]}
	}
	return unpacked{out: shape[2], in: shape[1]}
}

// next returns the next matrix.
func (s *sharedWeights) next(out, in int) *kernel.Matrix {
	if s.made < len(s.Halves) {
		half := s.Halves[s.made]
		if size := kernel.RawBytes(out, in, half); aligned(size) <= len(s.raw) {
			m := kernel.View(out, in, half, s.raw[:size:size])
			s.raw = s.raw[aligned(size):]
			s.made++
			return m
		}
	}
	s.short = true
	return kernel.Pack(make([]float32, out*in), out, in, in)
}

var errShared = errors.New("the file is damaged")

// OpenShared returns the bundle in a file of LoadShared.
func OpenShared(f *os.File) (*Bundle, error) {
	b, err := openShared(f)
	if err != nil {
		return nil, fmt.Errorf("tflite: shared weights: %w", err)
	}
	return b, nil
}

func openShared(f *os.File) (*Bundle, error) {
	raw, err := mapSealed(f)
	if err != nil {
		return nil, err
	}
	s := sharedWeights{}
	small, err := s.parse(raw)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Manifest: s.Manifest, Hash: s.Hash, Bytes: s.Bytes, Float16: s.Float16, Prior: s.Prior}
	if b.weights, err = newWeights(s.Manifest, small, &packing{from: &s}); err != nil {
		return nil, err
	}
	if s.short || s.made != len(s.Halves) || len(s.raw) != 0 {
		return nil, errShared
	}
	return b, nil
}

// parse checks all but the packed weights. It returns the tensors that are not packed.
func (s *sharedWeights) parse(raw []byte) (small map[string]Tensor, err error) {
	var footer sharedFooter
	at := len(raw) - binary.Size(footer)
	if at < 0 {
		return nil, errShared
	}
	if _, err := binary.Decode(raw[at:], binary.LittleEndian, &footer); err != nil {
		return nil, err
	}
	if footer.Layout > uint64(at) || footer.Small > uint64(at)-footer.Layout {
		return nil, errShared
	}
	begin := at - int(footer.Layout+footer.Small)
	if begin%64 != 0 || sha256.Sum256(raw[begin:at]) != footer.Sum {
		return nil, errShared
	}
	text := raw[begin:][:footer.Layout]
	if err := json.Unmarshal(text, &s.sharedLayout); err != nil {
		return nil, err
	}
	if small, err = parseSafetensors(raw[begin+len(text) : at]); err != nil {
		return nil, err
	}
	if err := s.Manifest.Validate(); err != nil {
		return nil, err
	}
	s.raw, s.shapes = raw[:begin], s.Manifest.Architecture.Tensors()
	return small, checkSmall(s.shapes, small, s.Manifest.Architecture.Latent)
}

// checkSmall returns an error unless the tensors are those that are not packed.
func checkSmall(shapes map[string][]int, small map[string]Tensor, latent int) error {
	want := map[string][]int{}
	for name, shape := range shapes {
		if !isLinear(name, shape) {
			want[name] = shape
		}
	}
	if _, ok := small[covName]; ok {
		want[covName] = []int{latent, latent}
	}
	return checkShapes(want, small)
}
