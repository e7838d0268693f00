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
	left, right         embeddingTransposed
	joinFirst, joinLast *kernel.Matrix
	trunk               []*kernel.Matrix
}

type embeddingTransposed struct {
	varying *kernel.Matrix
	more    []*kernel.Matrix
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
		joinFirst: t.join.first.Transposed(), joinLast: t.join.second.Transposed(),
		trunk: transposeAll(t.trunk),
	}
}

// transposeEmbedding is empty for an embedding of the observation alone, which has no
// gradient with respect to z.
func transposeEmbedding(e embedding) embeddingTransposed {
	if !e.varies() {
		return embeddingTransposed{}
	}
	return embeddingTransposed{varying: e.first.second.Transposed(), more: transposeAll(e.more)}
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
	join        kernel.Rows
	trunk       []kernel.Rows
}

type embeddingTape struct {
	first kernel.Rows // before LayerNorm
	tanh  kernel.Rows
	more  []kernel.Rows // after ReLU
}

func newTwoTowerTape(t twoTower) twoTowerTape {
	return twoTowerTape{
		left: newEmbeddingTape(t.left), right: newEmbeddingTape(t.right),
		join: kernel.NewRows(1, t.join.out()), trunk: newLayerTapes(t.trunk),
	}
}

func newEmbeddingTape(e embedding) embeddingTape {
	width := e.first.out()
	return embeddingTape{
		first: kernel.NewRows(1, width), tanh: kernel.NewRows(1, width), more: newLayerTapes(e.more),
	}
}

func newLayerTapes(layers []linear) (tapes []kernel.Rows) {
	for _, l := range layers {
		tapes = append(tapes, kernel.NewRows(1, l.out()))
	}
	return tapes
}

func (t *twoTowerTape) output() kernel.Rows {
	if len(t.trunk) == 0 {
		return t.join
	}
	return t.trunk[len(t.trunk)-1]
}

func (t *embeddingTape) output() kernel.Rows { return t.more[len(t.more)-1] }

// gradient is the memory of Gradient.
type gradient struct {
	weights  transposed
	actor    twoTowerTape
	f        []twoTowerTape
	a, b     kernel.Rows // [1, widest], the gradients of a layer's output and input in turn
	other    kernel.Rows // [1, widest], the gradient of the second tower's output
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
	if err := checkLength("the gradient", len(dz), d); err != nil {
		return 0, err
	}
	if err := checkLength("z", len(z), d); err != nil {
		return 0, err
	}
	if n.weights.residual() {
		return 0, ErrNoGradient
	}
	if err := n.setObs(obs); err != nil {
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
	start := kernel.Repeated(w.join)
	if t.left.varies() {
		s.forwardEmbedding(&tape.left, t.left, w.left, left)
		s.multiply(tape.join, t.join.first, tape.left.output(), start, 1, false, true)
		start = tape.join
	}
	s.forwardEmbedding(&tape.right, t.right, w.right, right)
	s.multiply(tape.join, t.join.second, tape.right.output(), start, 1, len(t.trunk) > 0, true)
	in := tape.join
	for i, l := range t.trunk {
		s.apply(tape.trunk[i], l, in, 1)
		in = tape.trunk[i]
	}
}

func (s *scratch) forwardEmbedding(tape *embeddingTape, e embedding, start []float32, varying kernel.Rows) {
	s.multiply(tape.first, e.first.second, varying, kernel.Repeated(start), 1, false, false)
	copy(tape.tanh.Data, tape.first.Data)
	e.norm.Tanh(tape.tanh, 1)
	in := tape.tanh
	for i, l := range e.more {
		s.apply(tape.more[i], l, in, 1)
		in = tape.more[i]
	}
}

// backwardTwoTower turns the gradient of t's output in g.a into those of the embeddings'
// outputs: the left one in g.a, if the left embedding varies, the right one in g.other.
func (s *scratch) backwardTwoTower(g *gradient, t twoTower, w twoTowerTransposed, tape *twoTowerTape) {
	for i := len(t.trunk) - 1; i >= 0; i-- {
		s.backwardLinear(g, w.trunk[i])
		below := tape.join
		if i > 0 {
			below = tape.trunk[i-1]
		}
		backwardReLU(g.a, below, t.trunk[i].w.In())
	}
	s.multiply(g.other, w.joinLast, g.a, kernel.Repeated(g.zero[:t.right.out()]), 1, false, true)
	if t.left.varies() {
		s.backwardLinear(g, w.joinFirst)
	}
}

// backwardEmbedding turns the gradient of e's output in g.a into that of e's varying input.
func (s *scratch) backwardEmbedding(
	g *gradient, dst []float32, e embedding, w embeddingTransposed, tape *embeddingTape,
) {
	for i := len(e.more) - 1; i >= 0; i-- {
		backwardReLU(g.a, tape.more[i], e.more[i].out())
		s.backwardLinear(g, w.more[i])
	}
	width := e.first.out()
	grad := g.a.Row(0, width)
	for k, y := range tape.tanh.Row(0, width) {
		grad[k] *= 1 - y*y
	}
	e.norm.Backward(grad, tape.first.Row(0, width))
	s.backwardLinear(g, w.varying)
	copy(dst, g.a.Data)
}

// backwardLinear multiplies the gradient in g.a by a transposed matrix.
func (s *scratch) backwardLinear(g *gradient, w *kernel.Matrix) {
	s.multiply(g.b, w, g.a, kernel.Repeated(g.zero[:w.Out()]), 1, false, true)
	g.a, g.b = g.b, g.a
}

// backwardReLU sets the gradient to 0 where ReLU's output is 0.
func backwardReLU(grad, output kernel.Rows, width int) {
	for k, y := range output.Row(0, width) {
		if y <= 0 {
			grad.Data[k] = 0
		}
	}
}
