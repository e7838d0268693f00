package onnx

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"

	"optibfm/internal/npz"
	"optibfm/tflite"
)

// Graphs are a policy and B as ONNX models. They make a model without F, and so without ψ.
type Graphs struct {
	Manifest tflite.Manifest
	Tensors  map[string]tflite.Tensor // without cov_b

	policyFile, backwardFile string
	policy, backward         *model
	zInput                   string    // the input of policy with z
	zAt                      int       // its first column of z
	order                    []string  // of the inputs
	segments                 []segment // of the groups
}

// Read reads a policy and B, and refuses a graph by its first node that is not part of a network
// that FORMAT.md describes. normZ is whether the policy expects √d·z/‖z‖; a graph that scales z
// itself overrides it.
//
// The groups of the model are the parts of the inputs that the networks read, without z. A part
// that both read must be normalised in the same way. A single part is an observation without
// groups.
func Read(policy, backward string, normZ bool) (*Graphs, error) {
	g := &Graphs{policyFile: policy, backwardFile: backward, Tensors: make(map[string]tflite.Tensor)}
	var b features
	var t tower
	err := func() (err error) {
		if g.backward, err = readModel(backward); err == nil {
			b, err = g.backward.features()
		}
		return err
	}()
	if err != nil {
		return nil, fmt.Errorf("onnx: %s: %w", backward, err)
	}
	if g.policy, err = readModel(policy); err == nil {
		t, err = g.policy.policy()
	}
	if err == nil {
		err = g.assemble(t, b, normZ)
	}
	if err != nil {
		return nil, fmt.Errorf("onnx: %s: %w", policy, err)
	}
	return g, nil
}

func (g *Graphs) assemble(t tower, b features, normZ bool) error {
	d := b.layers[len(b.layers)-1].out
	if len(t.rightReads) <= d || len(t.trunk) == 0 {
		return fmt.Errorf("an embedding reads %d columns, want more than the %d of z", len(t.rightReads), d)
	}
	obs, z := t.rightReads[:len(t.rightReads)-d], t.rightReads[len(t.rightReads)-d:]
	if !slices.Equal(obs, t.leftReads) {
		return errors.New("the embeddings read different observations")
	}
	for i, c := range z {
		if c.input != z[0].input || c.index != z[0].index+i || c.scale != 1 || c.shift != 0 || c.unit != z[0].unit {
			return fmt.Errorf("the last %d columns of an embedding are not z", d)
		}
	}
	g.zInput, g.zAt = z[0].input, z[0].index
	a := &g.Manifest.Architecture
	a.Action, a.Latent, a.NormZ = t.trunk[len(t.trunk)-1].out, d, normZ || z[0].unit
	a.B = tflite.BackArch{Hidden: b.layers[0].out, HiddenLayers: len(b.layers) - 1, Norm: b.unit}
	a.Actor = tflite.ActorArch{
		Hidden: t.left[0].out, HiddenLayers: len(t.trunk) - 1, EmbeddingLayers: len(t.left), Residual: t.residual,
	}
	if len(t.right) != len(t.left) {
		return fmt.Errorf("the embeddings have %d and %d layers", len(t.left), len(t.right))
	}
	if err := errors.Join(g.setGroups(obs, b.reads), g.setEps(t, b)); err != nil {
		return err
	}
	g.addSequence("_backward_map.net", b.layers, false)
	g.addSequence("_actor.embed_s", t.left, t.residual)
	g.addSequence("_actor.embed_z", t.right, t.residual)
	g.addSequence("_actor.policy", t.trunk, t.residual)
	return g.checkShapes()
}

// checkShapes checks that each layer fits the layers before it.
func (g *Graphs) checkShapes() error {
	if err := g.Manifest.Architecture.Validate(); err != nil {
		return err
	}
	want := g.Manifest.Architecture.Tensors()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if shape := g.Tensors[name].Shape; !slices.Equal(shape, want[name]) {
			return fmt.Errorf("the layers do not fit: tensor %q of FORMAT.md has the shape %v, want %v; export the model again",
				name, shape, want[name])
		}
	}
	return nil
}

// setEps checks that all LayerNorms have the same ε.
func (g *Graphs) setEps(t tower, b features) error {
	for _, l := range slices.Concat(b.layers, t.left, t.right, t.trunk) {
		if l.norm == nil {
			continue
		}
		eps := float64(float32(l.norm.eps))
		if g.Manifest.LayerNormEps == 0 {
			g.Manifest.LayerNormEps = math.Round(eps*1e12) / 1e12
		}
		if math.Abs(eps-g.Manifest.LayerNormEps) > 1e-9 {
			return fmt.Errorf("LayerNorms with the epsilon %g and %g", g.Manifest.LayerNormEps, eps)
		}
	}
	return nil
}

// addSequence adds the tensors of a network with the names of a PyTorch Sequential.
func (g *Graphs) addSequence(prefix string, layers []dense, residual bool) {
	module := 0
	for i, l := range layers {
		name := prefix + "." + strconv.Itoa(module)
		norm := prefix + "." + strconv.Itoa(module+1)
		if residual {
			name = prefix + "." + strconv.Itoa(i) + ".mlp.1"
			norm = prefix + "." + strconv.Itoa(i) + ".mlp.0"
		}
		g.add(name+".weight", l.weight, l.out, l.in)
		g.add(name+".bias", l.bias, l.out)
		module += 2
		if l.norm != nil {
			g.add(norm+".weight", l.norm.gain, len(l.norm.gain))
			g.add(norm+".bias", l.norm.shift, len(l.norm.shift))
			module++
		}
	}
}

func (g *Graphs) add(name string, values []float64, shape ...int) {
	t := tflite.Tensor{Shape: shape, F32: make([]float32, len(values))}
	for i, v := range values {
		t.F32[i] = float32(v)
	}
	g.Tensors[name] = t
}

// segment is a range of the columns of an input that the networks read as a whole: a group.
type segment struct {
	input    string
	from, to int
}

// setGroups makes groups of the parts of the inputs that the networks read.
func (g *Graphs) setGroups(policy, backward []column) error {
	a := &g.Manifest.Architecture
	networks := [][]column{backward, policy}
	known := make(map[segment]column) // of one column each
	for _, c := range slices.Concat(networks...) {
		one := segment{c.input, c.index, c.index + 1}
		if other, ok := known[one]; ok && other != c {
			return fmt.Errorf("the input %q has another normaliser in the other graph", c.input)
		}
		known[one] = c
	}
	cuts := make(map[string][]int)
	for _, reads := range networks {
		for _, run := range runs(reads) {
			name := run[0].input
			if cuts[name] == nil {
				g.order = append(g.order, name)
			}
			cuts[name] = append(cuts[name], run[0].index, run[0].index+len(run))
		}
	}
	for _, name := range g.order {
		slices.Sort(cuts[name])
		cuts[name] = slices.Compact(cuts[name])
		for i, from := range cuts[name][:len(cuts[name])-1] {
			s := segment{name, from, cuts[name][i+1]}
			if _, read := known[segment{name, from, from + 1}]; read {
				g.segments = append(g.segments, s)
			}
		}
	}
	if err := g.addGroups(known); err != nil {
		return err
	}
	for i, into := range []*[]string{&a.B.Inputs, &a.Actor.Inputs} {
		for at := 0; at < len(networks[i]); {
			c := networks[i][at]
			k := slices.IndexFunc(g.segments, func(s segment) bool { return s.input == c.input && s.from == c.index })
			if k < 0 || slices.Contains(*into, a.Groups[k].Name) {
				return fmt.Errorf("the columns of the input %q are in another order", c.input)
			}
			*into = append(*into, a.Groups[k].Name)
			at += a.Groups[k].Size
		}
	}
	if len(a.Groups) == 1 { // an observation without groups
		a.NormObs, a.Groups, a.B.Inputs, a.Actor.Inputs = a.Groups[0].NormObs, nil, nil, nil
	}
	return nil
}

// addGroups adds a group for each segment, and its normaliser.
func (g *Graphs) addGroups(known map[segment]column) error {
	a := &g.Manifest.Architecture
	for i, s := range g.segments {
		name := s.input
		if s.from > 0 || i+1 < len(g.segments) && g.segments[i+1].input == name {
			name += "_" + strconv.Itoa(s.from)
		}
		var part []column
		for k := s.from; k < s.to; k++ {
			part = append(part, known[segment{s.input, k, k + 1}])
		}
		a.Groups = append(a.Groups, tflite.Group{Name: name, Size: len(part), NormObs: normalises(part)})
		a.Obs += len(part)
		prefix := "_obs_normalizer._normalizers." + name + "._normalizer.running_"
		if len(g.segments) == 1 {
			prefix = "_obs_normalizer.running_"
		}
		if err := g.addNormaliser(prefix, part); err != nil {
			return err
		}
	}
	return nil
}

// addNormaliser adds the mean and the variance of columns that are normalised.
func (g *Graphs) addNormaliser(prefix string, part []column) error {
	if !normalises(part) {
		return nil
	}
	mean, variance := make([]float64, len(part)), make([]float64, len(part))
	for i, c := range part {
		mean[i], variance[i] = -c.shift, max(1/(c.scale*c.scale)-1e-5, 0)
		if c.unit || !(c.scale > 0) || math.Abs(1/math.Sqrt(variance[i]+1e-5)-c.scale) > 1e-6*c.scale {
			return fmt.Errorf("column %d of the input %q has no variance: the scale is %g", c.index, c.input, c.scale)
		}
	}
	g.add(prefix+"mean", mean, len(mean))
	g.add(prefix+"var", variance, len(variance))
	return nil
}

func normalises(columns []column) bool {
	return slices.ContainsFunc(columns, func(c column) bool { return c.scale != 1 || c.shift != 0 || c.unit })
}

// runs splits columns where the input changes or the columns are not in order.
func runs(columns []column) [][]column {
	var all [][]column
	for i, c := range columns {
		if i == 0 || c.input != columns[i-1].input || c.index != columns[i-1].index+1 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], c)
	}
	return all
}

// Verify compares both graphs in ONNX Runtime with a bundle of their tensors at random inputs.
// Errors.Phi is about B. Without ONNX Runtime it returns ErrNoRuntime.
func (g *Graphs) Verify(b *tflite.Bundle) (tflite.Errors, error) {
	e := tflite.Errors{Cases: verifyCases}
	n, err := b.NewNetwork()
	if err != nil {
		return e, err
	}
	d := b.Dims()
	inputs, widths := g.randomInputs()
	var actions, back []float32
	for i := range verifyCases {
		row := func(name string, from, size int) []float32 {
			at := i*widths[name] + from
			return inputs[name][at : at+size]
		}
		z, wide := row(g.zInput, g.zAt, d.Latent), make([]float64, d.Latent)
		for k, x := range z {
			wide[k] = float64(x)
		}
		if err := tflite.ProjectZ(z, wide, b.Architecture.NormZ); err != nil {
			return e, err
		}
		var obs []float32
		for _, s := range g.segments {
			obs = append(obs, row(s.input, s.from, s.to-s.from)...)
		}
		action, features := make([]float32, d.Action), make([]float64, d.Latent)
		if err := errors.Join(n.Act(action, obs, wide), n.Backward(features, obs)); err != nil {
			return e, err
		}
		actions = append(actions, action...)
		for _, x := range features {
			back = append(back, float32(x))
		}
	}
	arrays := make(npz.Archive)
	for name, values := range inputs {
		arrays[name] = npz.Float32(values, verifyCases, widths[name])
	}
	var failed error
	e.Action, err = compareFile(g.policyFile, g.policy.outputs[0], arrays, actions)
	e.Phi, failed = compareFile(g.backwardFile, g.backward.outputs[0], arrays, back)
	return e, errors.Join(err, failed)
}

// randomInputs are the inputs of both graphs, [verifyCases, width], by their names.
func (g *Graphs) randomInputs() (inputs map[string][]float32, widths map[string]int) {
	rng := rand.New(rand.NewPCG(3, 4))
	inputs, widths = make(map[string][]float32), make(map[string]int)
	for _, in := range slices.Concat(g.policy.inputs, g.backward.inputs) {
		if widths[in.name] > 0 {
			continue
		}
		widths[in.name], inputs[in.name] = in.width, make([]float32, verifyCases*in.width)
		for i := range inputs[in.name] {
			inputs[in.name][i] = float32(rng.NormFloat64())
		}
	}
	return inputs, widths
}

// compareFile returns the distance of a model's output from the expected one.
func compareFile(file, output string, inputs npz.Archive, want []float32) (float64, error) {
	results, err := Run(file, inputs)
	if err != nil {
		return 0, err
	}
	array, err := results.Get(output)
	if err != nil {
		return 0, err
	}
	got, err := array.Float32s()
	if err == nil && len(got) != len(want) {
		err = fmt.Errorf("onnx: %s: %d results, want %d", filepath.Base(file), len(got), len(want))
	}
	if err != nil {
		return 0, err
	}
	return tflite.Relative(got, want), nil
}
