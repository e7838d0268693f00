package tflite

import (
	"slices"

	"optibfm/tflite/internal/kernel"
)

// Layers are a bundle's networks taken apart, for a backend that builds them
// anew. See FORMAT.md for what happens between the layers.
type Layers struct {
	Mean, Scale []float32 // networks see (obs - Mean)·Scale, [O]; nil: the observation as it is
	B           BackLayers
	F           []TwinLayers // one a member of the ensemble
	Actor       TwinLayers   // its Left takes the observation alone
	Cov         []float64    // Cov B, [d, d]; nil where the bundle has none
}

// Linear is y = x·Weight + Bias.
type Linear struct {
	In, Out int
	Weight  []float32 // [In, Out] row-major
	Bias    []float32 // [Out]
}

// EmbeddingLayers are a linear layer, LayerNorm, tanh, then linear layers with
// ReLU after each. The input is an observation followed by what varies.
type EmbeddingLayers struct {
	First       Linear
	Gain, Shift []float32 // of the LayerNorm
	More        []Linear
}

// TwinLayers are two embeddings side by side, and a trunk on both that has ReLU
// between its layers.
type TwinLayers struct {
	Left, Right EmbeddingLayers
	Trunk       []Linear
}

// BackLayers are a linear layer, LayerNorm, tanh, then linear layers with ReLU
// between them.
type BackLayers struct {
	First       Linear
	Gain, Shift []float32
	More        []Linear
}

// Layers copies every weight: call it at the start of a program.
func (b *Bundle) Layers() Layers {
	w := b.weights
	l := Layers{Mean: slices.Clone(w.mean), Scale: slices.Clone(w.scale), Actor: w.actor.copied()}
	gain, shift := copiedNorm(w.b.norm)
	l.B = BackLayers{First: w.b.first.copied(), Gain: gain, Shift: shift, More: allCopied(w.b.more)}
	for _, f := range w.f {
		l.F = append(l.F, f.copied())
	}
	if w.cov != nil {
		l.Cov = slices.Clone(w.cov.values)
	}
	return l
}

func (t twin) copied() TwinLayers {
	return TwinLayers{
		Left: t.left.copied(), Right: t.right.copied(),
		Trunk: append([]Linear{t.join.copied()}, allCopied(t.trunk)...),
	}
}

func (e embedding) copied() EmbeddingLayers {
	gain, shift := copiedNorm(e.norm)
	return EmbeddingLayers{First: e.first.copied(), Gain: gain, Shift: shift, More: allCopied(e.more)}
}

func copiedNorm(n kernel.LayerNorm) (gain, shift []float32) {
	gain, shift = n.Gain()
	return slices.Clone(gain), slices.Clone(shift)
}

func (p pair) copied() Linear {
	if p.second == nil {
		return copiedLinear(p.bias, p.first)
	}
	return copiedLinear(p.bias, p.first, p.second)
}

func (l linear) copied() Linear { return copiedLinear(l.bias, l.w) }

// copiedLinear unpacks the weights of inputs that lie behind each other.
func copiedLinear(bias []float32, parts ...*kernel.Matrix) Linear {
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

func allCopied(layers []linear) []Linear {
	copies := make([]Linear, len(layers))
	for i, l := range layers {
		copies[i] = l.copied()
	}
	return copies
}
