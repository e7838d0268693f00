package tflite_test

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"optibfm/tflite"
)

// reference evaluates the networks from the tensors in float64, layer by layer and one
// case at a time.
type reference struct {
	m       tflite.Manifest
	tensors map[string]tflite.Tensor
}

// apply is one linear layer of an ensemble member.
func (r reference) apply(name string, member int, x []float64) []float64 {
	w, b := r.tensors[name+".weight"], r.tensors[name+".bias"]
	if len(w.Shape) == 2 {
		y := make([]float64, w.Shape[0])
		for o := range y {
			y[o] = float64(b.F32[o])
			for i, v := range x {
				y[o] += float64(w.F32[o*len(x)+i]) * v
			}
		}
		return y
	}
	in, out := w.Shape[1], w.Shape[2]
	y := make([]float64, out)
	for o := range y {
		y[o] = float64(b.F32[member*out+o])
		for i, v := range x {
			y[o] += float64(w.F32[(member*in+i)*out+o]) * v
		}
	}
	return y
}

func (r reference) normTanh(name string, member int, x []float64) []float64 {
	y := r.norm(name, member, x)
	for i, v := range y {
		y[i] = math.Tanh(v)
	}
	return y
}

func (r reference) norm(name string, member int, x []float64) []float64 {
	var mean, variance float64
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	gain, bias := r.tensors[name+".weight"].F32[member*len(x):], r.tensors[name+".bias"].F32[member*len(x):]
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = (v-mean)/math.Sqrt(variance+r.m.LayerNormEps)*float64(gain[i]) + float64(bias[i])
	}
	return y
}

func positive(x []float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = math.Max(v, 0)
	}
	return y
}

func concat(x, y []float64) []float64 { return append(append([]float64{}, x...), y...) }

// block is LayerNorm, a linear layer and, unless it is the last one of a network, Mish. A block
// that keeps the width adds its input.
func (r reference) block(prefix string, i, member int, x []float64, last, skip bool) []float64 {
	prefix += "." + strconv.Itoa(i) + ".mlp"
	y := r.apply(prefix+".1", member, r.norm(prefix+".0", member, x))
	for k, v := range y {
		if !last {
			y[k] = v * math.Tanh(math.Log1p(math.Exp(v)))
		}
		if skip {
			y[k] += x[k]
		}
	}
	return y
}

func (r reference) residual(prefix string) bool {
	if strings.HasPrefix(prefix, "_actor") {
		return r.m.Architecture.Actor.Residual
	}
	return r.m.Architecture.F.Residual
}

func (r reference) embedding(prefix string, layers, member int, x []float64) []float64 {
	if r.residual(prefix) {
		for k := range layers {
			x = r.block(prefix, k, member, x, false, k > 0 && k < layers-1)
		}
		return x
	}
	x = r.normTanh(prefix+".1", member, r.apply(prefix+".0", member, x))
	for k := range layers - 1 {
		x = positive(r.apply(prefix+"."+strconv.Itoa(3+2*k), member, x))
	}
	return x
}

func (r reference) trunk(prefix string, hidden, member int, x []float64) []float64 {
	if r.residual(prefix) {
		for k := range hidden + 1 {
			x = r.block(prefix, k, member, x, k == hidden, k < hidden)
		}
		return x
	}
	for k := range hidden {
		x = positive(r.apply(prefix+"."+strconv.Itoa(2*k), member, x))
	}
	return r.apply(prefix+"."+strconv.Itoa(2*hidden), member, x)
}

// read returns what a network with these inputs sees.
func (r reference) read(inputs []string, obs []float32) []float64 {
	x := r.normalise(obs)
	if inputs == nil {
		return x
	}
	parts := make(map[string][]float64)
	for _, g := range r.m.Architecture.Groups {
		part := slices.Clone(x[:g.Size])
		for i := range part {
			if prefix := "_obs_normalizer._normalizers." + g.Name + "._normalizer.running_"; g.NormObs {
				variance := float64(r.tensors[prefix+"var"].F32[i])
				part[i] = (part[i] - float64(r.tensors[prefix+"mean"].F32[i])) / math.Sqrt(variance+1e-5)
			}
		}
		parts[g.Name], x = part, x[g.Size:]
	}
	var seen []float64
	for _, name := range inputs {
		seen = append(seen, parts[name]...)
	}
	return seen
}

func (r reference) normalise(obs []float32) []float64 {
	x := make([]float64, len(obs))
	for i, v := range obs {
		x[i] = float64(v)
		if r.m.Architecture.NormObs {
			mean := float64(r.tensors["_obs_normalizer.running_mean"].F32[i])
			variance := float64(r.tensors["_obs_normalizer.running_var"].F32[i])
			x[i] = (x[i] - mean) / math.Sqrt(variance+1e-5)
		}
	}
	return x
}

func sphere(x []float64) []float64 {
	var squares float64
	for _, v := range x {
		squares += v * v
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v * math.Sqrt(float64(len(x))/squares)
	}
	return y
}

func (r reference) project(z []float64) []float64 {
	if r.m.Architecture.NormZ {
		return sphere(z)
	}
	return z
}

func (r reference) backward(obs []float32) []float64 {
	b := r.m.Architecture.B
	x := r.normTanh("_backward_map.net.1", 0, r.apply("_backward_map.net.0", 0, r.read(b.Inputs, obs)))
	for k := range b.HiddenLayers - 1 {
		x = positive(r.apply("_backward_map.net."+strconv.Itoa(3+2*k), 0, x))
	}
	x = r.apply("_backward_map.net."+strconv.Itoa(1+2*b.HiddenLayers), 0, x)
	if b.Norm {
		x = sphere(x)
	}
	return x
}

func (r reference) act(obs []float32, z []float64) []float64 {
	a := r.m.Architecture.Actor
	s := r.read(a.Inputs, obs)
	left := r.embedding("_actor.embed_s", a.EmbeddingLayers, 0, s)
	right := r.embedding("_actor.embed_z", a.EmbeddingLayers, 0, concat(s, r.project(z)))
	action := r.trunk("_actor.policy", a.HiddenLayers, 0, concat(left, right))
	for i, v := range action {
		action[i] = math.Tanh(v)
	}
	return action
}

func (r reference) psi(obs, action []float32, z []float64) []float64 {
	var wide []float64
	for _, v := range action {
		wide = append(wide, float64(v))
	}
	return r.psiWide(obs, wide, z)
}

func (r reference) psiWide(obs []float32, wide, z []float64) []float64 {
	f := r.m.Architecture.F
	s := r.read(f.Inputs, obs)
	var all []float64
	for member := range f.NumParallel {
		left := r.embedding("_forward_map.embed_sa", f.EmbeddingLayers, member, concat(s, wide))
		right := r.embedding("_forward_map.embed_z", f.EmbeddingLayers, member, concat(s, r.project(z)))
		all = append(all, r.trunk("_forward_map.Fs", f.HiddenLayers, member, concat(left, right))...)
	}
	return all
}
