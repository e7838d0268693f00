package tflite

import "slices"

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
	l.B = BackLayers{First: w.b.first.copied(), Gain: slices.Clone(w.b.norm.gain), Shift: slices.Clone(w.b.norm.bias), More: allCopied(w.b.more)}
	for _, f := range w.f {
		l.F = append(l.F, f.copied())
	}
	if w.cov != nil {
		l.Cov = slices.Clone(w.cov.values)
	}
	return l
}

func (t twin) copied() TwinLayers {
	return TwinLayers{Left: t.left.copied(), Right: t.right.copied(), Trunk: allCopied(t.trunk)}
}

func (e embedding) copied() EmbeddingLayers {
	return EmbeddingLayers{First: e.first.copied(), Gain: slices.Clone(e.norm.gain), Shift: slices.Clone(e.norm.bias), More: allCopied(e.more)}
}

func (l linear) copied() Linear {
	c := Linear{In: l.w.Cols, Out: l.w.Rows, Weight: make([]float32, l.w.Cols*l.w.Rows), Bias: slices.Clone(l.bias)}
	for o := range c.Out {
		for i := range c.In {
			c.Weight[i*c.Out+o] = l.w.Data[o*l.w.Stride+i]
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
