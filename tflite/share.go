package tflite

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/x448/float16"
	"golang.org/x/sys/unix"

	"optibfm/tflite/internal/kernel"
)

// seals make a memory file constant.
const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK

// packing makes the matrices of a bundle, or takes them from shared memory.
type packing struct {
	matrices []*kernel.Matrix
	folded   map[string]kernel.Folded // of split blocks
	small    map[string]Tensor        // the tensors that are not packed
	shared   *sharedWeights           // nil: pack
}

// columns packs the weights of the inputs from..to.
func (k *packing) columns(u unpacked, from, to int) (m *kernel.Matrix) {
	switch {
	case k.isShared():
		m = k.shared.next(u.out, to-from)
	case u.w.F16 != nil:
		m = packColumns(u.w.F16, u, from, to)
	case u.half:
		m = kernel.PackHalf(u.w.F32[from:], u.out, to-from, u.in)
	default:
		m = packColumns(u.w.float32s(), u, from, to)
	}
	k.matrices = append(k.matrices, m)
	return m
}

func packColumns[T float32 | float16.Float16](w []T, u unpacked, from, to int) *kernel.Matrix {
	if u.transposed {
		return kernel.PackAs(w[from*u.out:], u.out, to-from, u.out, true)
	}
	return kernel.PackAs(w[from:], u.out, to-from, u.in, false)
}

// fold folds a LayerNorm into the following weights. name is unique.
func (k *packing) fold(norm kernel.LayerNorm, name string, u unpacked, bias []float32) kernel.Folded {
	if k.isShared() {
		f := k.shared.Folded[name]
		if len(f.Sums) != u.out || len(f.Bias) != u.out {
			k.shared.short = true
			f = foldedArrays{bias, bias}
		}
		return norm.RestoreFolded(f.Sums, f.Bias)
	}
	if k.folded == nil {
		k.folded = map[string]kernel.Folded{}
	}
	k.folded[name] = norm.Fold(u.w.F32, bias, u.half)
	return k.folded[name]
}

func (k *packing) isShared() bool { return k.shared != nil }

// sharedWeights begin a file of Share: their length in 8 bytes, JSON, the small tensors as safetensors, then the packed
// weights, each at a multiple of 64 bytes.
type sharedWeights struct {
	Manifest Manifest
	Hash     string
	Bytes    int
	Float16  bool
	Prior    *Prior
	Small    int    // bytes of the small tensors
	Halves   []bool // of each matrix: its weights are float16
	Folded   map[string]foldedArrays

	shapes map[string][]int
	raw    []byte // the matrices that were not taken
	made   int
	short  bool // arrays are missing
}

type foldedArrays struct{ Sums, Bias []float32 }

// shapeOf returns the sizes of a layer.
func (p parts) shapeOf(name string) unpacked {
	shape := p.shared.shapes[name]
	if p.members == 1 {
		return unpacked{out: shape[0], in: shape[1]}
	}
	return unpacked{out: shape[2], in: shape[1]}
}

// next returns the next matrix.
func (s *sharedWeights) next(out, in int) *kernel.Matrix {
	if s.made < len(s.Halves) {
		half := s.Halves[s.made]
		if size := kernel.RawBytes(out, in, half); size <= len(s.raw) {
			m := kernel.View(out, in, half, s.raw[:size:size])
			s.raw = s.raw[min(len(s.raw), aligned(size)):]
			s.made++
			return m
		}
	}
	s.short = true
	return kernel.Pack(make([]float32, out*in), out, in, in)
}

func aligned(n int) int { return (n + 63) &^ 63 }

// Share moves the packed weights into f, an empty file of memfd_create(2) that allows sealing, which it seals, and
// uses them from there: another process that has the file (OpenShared) adds no second copy. Call it before the bundle
// is used elsewhere. The mapping stays until the process ends.
func (b *Bundle) Share(f *os.File) error {
	if err := b.share(f); err != nil {
		return fmt.Errorf("tflite: sharing the weights: %w", err)
	}
	debug.FreeOSMemory() // of the weights on the heap
	return nil
}

func (b *Bundle) share(f *os.File) error {
	at, end, err := b.writeShared(f)
	if err != nil {
		return err
	}
	mapped, err := mapSealed(f, unix.F_ADD_SEALS)
	if err != nil {
		return err
	}
	changed := errors.New("another process changed the file") // it had the file before the seals
	if len(mapped) != end {
		return changed
	}
	for _, m := range b.weights.packing.matrices {
		raw := mapped[at:][:m.Bytes()]
		if !bytes.Equal(raw, m.Raw()) {
			return changed
		}
		*m = *kernel.View(m.Out(), m.In(), m.Half(), raw)
		at += aligned(len(raw))
	}
	return nil
}

// writeShared writes the file and returns where the matrices begin and end.
func (b *Bundle) writeShared(f *os.File) (at, end int, err error) {
	k := b.weights.packing
	s := sharedWeights{
		Manifest: b.Manifest, Hash: b.Hash, Bytes: b.Bytes, Float16: b.Float16, Prior: b.Prior,
		Folded: map[string]foldedArrays{},
	}
	for _, m := range k.matrices {
		s.Halves = append(s.Halves, m.Half())
	}
	for name, folded := range k.folded {
		sums, bias := folded.Arrays()
		s.Folded[name] = foldedArrays{sums, bias}
	}
	var small bytes.Buffer
	if err := writeSafetensors(&small, k.small); err != nil {
		return 0, 0, err
	}
	s.Small = small.Len()
	text, err := json.Marshal(s)
	if err != nil {
		return 0, 0, err
	}
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	head = append(append(head, text...), small.Bytes()...)
	if _, err := f.WriteAt(head, 0); err != nil {
		return 0, 0, err
	}
	at = aligned(len(head))
	end = at
	for _, m := range k.matrices {
		if _, err := f.WriteAt(m.Raw(), int64(end)); err != nil {
			return 0, 0, err
		}
		end += aligned(m.Bytes())
	}
	return at, end, f.Truncate(int64(end))
}

// mapSealed maps a file to read, after it has added or checked the seals.
func mapSealed(f *os.File, command int) ([]byte, error) {
	argument := seals
	if command == unix.F_GET_SEALS {
		argument = 0
	}
	found, err := unix.FcntlInt(f.Fd(), command, argument)
	if err != nil {
		return nil, fmt.Errorf("seals: %w", err)
	}
	if command == unix.F_GET_SEALS && found&seals != seals {
		return nil, fmt.Errorf("the seals are %#x, want %#x", found, seals)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
}

// OpenShared returns the bundle in a file of Share. It returns nil if the file is empty.
func OpenShared(f *os.File) (*Bundle, error) {
	info, err := f.Stat()
	if err == nil && info.Size() == 0 {
		return nil, nil
	}
	var b *Bundle
	if err == nil {
		b, err = openShared(f)
	}
	if err != nil {
		return nil, fmt.Errorf("tflite: shared weights: %w", err)
	}
	return b, nil
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

var errShared = errors.New("the file is damaged")

func openShared(f *os.File) (*Bundle, error) {
	raw, err := mapSealed(f, unix.F_GET_SEALS)
	if err != nil {
		return nil, err
	}
	if len(raw) < 8 || binary.LittleEndian.Uint64(raw) > uint64(len(raw)-8) {
		return nil, errShared
	}
	var s sharedWeights
	text, rest := raw[8:][:binary.LittleEndian.Uint64(raw)], raw[8+binary.LittleEndian.Uint64(raw):]
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if s.Small < 0 || s.Small > len(rest) {
		return nil, errShared
	}
	small, err := parseSafetensors(rest[:s.Small])
	if err != nil {
		return nil, err
	}
	if err := s.Manifest.Validate(); err != nil {
		return nil, err
	}
	s.raw = raw[min(len(raw), aligned(8+len(text)+s.Small)):]
	s.shapes = s.Manifest.Architecture.Tensors()
	if err := checkSmall(s.shapes, small, s.Manifest.Architecture.Latent); err != nil {
		return nil, err
	}
	b := &Bundle{Manifest: s.Manifest, Hash: s.Hash, Bytes: s.Bytes, Float16: s.Float16, Prior: s.Prior}
	if b.weights, err = newWeights(s.Manifest, small, &packing{shared: &s}); err != nil {
		return nil, err
	}
	if s.short || s.made != len(s.Halves) || len(s.raw) != 0 {
		return nil, errShared
	}
	return b, nil
}
