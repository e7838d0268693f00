package tflite

import (
	"slices"

	"optibfm/tflite/internal/kernel"
)

// Layers are the unpacked weights of a bundle, for a backend that builds its own
// networks. FORMAT.md describes the networks.
type Layers struct {
	Mean, Scale []float32 // networks see (obs - Mean)·Scale, [O]; nil: no normaliser
	B           BackwardLayers
	F           []TwoTowerLayers // [E], of the members of the ensemble
	Actor       TwoTowerLayers   // the input of its Left is the observation alone
	Cov         []float64        // Cov B, [d, d]; nil if the bundle has none
}

// Linear is y = x·Weight + Bias.
type Linear struct {
	In, Out int
	Weight  []float32 // [In, Out] row-major
	Bias    []float32 // [Out]
}

// EmbeddingLayers are a linear layer, LayerNorm, tanh, then linear layers with ReLU
// after each. The input is an observation followed by z, an action or nothing.
type EmbeddingLayers struct {
	First       Linear
	Gain, Shift []float32 // of the LayerNorm
	More        []Linear
}

// TwoTowerLayers are two embeddings and a trunk. The trunk's input is the concatenated
// outputs of the embeddings; between its layers is ReLU.
type TwoTowerLayers struct {
	Left, Right EmbeddingLayers
	Trunk       []Linear
}

// BackwardLayers are a linear layer, LayerNorm, tanh, then linear layers with ReLU
// between them.
type BackwardLayers struct {
	First       Linear
	Gain, Shift []float32
	More        []Linear
}

// Layers copies every weight: call it at the start of a program. It panics for a model with
// residual networks or observation groups, which Layers does not describe.
func (b *Bundle) Layers() Layers {
	if b.Architecture.Residual() || len(b.Architecture.Groups) > 0 {
		panic("tflite: Layers of a model with residual networks or groups")
	}
	w := b.weights
	l := Layers{Mean: slices.Clone(w.mean), Scale: slices.Clone(w.scale), Actor: w.actor.unpacked()}
	gain, shift := cloneNorm(w.b.norm)
	l.B = BackwardLayers{First: w.b.first.unpacked(), Gain: gain, Shift: shift, More: unpackAll(w.b.more)}
	for _, f := range w.f {
		l.F = append(l.F, f.unpacked())
	}
	if w.cov != nil {
		l.Cov = slices.Clone(w.cov.values)
	}
	return l
}

func (t twoTower) unpacked() TwoTowerLayers {
	return TwoTowerLayers{
		Left: t.left.unpacked(), Right: t.right.unpacked(),
		Trunk: append([]Linear{t.join.unpacked()}, unpackAll(t.trunk)...),
	}
}

func (e embedding) unpacked() EmbeddingLayers {
	gain, shift := cloneNorm(e.norm)
	return EmbeddingLayers{First: e.first.unpacked(), Gain: gain, Shift: shift, More: unpackAll(e.more)}
}

func cloneNorm(n kernel.LayerNorm) (gain, shift []float32) {
	gain, shift = n.Gain()
	return slices.Clone(gain), slices.Clone(shift)
}

func (p splitLinear) unpacked() Linear {
	if p.second == nil {
		return unpackLinear(p.bias, p.first)
	}
	return unpackLinear(p.bias, p.first, p.second)
}

func (l linear) unpacked() Linear { return unpackLinear(l.bias, l.w) }

// unpackLinear unpacks the weights of concatenated inputs.
func unpackLinear(bias []float32, parts ...*kernel.Matrix) Linear {
	out := parts[0].Out()
	c := Linear{Out: out, Bias: slices.Clone(bias[:out])}
	for _, m := range parts {
		c.In += m.In()
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
