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

// splitLinear is a linear layer of two concatenated inputs. Its weights are split, so
// that a search multiplies an input that is the same for all rows only once.
type splitLinear struct {
	first, second *kernel.Matrix // second is nil if there is only one input
	bias          []float32
}

func (p splitLinear) out() int { return p.first.Out() }

// embedding is a linear layer, LayerNorm, tanh, then pairs of linear and ReLU. Its
// input is an observation followed by what varies between candidates.
type embedding struct {
	first splitLinear
	norm  kernel.LayerNorm
	more  []linear
}

func (e embedding) out() int { return e.more[len(e.more)-1].out() }

// varies reports whether the embedding has an input besides the observation.
func (e embedding) varies() bool { return e.first.second != nil }

// twoTower is the shape of the actor and of every member of F: two embeddings side by
// side and a trunk with ReLU between its layers.
type twoTower struct {
	left, right embedding
	join        splitLinear // the trunk's first layer
	trunk       []linear    // its other layers
}

// backwardNet is B(s).
type backwardNet struct {
	first linear
	norm  kernel.LayerNorm
	more  []linear // ReLU between them, none after the last
	unit  bool     // scale to the norm √d
}

// widest returns the number of elements of the widest layer.
func (t twoTower) widest() int {
	w := max(t.left.first.out(), t.right.first.out(), t.join.out())
	for _, l := range t.trunk {
		w = max(w, l.out())
	}
	return w
}

// scratch is the memory of the layers' inputs and outputs, for n rows.
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

// multiply is kernel.Matrix.Multiply, counted. It skips inputs that ReLU has set to 0
// where sparse is set.
func (s *scratch) multiply(dst kernel.Rows, w *kernel.Matrix, x, start kernel.Rows, n int, relu, sparse bool) {
	lists := s.lists
	if !sparse {
		lists = nil
	}
	s.work.add(w.Multiply(dst, x, start, n, relu, lists))
}

// apply evaluates a linear layer.
func (s *scratch) apply(dst kernel.Rows, l linear, x kernel.Rows, n int, relu, sparse bool) {
	s.multiply(dst, l.w, x, kernel.Repeated(l.bias), n, relu, sparse)
}

// obsTerms are the initial sums of a twoTower's first layers: the biases and the
// products with an observation, the same for all rows.
type obsTerms struct {
	left, right, join []float32
}

func newObsTerms(t twoTower) obsTerms {
	return obsTerms{
		left:  kernel.Aligned(t.left.first.out()),
		right: kernel.Aligned(t.right.first.out()),
		join:  kernel.Aligned(t.join.out()),
	}
}

// observe fills w. If the left embedding has no input besides the observation, its
// output and the product with it are also the same for all rows.
func (s *scratch) observe(w obsTerms, t twoTower, obs []float32) {
	x := kernel.Rows{Data: obs}
	for _, side := range []struct {
		dst   []float32
		layer splitLinear
	}{{w.left, t.left.first}, {w.right, t.right.first}} {
		s.multiply(kernel.Repeated(side.dst), side.layer.first, x, kernel.Repeated(side.layer.bias), 1, false, false)
	}
	if t.left.varies() {
		copy(w.join, t.join.bias)
		return
	}
	s.embed(s.left, t.left, w.left, kernel.Rows{}, 1)
	s.multiply(kernel.Repeated(w.join), t.join.first, s.left, kernel.Repeated(t.join.bias), 1, false, true)
}

// embed evaluates e for n rows of varying.
func (s *scratch) embed(dst kernel.Rows, e embedding, start []float32, varying kernel.Rows, n int) {
	in, out := s.a, s.b
	if e.varies() {
		s.multiply(in, e.first.second, varying, kernel.Repeated(start), n, false, false)
	} else {
		copy(in.Data, start)
	}
	e.norm.Tanh(in, n)
	for i, l := range e.more {
		if i == len(e.more)-1 {
			out = dst
		}
		s.apply(out, l, in, n, true, i > 0) // ReLU leaves zeros, tanh does not
		in, out = out, in
	}
}

// twoTower evaluates t for n rows of the two inputs.
func (s *scratch) twoTower(dst kernel.Rows, t twoTower, w obsTerms, left, right kernel.Rows, n int) {
	s.embed(s.right, t.right, w.right, right, n)
	in, out, start := s.a, s.b, kernel.Repeated(w.join)
	if t.left.varies() {
		s.embed(s.left, t.left, w.left, left, n)
	}
	if len(t.trunk) == 0 {
		in = dst
	}
	if t.left.varies() {
		s.multiply(in, t.join.first, s.left, start, n, false, true)
		start = in
	}
	s.multiply(in, t.join.second, s.right, start, n, len(t.trunk) > 0, true)
	for i, l := range t.trunk {
		last := i == len(t.trunk)-1
		if last {
			out = dst
		}
		s.apply(out, l, in, n, !last, true)
		in, out = out, in
	}
}

// backward evaluates B of one observation.
func (s *scratch) backward(dst kernel.Rows, b backwardNet, obs []float32) {
	in, out := s.a, s.b
	s.apply(in, b.first, kernel.Rows{Data: obs}, 1, false, false)
	b.norm.Tanh(in, 1)
	for i, l := range b.more {
		last := i == len(b.more)-1
		if last {
			out = dst
		}
		s.apply(out, l, in, 1, !last, i > 0)
		in, out = out, in
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
