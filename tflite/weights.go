package tflite

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"optibfm/tflite/internal/kernel"
)

// obsEps is the constant that the observation normaliser adds to the variance.
const obsEps = 1e-5

// weights are the networks of a bundle. All Networks of the bundle share them
// read-only.
type weights struct {
	b           backwardNet
	encoder     *backwardNet // nil: none
	f           []twoTower
	actor       twoTower
	mean, scale []float32 // of the normaliser; nil without
	reads       reads
	cov         *covariance
	widest      int // elements of the widest layer, observation or z

	// transposed returns the transposed weights for Gradient. The first call makes
	// them.
	transposed func() transposed
}

// checkTensors compares the tensors with those of the architecture. cov_b may be
// missing unless needCov is set.
func checkTensors(a Architecture, tensors map[string]Tensor, needCov bool) error {
	want := a.Tensors()
	if _, ok := tensors[covName]; ok || needCov {
		want[covName] = []int{a.Latent, a.Latent}
	}
	return checkShapes(want, tensors)
}

// checkShapes returns an error unless the tensors are those of want, with these shapes and finite
// elements.
func checkShapes(want map[string][]int, tensors map[string]Tensor) error {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t, ok := tensors[name]
		if !ok {
			return fmt.Errorf("tensor %q is missing, want one of shape %v; export the model again", name, want[name])
		}
		if !slices.Equal(t.Shape, want[name]) {
			return fmt.Errorf("tensor %q has shape %v, want %v; copy all files of one model", name, t.Shape, want[name])
		}
		if n := elements(t.Shape); n != t.count() {
			return fmt.Errorf("tensor %q has %d elements, its shape %v has %d", name, t.count(), t.Shape, n)
		}
		if i, ok := t.finite(); !ok {
			return fmt.Errorf("tensor %q: element %d is not finite (%g); use another checkpoint", name, i, t.float32s()[i])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		if _, ok := want[name]; !ok {
			return fmt.Errorf("unknown tensor %q, which no network here has; remove it if nothing but training uses it", name)
		}
	}
	return nil
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// newWeights builds the networks from checked tensors. It deletes packed weights from the map, so
// that the garbage collector can free them.
func newWeights(m Manifest, tensors map[string]Tensor, packed *packing) (*weights, error) {
	a := m.Architecture
	p := parts{
		tensors: tensors, eps: m.LayerNormEps, members: 1, obs: a.actorWidth(), residual: a.Actor.Residual,
		packing: packed,
	}
	w := &weights{b: p.backward(backwardName, a.B.HiddenLayers, a.B.Norm), reads: a.reads()}
	if e := a.Encoder; e != nil {
		encoder := p.backward(encoderName, e.HiddenLayers, e.Norm)
		w.encoder = &encoder
	}
	w.actor = p.twoTower("_actor.embed_s", "_actor.embed_z", "_actor.policy",
		a.Actor.EmbeddingLayers, a.Actor.HiddenLayers)
	p.members, p.obs, p.residual = a.F.NumParallel, a.fWidth(), a.F.Residual
	for p.member = range a.F.NumParallel {
		w.f = append(w.f, p.twoTower("_forward_map.embed_sa", "_forward_map.embed_z", "_forward_map.Fs",
			a.F.EmbeddingLayers, a.F.HiddenLayers))
	}
	w.transposed = sync.OnceValue(func() transposed { return newTransposed(w) })
	w.widest = max(a.Obs, a.Latent, a.Action, a.B.Hidden, w.actor.widest())
	for _, f := range w.f {
		w.widest = max(w.widest, f.widest())
	}
	if e := a.Encoder; e != nil {
		w.widest = max(w.widest, e.Hidden, e.Size)
	}
	if err := errors.Join(w.setNormaliser(a, tensors), w.setCovariance(a, tensors)); err != nil {
		return nil, err
	}
	return w, nil
}

// setCovariance reads Cov B, if there is one.
func (w *weights) setCovariance(a Architecture, tensors map[string]Tensor) (err error) {
	if cov, ok := tensors[covName]; ok {
		w.cov, err = newCovariance(cov.float64s(), a.Latent)
	}
	return err
}

// residual reports whether a network consists of residual blocks.
func (w *weights) residual() bool { return w.actor.residual() || len(w.f) > 0 && w.f[0].residual() }

// setNormaliser reads the observation normaliser, or those of the groups.
func (w *weights) setNormaliser(a Architecture, tensors map[string]Tensor) (err error) {
	if a.NormObs {
		w.mean, w.scale, err = normaliser(tensors, meanName, varName)
		return err
	}
	if !slices.ContainsFunc(a.Groups, func(g Group) bool { return g.NormObs }) {
		return nil
	}
	for _, g := range a.Groups {
		mean, scale := make([]float32, g.Size), slices.Repeat([]float32{1}, g.Size)
		if g.NormObs {
			if mean, scale, err = normaliser(tensors, g.tensor("running_mean"), g.tensor("running_var")); err != nil {
				return err
			}
		}
		w.mean, w.scale = append(w.mean, mean...), append(w.scale, scale...)
	}
	return nil
}

func normaliser(tensors map[string]Tensor, meanName, varName string) (mean, scale []float32, err error) {
	mean = slices.Clone(tensors[meanName].float32s())
	variance := tensors[varName].float64s()
	scale = make([]float32, len(variance))
	for i, v := range variance {
		if v < 0 {
			return nil, nil, fmt.Errorf("tensor %q: variance %d is negative (%g)", varName, i, v)
		}
		scale[i] = float32(1 / math.Sqrt(v+obsEps))
	}
	return mean, scale, nil
}

// parts builds the layers of a network from the tensors.
type parts struct {
	tensors  map[string]Tensor
	eps      float64
	obs      int // elements of the network's observation
	member   int // of the ensemble
	members  int
	residual bool
	*packing
}

// unpacked are the weights of a layer, [out, in], or [in, out] if transposed is set.
type unpacked struct {
	w          Tensor
	out, in    int
	transposed bool
	half       bool   // pack them as float16
	last       Tensor // tensor of the file that is not needed after this layer
}

// halfHolds reports whether float16 can hold weights, [out, in], times the gains of their inputs.
func halfHolds(weights, gain []float32) bool {
	for i, w := range weights {
		if x := w * gain[i%len(gain)]; !(x >= -maxHalf && x <= maxHalf) {
			return false
		}
	}
	return true
}

// weights takes the weights of a layer out of the tensors, for the last member of the ensemble.
func (p parts) weights(name string) unpacked {
	name += ".weight"
	if p.from != nil {
		return p.shapeOf(name)
	}
	t := p.tensors[name]
	u := unpacked{w: t, out: t.Shape[0], in: t.Shape[1], half: t.F16 != nil}
	if p.members > 1 {
		u = unpacked{w: t.of(p.member), in: t.Shape[1], out: t.Shape[2], transposed: true, half: t.F16 != nil}
	}
	if p.member == p.members-1 {
		delete(p.tensors, name)
		u.last = t
	}
	return u
}

// bias copies the bias into memory with room for whole panels.
func (p parts) bias(name string, out int) []float32 {
	b := kernel.Aligned(out)
	copy(b, p.tensors[name+".bias"].float32s()[p.member*out:])
	return b
}

func (p parts) linear(name string, after activation, sparse bool) linear {
	u := p.weights(name)
	defer p.to.release(u.last)
	return linear{w: p.columns(u, 0, u.in), bias: p.bias(name, u.out), after: after, sparse: sparse}
}

// block is a linear layer with LayerNorm of its input.
func (p parts) block(name string, after activation, skip bool) linear {
	l := p.linear(name+".mlp.1", after, false)
	norm := p.layerNorm(name + ".mlp.0")
	l.norm, l.skip = &norm, skip
	return l
}

// splitLinear builds a layer with its inputs split after the first ones, split in number.
func (p parts) splitLinear(name string, split int, after activation) splitLinear {
	u := p.weights(name)
	return p.newSplitLinear(u, p.bias(name, u.out), split, after)
}

// splitBlock is splitLinear with LayerNorm of the inputs.
func (p parts) splitBlock(name string, split int, after activation, skip bool) splitLinear {
	u, norm := p.weights(name+".mlp.1"), p.layerNorm(name+".mlp.0")
	gain, _ := norm.Gain()
	if p.from == nil {
		w := p.wide(u)
		u.w, u.transposed, u.half = Tensor{F32: w}, false, u.half && halfHolds(w, gain)
	}
	folded := p.fold(norm, fmt.Sprint(name, ".", p.member), u, p.bias(name+".mlp.1", u.out))
	l := p.newSplitLinear(u, kernel.Aligned(u.out), split, after)
	l.folded, l.skip = &folded, skip
	return l
}

func (p parts) newSplitLinear(u unpacked, bias []float32, split int, after activation) splitLinear {
	l := splitLinear{first: p.columns(u, 0, split), bias: bias, after: after}
	if u.in > split {
		l.second = p.columns(u, split, u.in)
	}
	p.to.release(u.last)
	return l
}

func (p parts) layerNorm(name string) kernel.LayerNorm {
	gain, bias := p.tensors[name+".weight"].float32s(), p.tensors[name+".bias"].float32s()
	width := len(gain) / p.members
	return kernel.NewLayerNorm(gain[p.member*width:][:width], bias[p.member*width:][:width], p.eps)
}

func (p parts) embedding(prefix string, count int) embedding {
	if p.residual {
		e := embedding{first: p.splitBlock(prefix+".0", p.obs, mish, false)}
		for i := 1; i < count; i++ {
			e.more = append(e.more, p.block(numbered(prefix, i), mish, i < count-1))
		}
		return e
	}
	norm := p.layerNorm(prefix + ".1")
	e := embedding{first: p.splitLinear(prefix+".0", p.obs, none), norm: &norm}
	for i := range count - 1 {
		e.more = append(e.more, p.linear(numbered(prefix, 3+2*i), relu, i > 0)) // tanh leaves no zeros
	}
	return e
}

func (p parts) twoTower(left, right, trunk string, embeddingLayers, hiddenLayers int) twoTower {
	t := twoTower{left: p.embedding(left, embeddingLayers), right: p.embedding(right, embeddingLayers)}
	between := func(layer int, after activation) activation { // nothing follows the last layer
		if layer == hiddenLayers {
			return none
		}
		return after
	}
	if p.residual {
		t.join = p.splitBlock(numbered(trunk, 0), t.left.out(), between(0, mish), hiddenLayers > 0)
	} else {
		t.join = p.splitLinear(numbered(trunk, 0), t.left.out(), between(0, relu))
	}
	for i := 1; i <= hiddenLayers; i++ {
		if p.residual {
			t.trunk = append(t.trunk, p.block(numbered(trunk, i), between(i, mish), i < hiddenLayers))
		} else {
			t.trunk = append(t.trunk, p.linear(numbered(trunk, 2*i), between(i, relu), true))
		}
	}
	return t
}

func (p parts) backward(prefix string, hiddenLayers int, unit bool) backwardNet {
	b := backwardNet{first: p.linear(prefix+".0", none, false), unit: unit}
	if hiddenLayers > 0 {
		norm := p.layerNorm(prefix + ".1")
		b.norm = &norm
	}
	for i := range hiddenLayers {
		after := relu
		if i == hiddenLayers-1 {
			after = none
		}
		b.more = append(b.more, p.linear(numbered(prefix, 3+2*i), after, i > 0))
	}
	return b
}

// covariance holds Cov B and its Cholesky factor, UᵀU.
type covariance struct {
	values []float64 // [d, d]
	factor blas64.Triangular
}

func newCovariance(values []float64, d int) (*covariance, error) {
	for i := range d {
		for j := range i {
			x, y := values[i*d+j], values[j*d+i]
			if math.Abs(x-y) > 1e-5*math.Sqrt(math.Abs(values[i*d+i]*values[j*d+j])) {
				return nil, fmt.Errorf("tensor %q is not symmetric (%g at [%d, %d], %g at [%d, %d]); "+
					"compute it again with optibfm model import", covName, x, i, j, y, j, i)
			}
		}
	}
	var chol mat.Cholesky
	if ok := chol.Factorize(mat.NewSymDense(d, slices.Clone(values))); !ok {
		return nil, fmt.Errorf("tensor %q is not positive definite; "+
			"use more or more varied observations for optibfm model import", covName)
	}
	return &covariance{values: values, factor: chol.RawU().(mat.RawTriangular).RawTriangular()}, nil
}

// solve computes x ← (Cov B)⁻¹ x without allocating.
func (c *covariance) solve(x []float64) {
	v := blas64.Vector{N: len(x), Inc: 1, Data: x}
	blas64.Trsv(blas.Trans, c.factor, v)
	blas64.Trsv(blas.NoTrans, c.factor, v)
}
