package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/x448/float16"
)

const (
	panelWidth  = 16 // outputs of a panel
	groupPanels = 4  // panels that are processed at once for a single row, and with AVX-512
	groupWidth  = groupPanels * panelWidth
)

// inputBlock is the number of inputs that the tiles process at once. The weights of a panel, 16
// KiB, stay in the first-level cache for all rows. With AVX-512 those of a group, up to 512 KiB,
// stay in the second-level cache, which suffices: six rows use a weight at once.
var inputBlock = inputBlockOf(wide)

func inputBlockOf(wide bool) int {
	if wide {
		return 2048
	}
	return 256
}

// Padded returns the capacity of a row of a width: the least multiple of 16.
func Padded(width int) int { return (width + panelWidth - 1) &^ (panelWidth - 1) }

// Rows are rows of numbers, Stride elements apart. A Stride of 0 repeats one row.
type Rows struct {
	Data   []float32
	Stride int
}

// NewRows returns n rows of zeros with capacity for Padded(width) elements each.
func NewRows(n, width int) Rows {
	stride := Padded(width)
	if stride%256 == 0 {
		// Rows at multiples of 1 KiB would share few sets of the first-level
		// cache.
		stride += panelWidth
	}
	return Rows{Aligned(n * stride), stride}
}

// From returns the rows from number i on.
func (r Rows) From(i int) Rows { return Rows{r.Data[i*r.Stride:], r.Stride} }

// at returns the rows from number i on, without their first elements.
func (r Rows) at(i, element int) Rows { return Rows{r.Data[i*r.Stride+element:], r.Stride} }

// Row returns the first width elements of row i.
func (r Rows) Row(i, width int) []float32 { return r.Data[i*r.Stride:][:width] }

// Repeated returns one row, with capacity for Padded elements, as every row.
func Repeated(row []float32) Rows { return Rows{Data: row[:Padded(len(row))]} }

// Aligned returns n zeros that begin a cache line, with capacity for Padded(n).
func Aligned(n int) []float32 {
	const line = 16
	x := make([]float32, Padded(n)+line)
	skip := (line - int(uintptr(unsafe.Pointer(&x[0]))/4%line)) % line
	return x[skip:][:n]
}

// Matrix is a packed matrix of weights, w [out, in]: panels [in, 16], of float32 or of float16.
type Matrix struct {
	in, out int
	packed  []float32
	half    []float16.Float16 // instead of packed
}

// Pack packs w, [out, in] with rows stride apart.
func Pack(w []float32, out, in, stride int) *Matrix { return PackAs(nil, w, out, in, stride, false) }

// PackHalf is Pack with the weights rounded to float16, which halves their memory. Products and
// sums remain float32.
func PackHalf(w []float32, out, in, stride int) *Matrix { return PackHalfIn(nil, w, out, in, stride) }

// PackHalfIn is PackHalf with memory for the matrix, as in PackAs.
func PackHalfIn(memory []byte, w []float32, out, in, stride int) *Matrix {
	m := newMatrix(memory, out, in, true)
	for o := range out {
		panel := m.half[(o-o%panelWidth)*in:]
		for k, v := range w[o*stride:][:in] {
			panel[k*panelWidth+o%panelWidth] = float16.Fromfloat32(v)
		}
	}
	return m
}

// PackAs is Pack for weights of either type. If transposed is set, w is [in, out] with rows stride
// apart. The matrix uses memory, which has at least RawBytes bytes at an address that is a multiple
// of 64. If memory is nil, PackAs allocates it.
func PackAs[T float32 | float16.Float16](memory []byte, w []T, out, in, stride int, transposed bool) *Matrix {
	switch w := any(w).(type) {
	case []float16.Float16:
		m := newMatrix(memory, out, in, true)
		place(m.half, w, out, in, stride, transposed)
		return m
	case []float32:
		m := newMatrix(memory, out, in, false)
		place(m.packed, w, out, in, stride, transposed)
		return m
	}
	panic("kernel: neither float32 nor float16")
}

// newMatrix returns a matrix with zeros beyond its outputs.
func newMatrix(memory []byte, out, in int, half bool) *Matrix {
	switch {
	case memory != nil:
		raw := memory[:RawBytes(out, in, half)]
		if out%panelWidth != 0 {
			clear(raw)
		}
		return View(out, in, half, raw)
	case half:
		return &Matrix{in: in, out: out, half: make([]float16.Float16, Padded(out)*in)}
	}
	return &Matrix{in: in, out: out, packed: Aligned(Padded(out) * in)}
}

// place writes weights as panels.
func place[T any](panels, w []T, out, in, stride int, transposed bool) {
	if !transposed {
		for o := range out {
			panel := panels[(o-o%panelWidth)*in:]
			for k, v := range w[o*stride:][:in] {
				panel[k*panelWidth+o%panelWidth] = v
			}
		}
		return
	}
	const rows = 64 // of w, which stay in the second-level cache for all panels
	for first := 0; first < in; first += rows {
		for o := 0; o < out; o += panelWidth {
			panel, n := panels[o*in:], min(panelWidth, out-o)
			for k := first; k < min(first+rows, in); k++ {
				if n == panelWidth { // without a call of memmove
					*(*[panelWidth]T)(panel[k*panelWidth:]) = [panelWidth]T(w[k*stride+o:])
				} else {
					copy(panel[k*panelWidth:][:n], w[k*stride+o:])
				}
			}
		}
	}
}

// Widen converts float16 to float32. dst is as long as src.
func Widen(dst []float32, src []float16.Float16) {
	whole := len(src) &^ (panelWidth - 1)
	widen(dst[:whole], src[:whole])
	portableWiden(dst[whole:], src[whole:])
}

// View returns a matrix with the weights of another one of its sizes, of float16 if half is set:
// raw is that one's Raw, at an address that is a multiple of 64. It panics if raw has another
// length.
func View(out, in int, half bool, raw []byte) *Matrix {
	m := &Matrix{in: in, out: out}
	n := Padded(out) * in
	if len(raw) != RawBytes(out, in, half) {
		panic(fmt.Sprintf("kernel: %d bytes of [%d, %d], half %t", len(raw), out, in, half))
	}
	if half {
		m.half = unsafe.Slice((*float16.Float16)(unsafe.Pointer(unsafe.SliceData(raw))), n)
	} else {
		m.packed = unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(raw))), n)
	}
	return m
}

// RawBytes returns the length of Raw of a matrix.
func RawBytes(out, in int, half bool) int {
	if half {
		return 2 * Padded(out) * in
	}
	return 4 * Padded(out) * in
}

// Half reports whether the weights are float16.
func (m *Matrix) Half() bool { return m.half != nil }

// Raw returns the memory of the packed weights, which only the same processor can read.
func (m *Matrix) Raw() []byte {
	if m.half != nil {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(m.half))), m.Bytes())
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(m.packed))), m.Bytes())
}

// In returns the number of inputs.
func (m *Matrix) In() int { return m.in }

// Out returns the number of outputs.
func (m *Matrix) Out() int { return m.out }

// Set replaces the weights of a float32 matrix. It must not run during Multiply.
func (m *Matrix) Set(w []float32, stride int) { place(m.packed, w, m.out, m.in, stride, false) }

// Transposed returns wᵀ, [in, out].
func (m *Matrix) Transposed() *Matrix {
	t := &Matrix{in: m.out, out: m.in}
	if m.half != nil {
		t.half = make([]float16.Float16, Padded(t.out)*t.in)
		transpose(t.half, m.half, m.out, m.in)
		return t
	}
	t.packed = Aligned(Padded(t.out) * t.in)
	transpose(t.packed, m.packed, m.out, m.in)
	return t
}

func transpose[T any](to, from []T, out, in int) {
	for o := range out {
		panel := from[(o-o%panelWidth)*in:]
		for k := range in {
			to[(k-k%panelWidth)*out+o*panelWidth+k%panelWidth] = panel[k*panelWidth+o%panelWidth]
		}
	}
}

// Scratch is the memory of products with sparse inputs or float16 weights, and the team that
// divides them.
type Scratch struct {
	team    *Team
	inputs  []uint32    // [blocks, tiles, inputBlock], lists
	lengths []int       // [blocks, tiles]
	widened [][]float32 // for each worker, a block of the weights of a group
}

// NewScratch returns memory for up to n rows of up to in inputs. A nil team is the caller alone.
func NewScratch(n, in int, team *Team) *Scratch {
	blocks, tiles := (in+inputBlock-1)/inputBlock, tilesOf(n)
	s := &Scratch{team, make([]uint32, blocks*tiles*inputBlock), make([]int, blocks*tiles), nil}
	for range team.workers() {
		s.widened = append(s.widened, Aligned(min(inputBlock, in)*groupWidth))
	}
	return s
}

// product is the work of one Multiply.
type product struct {
	m             *Matrix
	dst, x, start Rows
	n             int
	floor         float32
	sparse        bool
	s             *Scratch
}

// Multiply computes dst = start + x·wᵀ of n rows, and max(·, 0) of it if relu is set.
// dst is [n, out], x [n, in], start [n, out]. dst and start may be the same; x must not
// overlap dst. If sparse is set, it skips inputs that are 0 in all rows of a tile. s may be
// nil if sparse is not set and the weights are float32 or n is 1. It returns
// the number of floating-point operations, two for a multiply-add, and the bytes of the
// weights, inputs and outputs that it used. It panics if a slice is too short.
func (m *Matrix) Multiply(dst, x, start Rows, n int, relu, sparse bool, s *Scratch) (flops, bytes int) {
	m.check(dst, x, start, n)
	// A single row with float16 weights reads all inputs: the memory limits its speed.
	p := product{m, dst, x, start, n, float32(math.Inf(-1)), sparse && (n > 1 || m.half == nil), s}
	if relu {
		p.floor = 0
	}
	var team *Team
	if s != nil && s.team.divides(n*m.in*m.out) {
		team = s.team
	}
	multiplied := n * m.in // inputs, summed over the rows
	if p.sparse {
		multiplied = p.list(team)
	}
	if team != nil {
		team.product = p
		team.run(&team.product, p.groups())
	} else {
		p.outputs(0, 0, m.out)
	}
	return m.effort(n, multiplied, (multiplied+n-1)/n)
}

// Bytes returns the size of the packed weights.
func (m *Matrix) Bytes() int { return RawBytes(m.out, m.in, m.Half()) }

// effort returns Multiply's counts for n rows: multiplied is the number of inputs,
// summed over the rows, read the number of inputs with used weights.
func (m *Matrix) effort(n, multiplied, read int) (flops, bytes int) {
	size := 4
	if m.half != nil {
		size = 2
	}
	return 2 * multiplied * m.out, size*read*m.out + 4*n*(m.in+m.out)
}

// check panics if a slice is too short. The assembly does not check.
func (m *Matrix) check(dst, x, start Rows, n int) {
	out := Padded(m.out)
	short := func(r Rows, width int) bool { return r.Stride < 0 || len(r.Data) < (n-1)*r.Stride+width }
	if n < 1 || short(x, m.in) || short(dst, out) || short(start, out) {
		panic(fmt.Sprintf("kernel: %d rows of [%d, %d]: dst has %d elements, x %d, start %d",
			n, m.out, m.in, len(dst.Data), len(x.Data), len(start.Data)))
	}
}

// do computes a part of the outputs.
func (p *product) do(worker, part, count int) {
	from, to := part*p.groups()/count, (part+1)*p.groups()/count
	p.outputs(worker, from*groupWidth, min(to*groupWidth, p.m.out))
}

// list lists the inputs that are not 0 in all rows of a tile, and returns their number, summed over
// the rows. A team divides the tiles.
func (p *product) list(team *Team) (multiplied int) {
	if p.n == 1 {
		p.s.lengths[0] = active(1, p.s.inputs, p.x.Data, 0, p.m.in)
		return p.s.lengths[0]
	}
	tiles := tilesOf(p.n)
	if team != nil {
		team.product = *p
		team.rows = rows{(*lists)(&team.product), tiles}
		team.run(&team.rows, tiles)
	} else {
		(*lists)(p).Rows(0, tiles)
	}
	for t := range tiles {
		row, stop := tile(t, p.n)
		for from := 0; from < p.m.in; from += inputBlock {
			_, length := p.s.listAt(from, t, tiles)
			multiplied += (stop - row) * *length
		}
	}
	return multiplied
}

// lists lists the inputs of a product.
type lists product

// Rows lists the inputs of the tiles from..to.
func (p *lists) Rows(from, to int) {
	for t := from; t < to; t++ {
		row, stop := tile(t, p.n)
		for first := 0; first < p.m.in; first += inputBlock {
			list, length := p.s.listAt(first, t, tilesOf(p.n))
			inputs := min(inputBlock, p.m.in-first)
			*length = active(stop-row, list[:inputs], p.x.Data[row*p.x.Stride+first:], p.x.Stride, inputs)
		}
	}
}

// listAt returns the memory of the list of a tile in the block that begins with an input.
func (s *Scratch) listAt(from, t, tiles int) (list []uint32, length *int) {
	return s.inputs[from*tiles+t*inputBlock:], &s.lengths[from/inputBlock*tiles+t]
}

// groups returns the number of groups of panels.
func (p *product) groups() int { return (p.m.out + groupWidth - 1) / groupWidth }

// outputs computes the outputs from..to, where from is a multiple of groupWidth. worker is the
// number of the worker.
func (p *product) outputs(worker, from, to int) {
	if p.n == 1 {
		p.single(from, to)
		return
	}
	start := p.start
	for first := 0; first < p.m.in; first += inputBlock {
		b := block{first, min(inputBlock, p.m.in-first), float32(math.Inf(-1)), start}
		if first+b.inputs == p.m.in {
			b.floor = p.floor
		}
		for at := from; at < to; {
			panels := 1
			if wide && to-at > groupWidth-panelWidth {
				panels = groupPanels
			}
			p.tiles(worker, at, panels, b)
			at += panels * panelWidth
		}
		start = p.dst
	}
}

// block is a range of the inputs and the sums before it.
type block struct {
	from, inputs int
	floor        float32
	start        Rows
}

// tiles processes one panel, or a group of them, for all rows.
func (p *product) tiles(worker, at, panels int, b block) {
	w, stride := p.weights(worker, at, panels, b)
	tiles := tilesOf(p.n)
	for t := range tiles {
		row, stop := tile(t, p.n)
		dst, x, start := p.dst.at(row, at), p.x.at(row, b.from), b.start.at(row, at)
		switch {
		case p.sparse:
			list, length := p.s.listAt(b.from, t, tiles)
			if panels == 1 {
				sparseTile(stop-row, dst, x, w, list[:*length], start, b.floor)
			} else {
				sparseGroup(stop-row, dst, x, w, stride, list[:*length], start, b.floor)
			}
		case panels == 1:
			denseTile(stop-row, dst, x, w, b.inputs, start, b.floor)
		default:
			denseGroup(stop-row, dst, x, w, stride, b.inputs, start, b.floor)
		}
	}
}

// weights returns the weights of a block of the inputs of panels from output at on, stride elements
// apart.
func (p *product) weights(worker, at, panels int, b block) (w []float32, stride int) {
	m := p.m
	if m.half == nil {
		return m.packed[at*m.in+b.from*panelWidth:], m.in * panelWidth
	}
	stride = b.inputs * panelWidth
	w = p.s.widened[worker][:panels*stride]
	for i := range panels {
		widen(w[i*stride:][:stride], m.half[(at+i*panelWidth)*m.in+b.from*panelWidth:][:stride])
	}
	return w, stride
}

// single multiplies one row, by up to four panels at once and without blocks of inputs:
// each weight is used only once.
func (p *product) single(from, to int) {
	m, stride := p.m, panelWidth*p.m.in
	for at := from; at < to; {
		panels := min(groupPanels, (to-at+panelWidth-1)/panelWidth)
		dst, start := p.dst.Data[at:], p.start.Data[at:]
		switch {
		case m.half != nil:
			halfVectorTile(panels, dst, p.x.Data, m.half[at*m.in:], stride, m.in, start, p.floor)
		case p.sparse:
			list := p.s.inputs[:p.s.lengths[0]]
			sparseVectorTile(panels, dst, p.x.Data, m.packed[at*m.in:], stride, list, start, p.floor)
		default:
			vectorTile(panels, dst, p.x.Data, m.packed[at*m.in:], stride, m.in, start, p.floor)
		}
		at += panels * panelWidth
	}
}

// tilesOf returns the number of tiles of n rows, tile the rows of one. The tiles have
// nearly equal heights: a low tile is less efficient.
func tilesOf(n int) int { return (n + tileRows - 1) / tileRows }

func tile(t, n int) (row, stop int) { return t * n / tilesOf(n), (t + 1) * n / tilesOf(n) }

// At returns one weight.
func (m *Matrix) At(out, in int) float32 {
	i := (out-out%panelWidth)*m.in + in*panelWidth + out%panelWidth
	if m.half != nil {
		return m.half[i].Float32()
	}
	return m.packed[i]
}
