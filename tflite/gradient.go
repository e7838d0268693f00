package tflite

import (
	"math"

	"optibfm/tflite/internal/kernel"
)

// transposed holds the transposed weights, [in, out], that gradients are multiplied by.
type transposed struct {
	actor twoTowerTransposed
	f     []twoTowerTransposed
}

type twoTowerTransposed struct {
	left, right embeddingTransposed
	join        splitTransposed
	trunk       []*kernel.Matrix
}

type embeddingTransposed struct {
	first splitTransposed
	more  []*kernel.Matrix
}

// splitTransposed is a splitLinear. Without a folded LayerNorm, first is nil where it is not
// needed.
type splitTransposed struct {
	first, second *kernel.Matrix
	norm          kernel.LayerNorm // the folded one, without its gain, which the weights contain
}

func newTransposed(w *weights) transposed {
	t := transposed{actor: transposeTwoTower(w.actor)}
	for _, f := range w.f {
		t.f = append(t.f, transposeTwoTower(f))
	}
	return t
}

func transposeTwoTower(t twoTower) twoTowerTransposed {
	return twoTowerTransposed{
		left: transposeEmbedding(t.left), right: transposeEmbedding(t.right),
		join: transposeSplit(t.join, true), trunk: transposeAll(t.trunk),
	}
}

func transposeSplit(l splitLinear, first bool) splitTransposed {
	s := splitTransposed{second: l.second.Transposed()}
	if first || l.folded != nil {
		s.first = l.first.Transposed()
	}
	if l.folded != nil {
		s.norm = l.folded.Unit()
	}
	return s
}

// transposeEmbedding is empty for an embedding of the observation alone, which has no
// gradient with respect to z.
func transposeEmbedding(e embedding) embeddingTransposed {
	if !e.varies() {
		return embeddingTransposed{}
	}
	return embeddingTransposed{first: transposeSplit(e.first, false), more: transposeAll(e.more)}
}

func transposeAll(layers []linear) (all []*kernel.Matrix) {
	for _, l := range layers {
		all = append(all, l.w.Transposed())
	}
	return all
}

// twoTowerTape holds the output of every layer, one row each, for the backward pass.
type twoTowerTape struct {
	left, right embeddingTape
	join        splitTape
	trunk       []layerTape
}

type embeddingTape struct {
	first splitTape
	more  []layerTape
}

// layerTape holds a layer's output before and after the activation, and before LayerNorm and tanh.
// before is not used with ReLU.
type layerTape struct{ before, after kernel.Rows }

// splitTape also holds the concatenated inputs, of a layer with a folded LayerNorm.
type splitTape struct {
	layerTape
	inputs []float32
}

func newTwoTowerTape(t twoTower) twoTowerTape {
	return twoTowerTape{
		left: newEmbeddingTape(t.left), right: newEmbeddingTape(t.right),
		join: newSplitTape(t.join), trunk: newLayerTapes(t.trunk),
	}
}

func newEmbeddingTape(e embedding) embeddingTape {
	return embeddingTape{first: newSplitTape(e.first), more: newLayerTapes(e.more)}
}

func newSplitTape(l splitLinear) splitTape {
	t := splitTape{layerTape: newLayerTape(l.out())}
	if l.folded != nil && l.second != nil {
		t.inputs = make([]float32, l.first.In()+l.second.In())
	}
	return t
}

func newLayerTape(width int) layerTape {
	return layerTape{kernel.NewRows(1, width), kernel.NewRows(1, width)}
}

func newLayerTapes(layers []linear) (tapes []layerTape) {
	for _, l := range layers {
		tapes = append(tapes, newLayerTape(l.out()))
	}
	return tapes
}

func (t *twoTowerTape) output() kernel.Rows {
	if len(t.trunk) == 0 {
		return t.join.after
	}
	return t.trunk[len(t.trunk)-1].after
}

func (t *embeddingTape) output() kernel.Rows { return t.more[len(t.more)-1].after }

// gradient is the memory of Gradient.
type gradient struct {
	weights  transposed
	actor    twoTowerTape
	f        []twoTowerTape
	a, b     kernel.Rows // [1, widest], the gradients of a layer's output and input in turn
	other    kernel.Rows // [1, widest], the gradient of the second tower's output
	inputs   []float32   // the gradient of a layer's concatenated inputs
	skipped  []float32   // [widest], the gradient of a residual block's output
	action   kernel.Rows // [1, A], tanh of the actor's output
	whitened []float64   // [d], R⁻ᵀψ
	zero     []float32   // [widest]
	fromF, z []float32   // [d], gradients with respect to z: through F, and the sum

	fromAction []float32 // [A], gradient with respect to the action
}

func (n *Network) newGradient() *gradient {
	w, d := n.weights, n.Dims()
	g := &gradient{
		weights: w.transposed(), actor: newTwoTowerTape(w.actor),
		a: kernel.NewRows(1, w.widest), b: kernel.NewRows(1, w.widest), other: kernel.NewRows(1, w.widest),
		inputs: kernel.Aligned(2*w.widest + 32), skipped: make([]float32, w.widest),
		action: kernel.NewRows(1, d.Action), whitened: make([]float64, d.Latent), zero: kernel.Aligned(w.widest),
		fromAction: make([]float32, d.Action), fromF: make([]float32, d.Latent), z: make([]float32, d.Latent),
	}
	for _, f := range w.f {
		g.f = append(g.f, newTwoTowerTape(f))
	}
	return g
}

// Gradient implements Differentiable by reverse-mode differentiation: through the
// member of F with the least bound, its action, the policy and the normalisation of
// z. The first call of a bundle packs the transposed weights.
func (n *Network) Gradient(dz, obs, z []float32, belief Belief) (score float32, err error) {
	d := n.arch.Latent
	if len(n.weights.f) == 0 {
		return 0, ErrNoForward
	}
	if err := checkLength("the gradient", len(dz), d); err != nil {
		return 0, err
	}
	if err := checkLength("z", len(z), d); err != nil {
		return 0, err
	}
	if err := n.setState(obs); err != nil {
		return 0, err
	}
	if err := belief.Validate(d); err != nil {
		return 0, err
	}
	for k, x := range z {
		n.wide[k] = float64(x)
	}
	if err := ProjectZ(n.z.Row(0, d), n.wide, n.arch.NormZ); err != nil {
		return 0, err
	}
	if n.grad == nil {
		n.grad = n.newGradient()
	}
	least, bound, err := n.forward(belief)
	if err != nil {
		return 0, err
	}
	n.backpropagate(least, belief)
	n.backpropagateNorm(dz, z)
	if !allFinite(dz) {
		return 0, errPsi
	}
	return float32(bound), nil
}

// forward evaluates the networks, fills the tapes and returns the member with the
// least bound.
func (n *Network) forward(belief Belief) (least int, bound float64, err error) {
	g, d := n.grad, n.arch.Latent
	n.one.observe(&n.actor, n.weights.actor, n.seen.actor)
	n.one.forwardTwoTower(&g.actor, n.weights.actor, &n.actor, kernel.Rows{}, n.z)
	copy(g.action.Data, g.actor.output().Row(0, n.arch.Action))
	if !allFinite(g.action.Row(0, n.arch.Action)) {
		return 0, 0, errPolicy
	}
	kernel.Tanh(g.action, 1, n.arch.Action)
	bound = math.Inf(1)
	for m, f := range n.weights.f {
		n.one.observe(&n.f[m], f, n.seen.f)
		n.one.forwardTwoTower(&g.f[m], f, &n.f[m], g.action, n.z)
		mean, width := g.boundTerms(g.f[m].output().Row(0, d), belief)
		b := mean + float64(belief.Beta)*width
		if b-b != 0 {
			return 0, 0, errPsi
		}
		if b < bound {
			least, bound = m, b
		}
	}
	return least, bound, nil
}

// boundTerms returns ψᵀẑ and ‖R⁻ᵀψ‖, and leaves R⁻ᵀψ in g.whitened.
func (g *gradient) boundTerms(psi []float32, b Belief) (mean, width float64) {
	d := len(psi)
	clear(g.whitened)
	for i, v := range psi {
		mean += float64(v) * float64(b.Mean[i])
		for j := i; j < d; j++ {
			g.whitened[j] += float64(b.InvR[i*d+j]) * float64(v)
		}
	}
	for _, v := range g.whitened {
		width += v * v
	}
	return mean, math.Sqrt(width)
}

// backpropagate fills g.z with the gradient of member m's bound with respect to the
// networks' input z.
func (n *Network) backpropagate(m int, belief Belief) {
	g, d := n.grad, n.arch.Latent
	// d(ψᵀẑ + β‖R⁻ᵀψ‖)/dψ = ẑ + β R⁻¹R⁻ᵀψ/‖R⁻ᵀψ‖
	_, width := g.boundTerms(g.f[m].output().Row(0, d), belief)
	for i := range d {
		sum := 0.0
		for j := i; j < d && width > 0; j++ {
			sum += float64(belief.InvR[i*d+j]) * g.whitened[j] / width
		}
		g.a.Data[i] = belief.Mean[i] + belief.Beta*float32(sum)
	}
	f, fBack := n.weights.f[m], g.weights.f[m]
	n.one.backwardTwoTower(g, f, fBack, &g.f[m])
	n.one.backwardEmbedding(g, g.fromAction, f.left, fBack.left, &g.f[m].left)
	g.a, g.other = g.other, g.a
	n.one.backwardEmbedding(g, g.fromF, f.right, fBack.right, &g.f[m].right)
	for i, a := range g.action.Row(0, n.arch.Action) {
		g.a.Data[i] = g.fromAction[i] * (1 - a*a)
	}
	actor, actorBack := n.weights.actor, g.weights.actor
	n.one.backwardTwoTower(g, actor, actorBack, &g.actor)
	g.a, g.other = g.other, g.a
	n.one.backwardEmbedding(g, g.z, actor.right, actorBack.right, &g.actor.right)
	for i, v := range g.fromF {
		g.z[i] += v
	}
}

// backpropagateNorm turns the gradient with respect to √d·z/‖z‖ into that with respect
// to z.
func (n *Network) backpropagateNorm(dz, z []float32) {
	g := n.grad.z
	if !n.arch.NormZ {
		copy(dz, g)
		return
	}
	size := norm(z)
	along := 0.0
	for i, v := range z {
		along += float64(v) / size * float64(g[i])
	}
	scale := math.Sqrt(float64(len(z))) / size
	for i, v := range z {
		dz[i] = float32(scale * (float64(g[i]) - along*float64(v)/size))
	}
}

// forwardTwoTower is twoTower for one row, with the output of every layer on the tape.
func (s *scratch) forwardTwoTower(tape *twoTowerTape, t twoTower, w *obsTerms, left, right kernel.Rows) {
	start, join := kernel.Repeated(w.join), &tape.join
	if t.left.varies() {
		s.forwardEmbedding(&tape.left, t.left, w, w.left, left)
		s.multiply(join.after, t.join.first, tape.left.output(), start, 1, false, !t.residual())
		start = join.after
	}
	s.forwardEmbedding(&tape.right, t.right, w, w.right, right)
	s.multiply(join.after, t.join.second, tape.right.output(), start, 1, t.join.after == relu, !t.residual())
	if t.residual() {
		embedded := kernel.Repeated(w.same)
		if t.left.varies() {
			embedded = tape.left.output()
		}
		half := copy(join.inputs, embedded.Row(0, t.left.out()))
		copy(join.inputs[half:], tape.right.output().Data)
		t.join.folded.Finish(join.after.Row(0, t.join.out()), kernel.SumsOf(join.inputs))
		var skipped []float32
		if t.join.skip {
			skipped = join.inputs
		}
		join.activate(t.join.after, skipped)
	}
	in := join.after
	for i, l := range t.trunk {
		s.forwardLayer(&tape.trunk[i], l, in)
		in = tape.trunk[i].after
	}
}

func (s *scratch) forwardEmbedding(
	tape *embeddingTape, e embedding, w *obsTerms, start []float32, varying kernel.Rows,
) {
	first := &tape.first
	s.multiply(first.after, e.first.second, varying, kernel.Repeated(start), 1, false, false)
	if e.first.folded != nil {
		n := copy(first.inputs, w.seen)
		copy(first.inputs[n:], varying.Data)
		e.first.folded.Finish(first.after.Row(0, e.first.out()), kernel.SumsOf(first.inputs))
		first.activate(mish, nil)
	} else {
		copy(first.before.Data, first.after.Data)
		e.norm.Tanh(first.after, 1)
	}
	in := first.after
	for i, l := range e.more {
		s.forwardLayer(&tape.more[i], l, in)
		in = tape.more[i].after
	}
}

func (s *scratch) forwardLayer(tape *layerTape, l linear, in kernel.Rows) {
	if l.norm == nil {
		s.apply(tape.after, l, in, 1)
		return
	}
	product := l
	product.after, product.skip = none, false
	s.apply(tape.after, product, in, 1)
	var skipped []float32
	if l.skip {
		skipped = in.Row(0, l.out())
	}
	tape.activate(l.after, skipped)
}

// activate applies Mish to a residual layer's output if the layer has an activation, and adds what
// skips the layer.
func (t *layerTape) activate(after activation, skipped []float32) {
	if after == mish {
		copy(t.before.Data, t.after.Data)
		kernel.Mish(t.after, 1, len(t.after.Data))
	}
	add(t.after.Data, skipped)
}

// backwardTwoTower turns the gradient of t's output in g.a into those of the embeddings'
// outputs: the left one in g.a, if the left embedding varies, the right one in g.other.
func (s *scratch) backwardTwoTower(g *gradient, t twoTower, w twoTowerTransposed, tape *twoTowerTape) {
	for i := len(t.trunk) - 1; i >= 0; i-- {
		below := tape.join.after
		if i > 0 {
			below = tape.trunk[i-1].after
		}
		s.backwardLayer(g, t.trunk[i], w.trunk[i], below, &tape.trunk[i])
	}
	width, half := t.join.out(), t.left.out()
	copy(g.skipped, g.a.Row(0, width))
	backwardActivation(g.a, t.join.after, &tape.join.layerTape, width)
	if t.residual() {
		s.backwardSplit(g, w.join, tape.join.inputs)
		if t.join.skip {
			add(g.inputs, g.skipped[:width])
		}
		copy(g.a.Data, g.inputs[:half])
		copy(g.other.Data, g.inputs[half:len(tape.join.inputs)])
		return
	}
	s.multiply(g.other, w.join.second, g.a, kernel.Repeated(g.zero[:t.right.out()]), 1, false, true)
	if t.left.varies() {
		s.backwardLinear(g, w.join.first)
	}
}

// backwardEmbedding turns the gradient of e's output in g.a into that of e's varying input.
func (s *scratch) backwardEmbedding(
	g *gradient, dst []float32, e embedding, w embeddingTransposed, tape *embeddingTape,
) {
	for i := len(e.more) - 1; i >= 0; i-- {
		below := tape.first.after
		if i > 0 {
			below = tape.more[i-1].after
		}
		s.backwardLayer(g, e.more[i], w.more[i], below, &tape.more[i])
	}
	width := e.first.out()
	if e.first.folded != nil {
		backwardActivation(g.a, mish, &tape.first.layerTape, width)
		s.backwardSplit(g, w.first, tape.first.inputs)
		copy(dst, g.inputs[e.first.first.In():])
		return
	}
	grad := g.a.Row(0, width)
	for k, y := range tape.first.after.Row(0, width) {
		grad[k] *= 1 - y*y
	}
	e.norm.Backward(grad, tape.first.before.Row(0, width))
	s.backwardLinear(g, w.first.second)
	copy(dst, g.a.Data)
}

// backwardLayer turns the gradient of a layer's output in g.a into that of its input.
func (s *scratch) backwardLayer(g *gradient, l linear, w *kernel.Matrix, input kernel.Rows, tape *layerTape) {
	width := l.out()
	if l.skip {
		copy(g.skipped, g.a.Row(0, width))
	}
	backwardActivation(g.a, l.after, tape, width)
	s.backwardLinear(g, w)
	if l.norm != nil {
		l.norm.Backward(g.a.Row(0, l.w.In()), input.Row(0, l.w.In()))
	}
	if l.skip {
		add(g.a.Data, g.skipped[:width])
	}
}

// backwardLinear multiplies the gradient in g.a by a transposed matrix.
func (s *scratch) backwardLinear(g *gradient, w *kernel.Matrix) {
	s.multiply(g.b, w, g.a, kernel.Repeated(g.zero[:w.Out()]), 1, false, true)
	g.a, g.b = g.b, g.a
}

// backwardSplit turns the gradient in g.a of a layer with a folded LayerNorm into that of its
// concatenated inputs, in g.inputs.
func (s *scratch) backwardSplit(g *gradient, w splitTransposed, inputs []float32) {
	first := w.first.Out()
	s.multiply(kernel.Rows{Data: g.inputs}, w.first, g.a, kernel.Repeated(g.zero[:first]), 1, false, false)
	second := kernel.Repeated(g.zero[:w.second.Out()])
	s.multiply(kernel.Rows{Data: g.inputs[first:]}, w.second, g.a, second, 1, false, false)
	w.norm.Backward(g.inputs[:len(inputs)], inputs)
}

// backwardActivation multiplies a gradient by the slope of an activation.
func backwardActivation(grad kernel.Rows, after activation, tape *layerTape, width int) {
	switch after {
	case relu:
		for k, y := range tape.after.Row(0, width) {
			if y <= 0 {
				grad.Data[k] = 0
			}
		}
	case mish:
		for k, x := range tape.before.Row(0, width) {
			grad.Data[k] *= float32(kernel.MishSlope(float64(x)))
		}
	}
}

func add(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}
