package tflite

import (
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

// linear is y = w·x + bias, w [out, in].
type linear struct {
	w    blas32.General
	bias []float32
}

func (l linear) out() int { return l.w.Rows }

// inputs returns the part of w that multiplies the inputs from..to.
func (l linear) inputs(from, to int) blas32.General {
	return blas32.General{Rows: l.w.Rows, Cols: to - from, Stride: l.w.Stride, Data: l.w.Data[from:]}
}

// rows applies l to n rows.
func (l linear) rows(dst, x []float32, n int) {
	repeat(dst, l.bias, n)
	addRows(dst, l.w, x, n)
}

// repeat writes row n times, padded.
func repeat(dst, row []float32, n int) {
	stride := padded(len(row))
	for i := range n {
		copy(dst[i*stride:], row)
	}
}

// layerNorm is y = gain·(x - mean x)/√(var x + eps) + bias.
type layerNorm struct {
	gain, bias []float32
	eps        float64
}

// tanhRows normalises each of n rows and applies tanh, in place.
func (l layerNorm) tanhRows(x []float32, n int) {
	width, stride := len(l.gain), padded(len(l.gain))
	for i := range n {
		row := x[i*stride : i*stride+width]
		mean, scale := l.moments(row)
		for k, v := range row {
			row[k] = (v-mean)*scale*l.gain[k] + l.bias[k]
		}
		tanh(row)
	}
}

// moments returns a row's mean and the reciprocal of its deviation. The sums
// are float64: they cost little beside the products.
func (l layerNorm) moments(row []float32) (mean, scale float32) {
	sum := 0.0
	for _, v := range row {
		sum += float64(v)
	}
	m := sum / float64(len(row))
	squares := 0.0
	for _, v := range row {
		squares += (float64(v) - m) * (float64(v) - m)
	}
	return float32(m), float32(1 / math.Sqrt(squares/float64(len(row))+l.eps))
}

// embedding is linear, LayerNorm, tanh, then pairs of linear and ReLU. Its
// input is an observation followed by what varies between candidates.
type embedding struct {
	first linear
	norm  layerNorm
	more  []linear
}

func (e embedding) out() int { return e.more[len(e.more)-1].out() }

// twin is the shape of the actor and of every member of F: two embeddings side
// by side and a trunk with ReLU between its layers.
type twin struct {
	left, right embedding
	trunk       []linear
}

// backward is B(s).
type backward struct {
	first linear
	norm  layerNorm
	more  []linear // ReLU between them, none after the last
	unit  bool     // scale to the norm √d
}

// widest returns the largest number of elements that a row takes anywhere.
func (t twin) widest() int {
	w := max(t.left.first.out(), t.right.first.out())
	for _, l := range t.trunk {
		w = max(w, l.out())
	}
	return w
}

// scratch is the memory that the layers work in: room for n rows, each padded.
type scratch struct {
	n           int
	a, b        []float32 // [n, widest], the input and the output of a layer in turn
	left, right []float32 // [n, widest], the outputs of the embeddings
	once        []float32 // [widest], what all rows share
}

func newScratch(n, widest int) scratch {
	size := n * padded(widest)
	return scratch{
		n: n,
		a: aligned[float32](size), b: aligned[float32](size),
		left: aligned[float32](size), right: aligned[float32](size),
		once: aligned[float32](widest),
	}
}

// embed evaluates e for one observation and the n rows of varying, which is
// empty where the input is the observation alone (then n is 1). The products
// with the observation are the same for every row and are made once.
func (s *scratch) embed(dst []float32, e embedding, obs, varying []float32, n int) {
	start := s.once[:e.first.out()]
	copy(start, e.first.bias)
	addProduct(start, e.first.inputs(0, len(obs)), obs)
	in, out := s.a, s.b
	repeat(in, start, n)
	if len(varying) > 0 {
		addRows(in, e.first.inputs(len(obs), e.first.w.Cols), varying, n)
	}
	e.norm.tanhRows(in, n)
	for i, l := range e.more {
		if i == len(e.more)-1 {
			out = dst
		}
		l.rows(out, in, n)
		relu(out[:n*padded(l.out())])
		in, out = out, in
	}
}

// twin evaluates t for one observation and n rows of what varies on either
// side. Where nothing varies on the left, its embedding and its part of the
// trunk's first layer are the same for every row and are made once.
func (s *scratch) twin(dst []float32, t twin, obs, left, right []float32, n int) {
	first := t.trunk[0]
	half := t.left.out()
	leftRows := n
	if len(left) == 0 {
		leftRows = 1
	}
	s.embed(s.left, t.left, obs, left, leftRows)
	s.embed(s.right, t.right, obs, right, n)

	in, out := s.a, s.b
	if len(t.trunk) == 1 {
		in = dst
	}
	if leftRows == n {
		repeat(in, first.bias, n)
		addRows(in, first.inputs(0, half), s.left, n)
	} else {
		start := s.once[:first.out()]
		copy(start, first.bias)
		addProduct(start, first.inputs(0, half), s.left[:half])
		repeat(in, start, n)
	}
	addRows(in, first.inputs(half, first.w.Cols), s.right, n)
	for i, l := range t.trunk[1:] {
		relu(in[:n*padded(l.w.Cols)])
		if i == len(t.trunk)-2 {
			out = dst
		}
		l.rows(out, in, n)
		in, out = out, in
	}
}

// backward evaluates B of one observation.
func (s *scratch) backward(dst []float32, b backward, obs []float32) {
	in, out := s.a, s.b
	b.first.rows(in, obs, 1)
	b.norm.tanhRows(in, 1)
	for i, l := range b.more {
		if i > 0 {
			relu(in[:l.w.Cols])
		}
		if i == len(b.more)-1 {
			out = dst
		}
		l.rows(out, in, 1)
		in, out = out, in
	}
	if b.unit {
		toSphere(dst)
	}
}

// toSphere scales x to the norm √len(x); a zero x stays, as in PyTorch.
func toSphere(x []float32) {
	scale := float32(math.Sqrt(float64(len(x)))) / max(norm(x), 1e-12)
	for i := range x {
		x[i] *= scale
	}
}
