package tflite

import (
	"math"

	"optibfm/tflite/internal/kernel"
)

// linear is y = w·x + bias, w [out, in].
type linear struct {
	w    *kernel.Matrix
	bias []float32
}

func (l linear) out() int { return l.w.Out() }

// pair is a linear layer whose input is two vectors, one behind the other: the
// first is the same for every row of a search or comes from another layer.
type pair struct {
	first, second *kernel.Matrix // second is nil where there is only one vector
	bias          []float32
}

func (p pair) out() int { return p.first.Out() }

// embedding is a linear layer, LayerNorm, tanh, then pairs of linear and ReLU.
// Its input is an observation followed by what varies between candidates.
type embedding struct {
	first pair
	norm  kernel.LayerNorm
	more  []linear
}

func (e embedding) out() int { return e.more[len(e.more)-1].out() }

// varies tells whether the embedding sees more than the observation.
func (e embedding) varies() bool { return e.first.second != nil }

// twin is the shape of the actor and of every member of F: two embeddings side
// by side and a trunk with ReLU between its layers.
type twin struct {
	left, right embedding
	join        pair     // the trunk's first layer
	trunk       []linear // its others
}

// backward is B(s).
type backward struct {
	first linear
	norm  kernel.LayerNorm
	more  []linear // ReLU between them, none after the last
	unit  bool     // scale to the norm √d
}

// widest returns the largest number of elements that a row takes anywhere.
func (t twin) widest() int {
	w := max(t.left.first.out(), t.right.first.out(), t.join.out())
	for _, l := range t.trunk {
		w = max(w, l.out())
	}
	return w
}

// scratch is the memory that the layers work in: room for n rows.
type scratch struct {
	a, b        kernel.Rows // [n, widest], the input and the output of a layer in turn
	left, right kernel.Rows // [n, widest], the outputs of the embeddings
	lists       *kernel.Lists
	work        Work
}

func newScratch(n, widest int) scratch {
	return scratch{
		a: kernel.NewRows(n, widest), b: kernel.NewRows(n, widest),
		left: kernel.NewRows(n, widest), right: kernel.NewRows(n, widest),
		lists: kernel.NewLists(n, widest),
	}
}

// shared is what a twin makes of an observation once for all rows: where the
// sums of its first layers start.
type shared struct {
	left, right, join []float32
}

func newShared(t twin) shared {
	return shared{kernel.Aligned(t.left.first.out()), kernel.Aligned(t.right.first.out()), kernel.Aligned(t.join.out())}
}

// share fills w. Where nothing varies on the left, its whole embedding and its
// part of the trunk's first layer are the same for every row.
func (s *scratch) share(w shared, t twin, obs []float32) {
	row := kernel.Rows{Data: obs}
	for _, side := range []struct {
		start []float32
		e     embedding
	}{{w.left, t.left}, {w.right, t.right}} {
		s.work.add(side.e.first.first.Multiply(kernel.Repeated(side.start), row, kernel.Repeated(side.e.first.bias), 1, false, nil))
	}
	if t.left.varies() {
		copy(w.join, t.join.bias)
		return
	}
	s.embed(s.left, t.left, w.left, kernel.Rows{}, 1)
	s.work.add(t.join.first.Multiply(kernel.Repeated(w.join), s.left, kernel.Repeated(t.join.bias), 1, false, s.lists))
}

// embed evaluates e for n rows of varying.
func (s *scratch) embed(dst kernel.Rows, e embedding, start []float32, varying kernel.Rows, n int) {
	in, out := s.a, s.b
	if e.varies() {
		s.work.add(e.first.second.Multiply(in, varying, kernel.Repeated(start), n, false, nil))
	} else {
		copy(in.Data, start)
	}
	e.norm.Tanh(in, n)
	lists := (*kernel.Lists)(nil) // tanh leaves no zeros, ReLU does
	for i, l := range e.more {
		if i == len(e.more)-1 {
			out = dst
		}
		s.work.add(l.w.Multiply(out, in, kernel.Repeated(l.bias), n, true, lists))
		in, out, lists = out, in, s.lists
	}
}

// twin evaluates t for n rows of what varies on either side.
func (s *scratch) twin(dst kernel.Rows, t twin, w shared, left, right kernel.Rows, n int) {
	s.embed(s.right, t.right, w.right, right, n)
	in, out, start := s.a, s.b, kernel.Repeated(w.join)
	if t.left.varies() {
		s.embed(s.left, t.left, w.left, left, n)
	}
	if len(t.trunk) == 0 {
		in = dst
	}
	if t.left.varies() {
		s.work.add(t.join.first.Multiply(in, s.left, start, n, false, s.lists))
		start = in
	}
	s.work.add(t.join.second.Multiply(in, s.right, start, n, len(t.trunk) > 0, s.lists))
	for i, l := range t.trunk {
		last := i == len(t.trunk)-1
		if last {
			out = dst
		}
		s.work.add(l.w.Multiply(out, in, kernel.Repeated(l.bias), n, !last, s.lists))
		in, out = out, in
	}
}

// backward evaluates B of one observation.
func (s *scratch) backward(dst kernel.Rows, b backward, obs []float32) {
	in, out := s.a, s.b
	s.work.add(b.first.w.Multiply(in, kernel.Rows{Data: obs}, kernel.Repeated(b.first.bias), 1, false, nil))
	b.norm.Tanh(in, 1)
	lists := (*kernel.Lists)(nil)
	for i, l := range b.more {
		last := i == len(b.more)-1
		if last {
			out = dst
		}
		s.work.add(l.w.Multiply(out, in, kernel.Repeated(l.bias), 1, !last, lists))
		in, out, lists = out, in, s.lists
	}
	if b.unit {
		toSphere(dst.Row(0, b.more[len(b.more)-1].out()))
	}
}

// toSphere scales x to the norm √len(x); a zero x stays, as in PyTorch.
func toSphere(x []float32) {
	scale := float32(math.Sqrt(float64(len(x))) / max(norm(x), 1e-12))
	for i := range x {
		x[i] *= scale
	}
}

// norm is ‖x‖, summed in float64.
func norm(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}
