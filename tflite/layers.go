package tflite

import (
	"math"

	"optibfm/tflite/internal/kernel"
)

// activation is the function after a linear layer.
type activation int

const (
	none activation = iota
	relu
	mish
)

// linear is y = f(w·x + bias), w [out, in], where f is the activation and x the input or its
// LayerNorm.
type linear struct {
	w      *kernel.Matrix
	bias   []float32
	norm   *kernel.LayerNorm // of the input; nil: none
	after  activation
	skip   bool // y is y + input
	sparse bool // the input has passed ReLU
}

func (l linear) out() int { return l.w.Out() }

// splitLinear is a linear layer of two concatenated inputs. Its weights are split, so
// that a search multiplies an input that is the same for all rows only once.
type splitLinear struct {
	first, second *kernel.Matrix // second is nil if there is only one input
	bias          []float32      // zeros if folded is set
	folded        *kernel.Folded // the LayerNorm of both inputs, and the bias; nil: none
	after         activation
	skip          bool // adds the concatenated inputs to the output
}

func (p splitLinear) out() int { return p.first.Out() }

// embedding is a linear layer, LayerNorm, tanh, then pairs of linear and ReLU; in a residual
// network blocks of LayerNorm, linear and Mish. Its input is an observation followed by what varies
// between candidates.
type embedding struct {
	first splitLinear
	norm  *kernel.LayerNorm // before tanh; nil in a residual network
	more  []linear
}

func (e embedding) out() int { return e.more[len(e.more)-1].out() }

// varies reports whether the embedding has an input besides the observation.
func (e embedding) varies() bool { return e.first.second != nil }

// twoTower is the shape of the actor and of every member of F: two embeddings side by
// side and a trunk with ReLU between its layers, or of residual blocks.
type twoTower struct {
	left, right embedding
	join        splitLinear // the trunk's first layer
	trunk       []linear    // its other layers
}

// backwardNet is B(s), or the encoder.
type backwardNet struct {
	first linear
	norm  *kernel.LayerNorm
	more  []linear // ReLU between them, none after the last; none at all: first alone, without norm and tanh
	unit  bool     // scale to the norm √out
}

func (b backwardNet) out() int {
	if len(b.more) == 0 {
		return b.first.out()
	}
	return b.more[len(b.more)-1].out()
}

// widest returns the number of elements of the widest layer.
func (t twoTower) widest() int {
	w := max(t.left.first.out(), t.right.first.out(), t.join.out())
	for _, l := range t.trunk {
		w = max(w, l.out())
	}
	return w
}

// residual reports whether the network consists of residual blocks.
func (t twoTower) residual() bool { return t.join.folded != nil }

// scratch is the memory of the layers' inputs and outputs, for n rows.
type scratch struct {
	a, b        kernel.Rows // [n, widest], the input and the output of a layer in turn
	left, right kernel.Rows // [n, widest], the outputs of the embeddings
	normed      kernel.Rows // [n, widest], LayerNorm of a layer's input; empty without residual networks
	product     *kernel.Scratch
	step        rowStep // the current one
	work        Work
}

// rowStep describes the steps of a layer for each row besides the product, in this order. Parts are
// inputs of the layer, side by side.
type rowStep struct {
	dst    kernel.Rows
	width  int
	norm   *kernel.LayerNorm // dst is the LayerNorm of the first part
	tanh   *kernel.LayerNorm // dst becomes tanh of its LayerNorm
	folded *kernel.Folded    // finishes the product in dst
	sums   kernel.Sums       // of the inputs that are the same for all rows
	parts  [2]rowPart
	mish   bool
	skip   bool // adds the parts
}

type rowPart struct {
	x     kernel.Rows
	width int
	same  bool // for all rows: known in sums
}

// Rows implements kernel.RowWork.
func (r *rowStep) Rows(from, to int) {
	dst, n := r.dst.From(from), to-from
	switch {
	case r.norm != nil:
		r.norm.Apply(dst, r.parts[0].x.From(from), n)
	case r.tanh != nil:
		r.tanh.Tanh(dst, n)
	case r.folded != nil:
		r.finish(from, to)
	}
	if r.mish {
		kernel.Mish(dst, n, r.width)
	}
	for _, p := range r.parts {
		if r.skip && p.width > 0 {
			kernel.Add(dst, p.x.From(from), n, p.width)
			dst.Data = dst.Data[p.width:]
		}
	}
}

// finish turns the products in dst into those with the LayerNorm of the parts.
func (r *rowStep) finish(from, to int) {
	for i := from; i < to; i++ {
		sums := r.sums
		for _, p := range r.parts {
			if p.width > 0 && !p.same {
				sums = sums.Plus(kernel.SumsOf(p.x.Row(i, p.width)))
			}
		}
		r.folded.Finish(r.dst.Row(i, r.width), sums)
	}
}

// eachRow does a step with n rows.
func (s *scratch) eachRow(n int, step rowStep) {
	s.step = step
	s.product.Each(&s.step, n, step.width)
}

func newScratch(n int, w *weights, team *kernel.Team) scratch {
	s := scratch{
		a: kernel.NewRows(n, w.widest), b: kernel.NewRows(n, w.widest),
		left: kernel.NewRows(n, w.widest), right: kernel.NewRows(n, w.widest),
		product: kernel.NewScratch(n, w.widest, team),
	}
	if w.residual() {
		s.normed = kernel.NewRows(n, w.widest)
	}
	return s
}

// multiply is kernel.Matrix.Multiply, counted. It skips inputs that ReLU has set to 0
// where sparse is set.
func (s *scratch) multiply(dst kernel.Rows, w *kernel.Matrix, x, start kernel.Rows, n int, relu, sparse bool) {
	s.work.add(w.Multiply(dst, x, start, n, relu, sparse, s.product))
}

// apply evaluates a linear layer.
func (s *scratch) apply(dst kernel.Rows, l linear, x kernel.Rows, n int) {
	input, parts := x, [2]rowPart{{x: x, width: l.w.In()}}
	if l.norm != nil {
		s.eachRow(n, rowStep{dst: s.normed, width: l.w.In(), norm: l.norm, parts: parts})
		input = s.normed
	}
	s.multiply(dst, l.w, input, kernel.Repeated(l.bias), n, l.after == relu, l.sparse)
	if l.after == mish || l.skip {
		s.eachRow(n, rowStep{dst: dst, width: l.out(), parts: parts, mish: l.after == mish, skip: l.skip})
	}
}

// obsTerms are the initial sums of a twoTower's first layers: the biases and the
// products with an observation, the same for all rows.
type obsTerms struct {
	left, right, join []float32

	// Of a residual network.
	seen     []float32 // the observation
	obs      kernel.Sums
	same     []float32 // the left embedding's output, if it is the same for all rows
	sameSums kernel.Sums
}

func newObsTerms(t twoTower) obsTerms {
	return obsTerms{
		left:  kernel.Aligned(t.left.first.out()),
		right: kernel.Aligned(t.right.first.out()),
		join:  kernel.Aligned(t.join.out()),
		same:  kernel.Aligned(t.left.out()),
	}
}

// observe fills w. If the left embedding has no input besides the observation, its
// output and the product with it are also the same for all rows.
func (s *scratch) observe(w *obsTerms, t twoTower, obs []float32) {
	x := kernel.Rows{Data: obs}
	if t.residual() {
		w.seen, w.obs = obs, kernel.SumsOf(obs)
	}
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
	same := kernel.Repeated(w.same)
	s.embed(same, t.left, w, w.left, kernel.Rows{}, 1)
	s.multiply(kernel.Repeated(w.join), t.join.first, same, kernel.Repeated(t.join.bias), 1, false, !t.residual())
	if t.residual() {
		w.sameSums = kernel.SumsOf(w.same)
	}
}

// embed evaluates e for n rows of varying.
func (s *scratch) embed(dst kernel.Rows, e embedding, w *obsTerms, start []float32, varying kernel.Rows, n int) {
	in, out := s.a, s.b
	if e.varies() {
		s.multiply(in, e.first.second, varying, kernel.Repeated(start), n, false, false)
	} else {
		copy(in.Data, start)
	}
	folded := e.first.folded
	step := rowStep{dst: in, width: e.first.out(), tanh: e.norm, folded: folded, sums: w.obs, mish: folded != nil}
	if e.varies() {
		step.parts[0] = rowPart{x: varying, width: e.first.second.In()}
	}
	s.eachRow(n, step)
	for i, l := range e.more {
		if i == len(e.more)-1 {
			out = dst
		}
		s.apply(out, l, in, n)
		in, out = out, in
	}
}

// finishJoin turns the products of a residual trunk's first layer into its output. left and right
// are the outputs of the embeddings.
func (s *scratch) finishJoin(x kernel.Rows, t twoTower, w *obsTerms, left, right kernel.Rows, n int) {
	s.eachRow(n, rowStep{
		dst: x, width: t.join.out(), folded: t.join.folded, sums: w.sameSums,
		parts: [2]rowPart{
			{x: left, width: t.left.out(), same: !t.left.varies()}, {x: right, width: t.right.out()},
		},
		mish: t.join.after == mish, skip: t.join.skip,
	})
}

// twoTower evaluates t for n rows of the two inputs.
func (s *scratch) twoTower(dst kernel.Rows, t twoTower, w *obsTerms, left, right kernel.Rows, n int) {
	s.embed(s.right, t.right, w, w.right, right, n)
	in, out, start, sparse := s.a, s.b, kernel.Repeated(w.join), !t.residual()
	embedded := kernel.Repeated(w.same)
	if t.left.varies() {
		embedded = s.left
		s.embed(s.left, t.left, w, w.left, left, n)
	}
	if len(t.trunk) == 0 {
		in = dst
	}
	if t.left.varies() {
		s.multiply(in, t.join.first, s.left, start, n, false, sparse)
		start = in
	}
	s.multiply(in, t.join.second, s.right, start, n, t.join.after == relu, sparse)
	if t.residual() {
		s.finishJoin(in, t, w, embedded, s.right, n)
	}
	for i, l := range t.trunk {
		if i == len(t.trunk)-1 {
			out = dst
		}
		s.apply(out, l, in, n)
		in, out = out, in
	}
}

// backward evaluates B, or the encoder, of one observation.
func (s *scratch) backward(dst kernel.Rows, b backwardNet, obs []float32) {
	in, out := s.a, s.b
	if len(b.more) == 0 {
		in = dst
	}
	s.apply(in, b.first, kernel.Rows{Data: obs}, 1)
	if len(b.more) > 0 {
		b.norm.Tanh(in, 1)
	}
	for i, l := range b.more {
		if i == len(b.more)-1 {
			out = dst
		}
		s.apply(out, l, in, 1)
		in, out = out, in
	}
	if b.unit {
		toSphere(dst.Row(0, b.out()))
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
