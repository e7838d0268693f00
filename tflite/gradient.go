package tflite

import (
	"math"

	"optibfm/tflite/internal/kernel"
)

// transposed are the weights that gradients pass through, as [in, out].
type transposed struct {
	actor twinBack
	f     []twinBack
}

type twinBack struct {
	left, right         embeddingBack
	joinFirst, joinLast *kernel.Matrix
	trunk               []*kernel.Matrix
}

type embeddingBack struct {
	varying *kernel.Matrix
	more    []*kernel.Matrix
}

func newTransposed(w *weights) transposed {
	t := transposed{actor: newTwinBack(w.actor)}
	for _, f := range w.f {
		t.f = append(t.f, newTwinBack(f))
	}
	return t
}

func newTwinBack(t twin) twinBack {
	b := twinBack{
		left: newEmbeddingBack(t.left), right: newEmbeddingBack(t.right),
		joinFirst: t.join.first.Transposed(), joinLast: t.join.second.Transposed(),
	}
	for _, l := range t.trunk {
		b.trunk = append(b.trunk, l.w.Transposed())
	}
	return b
}

// newEmbeddingBack is empty where nothing varies: no gradient passes.
func newEmbeddingBack(e embedding) embeddingBack {
	var b embeddingBack
	if !e.varies() {
		return b
	}
	b.varying = e.first.second.Transposed()
	for _, l := range e.more {
		b.more = append(b.more, l.w.Transposed())
	}
	return b
}

// twinTape holds what a twin's evaluation leaves for its gradient: the output of
// every layer, one row each.
type twinTape struct {
	left, right embeddingTape
	join        kernel.Rows
	trunk       []kernel.Rows
}

type embeddingTape struct {
	first kernel.Rows // before LayerNorm
	tanh  kernel.Rows
	more  []kernel.Rows // after ReLU
}

func newTwinTape(t twin) twinTape {
	tape := twinTape{left: newEmbeddingTape(t.left), right: newEmbeddingTape(t.right), join: kernel.NewRows(1, t.join.out())}
	for _, l := range t.trunk {
		tape.trunk = append(tape.trunk, kernel.NewRows(1, l.out()))
	}
	return tape
}

func newEmbeddingTape(e embedding) embeddingTape {
	tape := embeddingTape{first: kernel.NewRows(1, e.first.out()), tanh: kernel.NewRows(1, e.first.out())}
	for _, l := range e.more {
		tape.more = append(tape.more, kernel.NewRows(1, l.out()))
	}
	return tape
}

func (t *twinTape) output() kernel.Rows {
	if len(t.trunk) == 0 {
		return t.join
	}
	return t.trunk[len(t.trunk)-1]
}

// gradient is the memory of Gradient.
type gradient struct {
	back     transposed
	actor    twinTape
	f        []twinTape
	a, b     kernel.Rows // [1, widest], gradients on their way back
	split    kernel.Rows // [1, widest], the one that waits at a junction
	action   kernel.Rows // [1, A], tanh of the actor's output
	psi      []float64   // [d], gradient with respect to ψ
	metric   []float64   // [d], R⁻ᵀψ
	zero     []float32   // [widest]
	fromF, z []float32   // [d], gradients with respect to z: through F, and all

	fromAction []float32 // [A], gradient with respect to the action
}

func (n *Network) newGradient() *gradient {
	w, d := n.weights, n.Dims()
	g := &gradient{
		back: w.transposed(), actor: newTwinTape(w.actor),
		a: kernel.NewRows(1, w.widest), b: kernel.NewRows(1, w.widest), split: kernel.NewRows(1, w.widest),
		action: kernel.NewRows(1, d.Action),
		psi:    make([]float64, d.Latent), metric: make([]float64, d.Latent),
		zero: kernel.Aligned(w.widest), fromAction: make([]float32, d.Action), fromF: make([]float32, d.Latent), z: make([]float32, d.Latent),
	}
	for _, f := range w.f {
		g.f = append(g.f, newTwinTape(f))
	}
	return g
}

// Gradient implements Differentiable by hand-written vector-Jacobian products:
// through the member of F whose bound is the least, its action, the policy and
// the normalisation of z. The first call of a bundle packs the weights a second
// time, transposed.
func (n *Network) Gradient(dz, obs, z []float32, belief Belief) (score float32, err error) {
	d := n.arch.Latent
	if err := length("the gradient", len(dz), d); err != nil {
		return 0, err
	}
	if err := length("z", len(z), d); err != nil {
		return 0, err
	}
	if err := n.takeObs(obs); err != nil {
		return 0, err
	}
	if err := checkBelief(belief, d); err != nil {
		return 0, err
	}
	for k, x := range z {
		n.wide[k] = float64(x)
	}
	if err := n.takeZ(n.z.Row(0, d)); err != nil {
		return 0, err
	}
	if n.grad == nil {
		n.grad = n.newGradient()
	}
	least, bound, err := n.record(belief)
	if err != nil {
		return 0, err
	}
	n.passBack(least, belief)
	n.throughNorm(dz, z)
	if !allFinite(dz) {
		return 0, errPsi
	}
	return float32(bound), nil
}

// record evaluates the networks onto the tapes and returns the member with the
// least bound.
func (n *Network) record(belief Belief) (least int, bound float64, err error) {
	g, d := n.grad, n.arch.Latent
	n.one.share(n.actor, n.weights.actor, n.obs)
	n.one.record(&g.actor, n.weights.actor, n.actor, kernel.Rows{}, n.z)
	copy(g.action.Data, g.actor.output().Row(0, n.arch.Action))
	if !allFinite(g.action.Row(0, n.arch.Action)) {
		return 0, 0, errPolicy
	}
	kernel.Tanh(g.action, 1, n.arch.Action)
	bound = math.Inf(1)
	for m, f := range n.weights.f {
		n.one.share(n.f[m], f, n.obs)
		n.one.record(&g.f[m], f, n.f[m], g.action, n.z)
		mean, size := g.measure(g.f[m].output().Row(0, d), belief)
		b := mean + float64(belief.Beta)*size
		if b-b != 0 {
			return 0, 0, errPsi
		}
		if b < bound {
			least, bound = m, b
		}
	}
	return least, bound, nil
}

// measure returns ψᵀẑ and ‖R⁻ᵀψ‖, and leaves R⁻ᵀψ in g.metric.
func (g *gradient) measure(psi []float32, b Belief) (mean, size float64) {
	d := len(psi)
	clear(g.metric)
	for i, v := range psi {
		mean += float64(v) * float64(b.Mean[i])
		for j := i; j < d; j++ {
			g.metric[j] += float64(b.InvR[i*d+j]) * float64(v)
		}
	}
	for _, v := range g.metric {
		size += v * v
	}
	return mean, math.Sqrt(size)
}

// passBack fills g.z with the gradient of member m's bound with respect to z as
// the networks take it.
func (n *Network) passBack(m int, belief Belief) {
	g, d := n.grad, n.arch.Latent
	// d(ψᵀẑ + β‖R⁻ᵀψ‖)/dψ = ẑ + β R⁻¹R⁻ᵀψ/‖R⁻ᵀψ‖
	_, size := g.measure(g.f[m].output().Row(0, d), belief)
	for i := range d {
		sum := 0.0
		for j := i; j < d && size > 0; j++ {
			sum += float64(belief.InvR[i*d+j]) * g.metric[j] / size
		}
		g.a.Data[i] = belief.Mean[i] + belief.Beta*float32(sum)
	}
	n.one.backTwin(g, n.weights.f[m], g.back.f[m], &g.f[m])
	n.one.backEmbedding(g, g.fromAction, n.weights.f[m].left, g.back.f[m].left, &g.f[m].left)
	g.a, g.split = g.split, g.a
	n.one.backEmbedding(g, g.fromF, n.weights.f[m].right, g.back.f[m].right, &g.f[m].right)
	for i, a := range g.action.Row(0, n.arch.Action) {
		g.a.Data[i] = g.fromAction[i] * (1 - a*a)
	}
	n.one.backTwin(g, n.weights.actor, g.back.actor, &g.actor)
	g.a, g.split = g.split, g.a
	n.one.backEmbedding(g, g.z, n.weights.actor.right, g.back.actor.right, &g.actor.right)
	for i, v := range g.fromF {
		g.z[i] += v
	}
}

// throughNorm turns the gradient with respect to √d·z/‖z‖ into that with respect to z.
func (n *Network) throughNorm(dz, z []float32) {
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

// record is twin for one row that keeps every layer's output.
func (s *scratch) record(tape *twinTape, t twin, w shared, left, right kernel.Rows) {
	start := kernel.Repeated(w.join)
	if t.left.varies() {
		s.recordEmbedding(&tape.left, t.left, w.left, left)
		s.work.add(t.join.first.Multiply(tape.join, tape.left.output(), start, 1, false, s.lists))
		start = tape.join
	}
	s.recordEmbedding(&tape.right, t.right, w.right, right)
	s.work.add(t.join.second.Multiply(tape.join, tape.right.output(), start, 1, len(t.trunk) > 0, s.lists))
	in := tape.join
	for i, l := range t.trunk {
		s.work.add(l.w.Multiply(tape.trunk[i], in, kernel.Repeated(l.bias), 1, i < len(t.trunk)-1, s.lists))
		in = tape.trunk[i]
	}
}

func (t *embeddingTape) output() kernel.Rows { return t.more[len(t.more)-1] }

func (s *scratch) recordEmbedding(tape *embeddingTape, e embedding, start []float32, varying kernel.Rows) {
	s.work.add(e.first.second.Multiply(tape.first, varying, kernel.Repeated(start), 1, false, nil))
	copy(tape.tanh.Data, tape.first.Data)
	e.norm.Tanh(tape.tanh, 1)
	in, lists := tape.tanh, (*kernel.Lists)(nil)
	for i, l := range e.more {
		s.work.add(l.w.Multiply(tape.more[i], in, kernel.Repeated(l.bias), 1, true, lists))
		in, lists = tape.more[i], s.lists
	}
}

// backTwin takes the gradient of t's output in g.a back to the embeddings'
// outputs: the left one's is left in g.a, where something varies there, the right
// one's in g.split.
func (s *scratch) backTwin(g *gradient, t twin, back twinBack, tape *twinTape) {
	for i := len(t.trunk) - 1; i >= 0; i-- {
		s.back(g, back.trunk[i])
		below := tape.join
		if i > 0 {
			below = tape.trunk[i-1]
		}
		masked(g.a, below, t.trunk[i].w.In())
	}
	s.work.add(back.joinLast.Multiply(g.split, g.a, kernel.Repeated(g.zero[:t.right.out()]), 1, false, s.lists))
	if t.left.varies() {
		s.back(g, back.joinFirst)
	}
}

// backEmbedding takes the gradient of e's output in g.a back to what varies.
func (s *scratch) backEmbedding(g *gradient, dst []float32, e embedding, back embeddingBack, tape *embeddingTape) {
	for i := len(e.more) - 1; i >= 0; i-- {
		masked(g.a, tape.more[i], e.more[i].out())
		s.back(g, back.more[i])
	}
	width := e.first.out()
	grad := g.a.Row(0, width)
	for k, y := range tape.tanh.Row(0, width) {
		grad[k] *= 1 - y*y
	}
	e.norm.Back(grad, tape.first.Row(0, width))
	s.back(g, back.varying)
	copy(dst, g.a.Data)
}

// back replaces the gradient in g.a by wᵀ of it.
func (s *scratch) back(g *gradient, w *kernel.Matrix) {
	s.work.add(w.Multiply(g.b, g.a, kernel.Repeated(g.zero[:w.Out()]), 1, false, s.lists))
	g.a, g.b = g.b, g.a
}

// masked passes the gradient on where ReLU did.
func masked(grad, output kernel.Rows, width int) {
	for k, y := range output.Row(0, width) {
		if y <= 0 {
			grad.Data[k] = 0
		}
	}
}
