package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/x448/float16"
)

const (
	panelWidth  = 16 // outputs of a panel
	groupPanels = 4  // panels that are processed at once for a single row

	// inputBlock is the number of inputs that the tiles process at once: its
	// panels, 16 KiB, stay in the first-level cache for all rows.
	inputBlock = 256
)

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
func Pack(w []float32, out, in, stride int) *Matrix {
	m := &Matrix{in: in, out: out, packed: Aligned(Padded(out) * in)}
	m.Set(w, stride)
	return m
}

// PackHalf is Pack with the weights rounded to float16, which halves their memory. Products and
// sums remain float32.
func PackHalf(w []float32, out, in, stride int) *Matrix {
	m := &Matrix{in: in, out: out, half: make([]float16.Float16, Padded(out)*in)}
	for o := range out {
		panel := m.half[(o-o%panelWidth)*in:]
		for k, v := range w[o*stride:][:in] {
			panel[k*panelWidth+o%panelWidth] = float16.Fromfloat32(v)
		}
	}
	return m
}

// In returns the number of inputs.
func (m *Matrix) In() int { return m.in }

// Out returns the number of outputs.
func (m *Matrix) Out() int { return m.out }

// Set replaces the weights of a float32 matrix. It must not run during Multiply.
func (m *Matrix) Set(w []float32, stride int) {
	for o := range m.out {
		panel := m.packed[(o-o%panelWidth)*m.in:]
		for k, v := range w[o*stride:][:m.in] {
			panel[k*panelWidth+o%panelWidth] = v
		}
	}
}

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

// Scratch is the memory of products with sparse inputs or float16 weights.
type Scratch struct {
	inputs  []uint32  // [tiles, inputBlock], lists
	lengths []int     // [tiles]
	widened []float32 // a block of weights
}

// NewScratch returns memory for up to n rows of up to in inputs.
func NewScratch(n, in int) *Scratch {
	tiles := tilesOf(n)
	return &Scratch{
		make([]uint32, max(tiles*inputBlock, in)), make([]int, tiles), Aligned(inputBlock * panelWidth),
	}
}

// Multiply computes dst = start + x·wᵀ of n rows, and max(·, 0) of it if relu is set.
// dst is [n, out], x [n, in], start [n, out]. dst and start may be the same; x must not
// overlap dst. If sparse is set, it skips inputs that are 0 in all rows of a tile. s may be
// nil if sparse is not set and the weights are float32 or n is 1. It returns
// the number of floating-point operations, two for a multiply-add, and the bytes of the
// weights, inputs and outputs that it used. It panics if a slice is too short.
func (m *Matrix) Multiply(dst, x, start Rows, n int, relu, sparse bool, s *Scratch) (flops, bytes int) {
	m.check(dst, x, start, n)
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	if n == 1 && m.half != nil {
		m.singleHalf(dst.Data, x.Data, start.Data, floor)
		return m.effort(1, m.in, m.in)
	}
	if n == 1 {
		multiplied := m.single(dst.Data, x.Data, start.Data, floor, sparse, s)
		return m.effort(1, multiplied, multiplied)
	}
	multiplied := 0 // inputs, summed over the rows
	for from := 0; from < m.in; from += inputBlock {
		b := block{from: from, inputs: min(inputBlock, m.in-from), floor: float32(math.Inf(-1))}
		if from+b.inputs == m.in {
			b.floor = floor
		}
		if sparse {
			multiplied += m.sparse(dst, x, start, n, b, s)
		} else {
			m.dense(dst, x, start, n, b, s)
			multiplied += n * b.inputs
		}
		start = dst
	}
	return m.effort(n, multiplied, (multiplied+n-1)/n)
}

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

// single multiplies one row, by up to four panels at once and without blocks of inputs:
// each weight is used only once. It returns the number of multiplied inputs.
func (m *Matrix) single(dst, x, start []float32, floor float32, sparse bool, s *Scratch) (multiplied int) {
	panel := panelWidth * m.in
	multiplied = m.in
	var list []uint32
	if sparse {
		list = s.inputs[:m.in]
		multiplied = active(1, list, x, 0, m.in)
		list = list[:multiplied]
	}
	for at := 0; at < m.out; {
		panels := min(groupPanels, (m.out-at+panelWidth-1)/panelWidth)
		if sparse {
			sparseVectorTile(panels, dst[at:], x, m.packed[at*m.in:], panel, list, start[at:], floor)
		} else {
			vectorTile(panels, dst[at:], x, m.packed[at*m.in:], panel, m.in, start[at:], floor)
		}
		at += panels * panelWidth
	}
	return multiplied
}

// singleHalf is single with float16 weights. The memory limits its speed: it reads all inputs.
func (m *Matrix) singleHalf(dst, x, start []float32, floor float32) {
	for at := 0; at < m.out; {
		panels := min(groupPanels, (m.out-at+panelWidth-1)/panelWidth)
		halfVectorTile(panels, dst[at:], x, m.half[at*m.in:], panelWidth*m.in, m.in, start[at:], floor)
		at += panels * panelWidth
	}
}

// block returns the weights of a block of inputs of the panel of output at.
func (m *Matrix) block(at int, b block, s *Scratch) []float32 {
	if m.half == nil {
		return m.packed[at*m.in+b.from*panelWidth:]
	}
	w := s.widened[:b.inputs*panelWidth]
	widen(w, m.half[at*m.in+b.from*panelWidth:][:len(w)])
	return w
}

// block is a range of the inputs.
type block struct {
	from, inputs int
	floor        float32
}

// tilesOf returns the number of tiles of n rows, tile the rows of one. The tiles have
// nearly equal heights: a low tile is less efficient.
func tilesOf(n int) int { return (n + tileRows - 1) / tileRows }

func tile(t, n int) (row, stop int) { return t * n / tilesOf(n), (t + 1) * n / tilesOf(n) }

// dense processes one panel after another, each for all rows.
func (m *Matrix) dense(dst, x, start Rows, n int, b block, s *Scratch) {
	for at := 0; at < m.out; at += panelWidth {
		w := m.block(at, b, s)
		for t := range tilesOf(n) {
			row, stop := tile(t, n)
			denseTile(stop-row, dst.at(row, at), x.at(row, b.from), w, b.inputs, start.at(row, at), b.floor)
		}
	}
}

// sparse is dense without the inputs that are 0 in all rows of a tile. It returns the
// number of multiplied inputs, summed over the rows.
func (m *Matrix) sparse(dst, x, start Rows, n int, b block, s *Scratch) (multiplied int) {
	for t := range tilesOf(n) {
		row, stop := tile(t, n)
		list := s.inputs[t*inputBlock:][:b.inputs]
		s.lengths[t] = active(stop-row, list, x.Data[row*x.Stride+b.from:], x.Stride, b.inputs)
		multiplied += (stop - row) * s.lengths[t]
	}
	for at := 0; at < m.out; at += panelWidth {
		w := m.block(at, b, s)
		for t := range tilesOf(n) {
			row, stop := tile(t, n)
			list := s.inputs[t*inputBlock:][:s.lengths[t]]
			sparseTile(stop-row, dst.at(row, at), x.at(row, b.from), w, list, start.at(row, at), b.floor)
		}
	}
	return multiplied
}

// At returns one weight.
func (m *Matrix) At(out, in int) float32 {
	i := (out-out%panelWidth)*m.in + in*panelWidth + out%panelWidth
	if m.half != nil {
		return m.half[i].Float32()
	}
	return m.packed[i]
}
