package tflite

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"optibfm/tflite/internal/kernel"
)

// Layers are the unpacked weights of a bundle, for a backend that builds its own
// networks. FORMAT.md describes the networks.
type Layers struct {
	Mean, Scale []float32 // networks see (obs - Mean)·Scale, [O]; nil: no normaliser
	B           BackwardLayers
	Encoder     *BackwardLayers  // of the observation; nil: none
	F           []TwoTowerLayers // [E], of the members of the ensemble
	Actor       TwoTowerLayers   // the input of its Left is the observation alone
	Cov         []float64        // Cov B, [d, d]; nil if the bundle has none
}

// Linear is y = x·Weight + Bias. In a residual network x is the normalised input, (input -
// mean)/deviation: Weight and Bias contain the gain and the bias of the LayerNorm.
type Linear struct {
	In, Out int
	Weight  []float32 // [In, Out] row-major
	Bias    []float32 // [Out]
}

// EmbeddingLayers are a linear layer, LayerNorm, tanh, then linear layers with ReLU
// after each. The input is an observation followed by z, an action or nothing.
// In a residual network, Mish follows each layer, and all but First and the last add their input.
type EmbeddingLayers struct {
	First       Linear
	Gain, Shift []float32 // of the LayerNorm; nil in a residual network
	More        []Linear
}

// TwoTowerLayers are two embeddings and a trunk. The trunk's input is the concatenated
// outputs of the embeddings; between its layers is ReLU. In a residual network, Mish follows each
// of its layers but the last, and these layers add their input.
type TwoTowerLayers struct {
	Inputs      []int // elements of the observation that the network reads, in order; nil: all
	Encoded     bool  // the network reads the output of Encoder instead of the observation
	Residual    bool
	Left, Right EmbeddingLayers
	Trunk       []Linear
}

// BackwardLayers are a linear layer, LayerNorm, tanh, then linear layers with ReLU
// between them. Without More, First is the only layer.
type BackwardLayers struct {
	Inputs      []int // as in TwoTowerLayers
	First       Linear
	Gain, Shift []float32
	More        []Linear
	Norm        bool // the output is scaled to the norm √size
}

// Layers copies every weight: call it at the start of a program.
func (b *Bundle) Layers() Layers {
	w := b.weights
	l := Layers{Actor: w.actor.unpacked(w.reads.actor), B: w.b.unpacked(w.reads.b)}
	l.Mean, l.Scale = b.Normaliser()
	for _, f := range w.f {
		l.F = append(l.F, f.unpacked(w.reads.f))
	}
	if e := b.Architecture.Encoder; e != nil {
		encoder := w.encoder.unpacked(nil)
		l.Encoder, l.Actor.Encoded = &encoder, e.Actor
		for i := range l.F {
			l.F[i].Encoded = true
		}
	}
	if w.cov != nil {
		l.Cov = slices.Clone(w.cov.values)
	}
	return l
}

// InverseCov returns (Cov B)⁻¹, [d, d], which is symmetric. Cov must not be nil; the bundle's
// loader has checked that it is positive definite.
func (l Layers) InverseCov() []float64 {
	d := int(math.Sqrt(float64(len(l.Cov))))
	var chol mat.Cholesky
	var inv mat.SymDense
	if !chol.Factorize(mat.NewSymDense(d, slices.Clone(l.Cov))) {
		panic("tflite: Cov B is not positive definite")
	}
	if err := chol.InverseTo(&inv); err != nil {
		if _, ill := err.(mat.Condition); !ill {
			panic(err)
		}
	}
	return mat.DenseCopyOf(&inv).RawMatrix().Data
}

// Normaliser returns Mean and Scale of Layers.
func (b *Bundle) Normaliser() (mean, scale []float32) {
	return slices.Clone(b.weights.mean), slices.Clone(b.weights.scale)
}

// elementsOf lists the elements of the spans.
func elementsOf(spans []elementSpan) []int {
	var all []int
	for _, s := range spans {
		for i := s.from; i < s.to; i++ {
			all = append(all, i)
		}
	}
	return all
}

func (b backwardNet) unpacked(reads []elementSpan) BackwardLayers {
	gain, shift := cloneNorm(b.norm)
	return BackwardLayers{
		Inputs: elementsOf(reads), First: b.first.unpacked(), Gain: gain, Shift: shift, More: unpackAll(b.more),
		Norm: b.unit,
	}
}

func (t twoTower) unpacked(reads []elementSpan) TwoTowerLayers {
	return TwoTowerLayers{
		Inputs: elementsOf(reads), Residual: t.residual(),
		Left: t.left.unpacked(), Right: t.right.unpacked(),
		Trunk: append([]Linear{t.join.unpacked()}, unpackAll(t.trunk)...),
	}
}

func (e embedding) unpacked() EmbeddingLayers {
	gain, shift := cloneNorm(e.norm)
	return EmbeddingLayers{First: e.first.unpacked(), Gain: gain, Shift: shift, More: unpackAll(e.more)}
}

func cloneNorm(n *kernel.LayerNorm) (gain, shift []float32) {
	if n == nil {
		return nil, nil
	}
	gain, shift = n.Gain()
	return slices.Clone(gain), slices.Clone(shift)
}

func (p splitLinear) unpacked() Linear {
	bias, parts := p.bias, []*kernel.Matrix{p.first}
	if p.folded != nil {
		bias = p.folded.Bias()
	}
	if p.second != nil {
		parts = append(parts, p.second)
	}
	return unpackLinear(bias, parts...)
}

func (l linear) unpacked() Linear {
	u := unpackLinear(l.bias, l.w)
	if l.norm == nil {
		return u
	}
	gain, shift := l.norm.Gain()
	for o := range u.Out {
		bias := float64(u.Bias[o])
		for i := range u.In {
			w := u.Weight[i*u.Out+o]
			bias += float64(w) * float64(shift[i])
			u.Weight[i*u.Out+o] = w * gain[i]
		}
		u.Bias[o] = float32(bias)
	}
	return u
}

// unpackLinear unpacks the weights of concatenated inputs.
func unpackLinear(bias []float32, parts ...*kernel.Matrix) Linear {
	out := parts[0].Out()
	c := Linear{Out: out, Bias: slices.Clone(bias[:out])}
	for _, m := range parts {
		c.In += m.In()
	}
	c.Weight = make([]float32, 0, c.In*out)
	for _, m := range parts {
		for in := range m.In() {
			for o := range out {
				c.Weight = append(c.Weight, m.At(o, in))
			}
		}
	}
	return c
}

func unpackAll(layers []linear) []Linear {
	copies := make([]Linear, len(layers))
	for i, l := range layers {
		copies[i] = l.unpacked()
	}
	return copies
}
