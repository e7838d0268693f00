package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// dense is a linear layer, with LayerNorm after it (simple networks) or before it (residual ones);
// norm is nil without.
type dense struct {
	in, out      int
	weight, bias []float64 // weight [out, in]
	norm         *layerNorm
}

type layerNorm struct {
	gain, shift []float64
	eps         float64
}

// tower is a network of two embeddings and a trunk.
type tower struct {
	residual              bool
	left, right           []dense
	leftReads, rightReads []column
	trunk                 []dense
}

// features is B, or another network with its layers.
type features struct {
	layers []dense
	reads  []column
	unit   bool
}

func (m *model) output() (string, error) {
	if len(m.outputs) != 1 {
		return "", fmt.Errorf("%d outputs, want one", len(m.outputs))
	}
	return m.outputs[0], nil
}

// linear recognises a linear layer of x.
func (m *model) linear(name string) (x string, l dense, err error) {
	n := m.producer(name)
	if n == nil {
		return "", l, fmt.Errorf("the tensor %q is an input or a constant, want a linear layer", name)
	}
	var matrix string
	transposed := true // [in, out]
	switch {
	case n.op == "Gemm" && len(n.inputs) >= 2 && n.one("alpha") && n.one("beta") && n.numbers["transA"] == 0:
		x, matrix, transposed = n.inputs[0], m.original(n.inputs[1]), n.numbers["transB"] == 0
		if len(n.inputs) == 3 {
			l.bias = m.constants[m.original(n.inputs[2])].values
		}
	case n.op == "MatMul" && len(n.inputs) == 2:
		x, matrix = n.inputs[0], m.original(n.inputs[1])
	case n.op == "Add" && len(n.inputs) == 2:
		for i, other := range []string{n.inputs[1], n.inputs[0]} {
			product := m.producer(other)
			if bias := m.constants[m.original(n.inputs[i])].values; bias != nil && product != nil && product.op == "MatMul" {
				l.bias = bias
				x, matrix = product.inputs[0], m.original(product.inputs[1])
			}
		}
	}
	weight := m.constants[matrix]
	if len(weight.dims) != 2 || len(weight.values) == 0 {
		return "", l, n.unexpected("a linear layer (Gemm, or MatMul and Add) with constant weights")
	}
	if other := m.layers[matrix]; other != nil && other != n {
		return "", l, n.unexpected(fmt.Sprintf("other weights than those of node %q", other.name))
	}
	m.layers[matrix] = n
	l.out, l.in, l.weight = weight.dims[0], weight.dims[1], weight.values
	if transposed {
		l.in, l.out = weight.dims[0], weight.dims[1]
		l.weight = make([]float64, len(weight.values))
		for i, v := range weight.values {
			l.weight[i%l.out*l.in+i/l.out] = v
		}
	}
	if l.bias == nil {
		l.bias = make([]float64, l.out)
	}
	if len(l.bias) != l.out {
		return "", l, n.unexpected(fmt.Sprintf("%d biases", l.out))
	}
	return x, l, nil
}

// one reports whether a factor of Gemm is 1, its default.
func (n *node) one(name string) bool {
	v, ok := n.numbers[name]
	return !ok || v == 1
}

// layerNorm recognises LayerNorm of x, as one operation or as several.
func (m *model) layerNorm(name string) (x string, l *layerNorm, ok bool) {
	n := m.producer(name)
	if n == nil {
		return "", nil, false
	}
	if n.op == "LayerNormalization" && len(n.inputs) >= 2 {
		l = &layerNorm{gain: m.constants[m.original(n.inputs[1])].values, eps: 1e-5}
		l.shift = make([]float64, len(l.gain))
		if len(n.inputs) > 2 && n.inputs[2] != "" {
			l.shift = m.constants[m.original(n.inputs[2])].values
		}
		if eps, given := n.numbers["epsilon"]; given {
			l.eps = eps
		}
		axis, given := n.numbers["axis"]
		return n.inputs[0], l, len(l.gain) > 0 && len(l.shift) == len(l.gain) && (!given || isLastAxis(axis))
	}
	scaled, shift, ok := m.withConstant(n, "Add")
	if !ok {
		return "", nil, false
	}
	ratio, gain, ok := m.withConstant(m.producer(scaled), "Mul")
	if !ok || len(gain) != len(shift) {
		return "", nil, false
	}
	division := m.producer(ratio)
	if division == nil || division.op != "Div" {
		return "", nil, false
	}
	difference, root := m.producer(division.inputs[0]), m.producer(division.inputs[1])
	if difference == nil || difference.op != "Sub" || root == nil || root.op != "Sqrt" {
		return "", nil, false
	}
	variance, eps, ok := m.withConstant(m.producer(root.inputs[0]), "Add")
	if !ok || len(eps) != 1 || !m.isMean(difference.inputs[1], difference.inputs[0]) ||
		!m.isVariance(variance, division.inputs[0]) {
		return "", nil, false
	}
	return difference.inputs[0], &layerNorm{gain, shift, eps[0]}, true
}

// isMean reports whether a tensor is the mean of the rows of x.
func (m *model) isMean(name, x string) bool {
	n := m.producer(name)
	return n != nil && n.op == "ReduceMean" && m.overColumns(n) && m.original(n.inputs[0]) == m.original(x)
}

// isVariance reports whether a tensor is the mean square of the rows of x.
func (m *model) isVariance(name, x string) bool {
	n := m.producer(name)
	if n == nil || n.op != "ReduceMean" || !m.overColumns(n) {
		return false
	}
	of, ok := m.square(n.inputs[0])
	return ok && of == m.original(x)
}

// withConstant recognises an operation of x and a constant, in any order.
func (m *model) withConstant(n *node, op string) (x string, c []float64, ok bool) {
	if n == nil || n.op != op || len(n.inputs) != 2 {
		return "", nil, false
	}
	for i, name := range n.inputs {
		if c := m.constants[m.original(name)].values; c != nil {
			return n.inputs[1-i], c, true
		}
	}
	return "", nil, false
}

// mish recognises Mish of x, as one operation or as x·tanh(softplus x).
func (m *model) mish(name string) (x string, ok bool) {
	n := m.producer(name)
	switch {
	case n == nil:
		return "", false
	case n.op == "Mish":
		return n.inputs[0], true
	case n.op != "Mul" || len(n.inputs) != 2:
		return "", false
	}
	for i, name := range n.inputs {
		tanh := m.producer(name)
		if tanh == nil || tanh.op != "Tanh" {
			continue
		}
		soft := m.producer(tanh.inputs[0])
		if soft != nil && soft.op == "Softplus" && m.original(soft.inputs[0]) == m.original(n.inputs[1-i]) {
			return n.inputs[1-i], true
		}
	}
	return "", false
}

// under returns the input of an operation with one.
func (m *model) under(name, op string) (x string, ok bool) {
	n := m.producer(name)
	if n == nil || n.op != op || len(n.inputs) != 1 {
		return "", false
	}
	return n.inputs[0], true
}

// block recognises a linear layer of the LayerNorm of x.
func (m *model) block(name string) (x string, l dense, ok bool, err error) {
	normed, l, err := m.linear(name)
	if err != nil {
		return "", l, false, err
	}
	x, l.norm, ok = m.layerNorm(normed)
	return x, l, ok, nil
}

// skipped recognises residual blocks, x + mish(block x), and returns the input of the first one.
func (m *model) skipped(name string) (x string, blocks []dense, err error) {
	for {
		n := m.producer(name)
		if n == nil || n.op != "Add" || len(n.inputs) != 2 {
			return name, blocks, nil
		}
		found := false
		for i, side := range n.inputs {
			inner, ok := m.mish(side)
			if !ok {
				continue
			}
			x, l, ok, err := m.block(inner)
			if err != nil {
				return "", nil, err
			}
			if ok && m.original(x) == m.original(n.inputs[1-i]) {
				blocks, name, found = slices.Insert(blocks, 0, l), x, true
				break
			}
		}
		if !found {
			return "", nil, n.unexpected("x + Mish(linear(LayerNorm(x)))")
		}
	}
}

// normed recognises tanh of the LayerNorm of a linear layer of columns.
func (m *model) normed(name string) ([]column, dense, error) {
	inner, ok := m.under(name, "Tanh")
	if !ok {
		return nil, dense{}, m.wrong(name, "Tanh")
	}
	layer, norm, ok := m.layerNorm(inner)
	if !ok {
		return nil, dense{}, m.wrong(inner, "LayerNorm")
	}
	x, l, err := m.linear(layer)
	if err != nil {
		return nil, l, err
	}
	l.norm = norm
	reads, err := m.columns(x)
	return reads, l, err
}

// wrong is the error for a tensor that is not the result of an operation.
func (m *model) wrong(name, want string) error {
	if n := m.producer(name); n != nil {
		return n.unexpected(want)
	}
	return fmt.Errorf("the tensor %q is an input or a constant, want %s", name, want)
}

// features recognises B.
func (m *model) features() (f features, err error) {
	name, err := m.output()
	if err != nil {
		return f, err
	}
	for {
		x, _, ok := m.sphere(name)
		if !ok {
			break
		}
		name, f.unit = x, true
	}
	for {
		x, l, err := m.linear(name)
		if err != nil {
			return f, err
		}
		f.layers = slices.Insert(f.layers, 0, l)
		inner, ok := m.under(x, "Relu")
		if !ok {
			name = x
			break
		}
		name = inner
	}
	reads, first, err := m.normed(name)
	f.reads, f.layers = reads, slices.Insert(f.layers, 0, first)
	return f, err
}

// policy recognises an actor.
func (m *model) policy() (t tower, err error) {
	name, err := m.output()
	if err != nil {
		return t, err
	}
	if n := m.producer(name); n != nil && n.op == "Clip" { // of a truncated distribution, to [-1, 1]
		if low, high := m.limits(n); !(low <= -0.999 && high >= 0.999) {
			return t, n.unexpected("the limits -1 and 1")
		}
		name = n.inputs[0]
	}
	inner, ok := m.under(name, "Tanh")
	if !ok {
		return t, m.wrong(name, "Tanh of the policy")
	}
	joined, err := m.trunk(&t, inner)
	if err != nil {
		return t, err
	}
	join := m.producer(joined)
	if join == nil || join.op != "Concat" || len(join.inputs) != 2 || !isLastAxis(join.numbers["axis"]) {
		return t, m.wrong(joined, "Concat of two embeddings")
	}
	var failed error
	t.leftReads, t.left, err = m.embedding(join.inputs[0], t.residual)
	t.rightReads, t.right, failed = m.embedding(join.inputs[1], t.residual)
	return t, errors.Join(err, failed)
}

func (m *model) trunk(t *tower, name string) (joined string, err error) {
	x, l, residual, err := m.block(name)
	if err != nil {
		return "", err
	}
	if t.residual = residual; residual {
		joined, blocks, err := m.skipped(x)
		t.trunk = append(blocks, l)
		return joined, err
	}
	for {
		x, l, err := m.linear(name)
		if err != nil {
			return "", err
		}
		t.trunk = slices.Insert(t.trunk, 0, l)
		if name, residual = m.under(x, "Relu"); !residual {
			return x, nil
		}
	}
}

func (m *model) embedding(name string, residual bool) (reads []column, layers []dense, err error) {
	if residual {
		return m.residualEmbedding(name)
	}
	for {
		inner, ok := m.under(name, "Relu")
		if !ok {
			break
		}
		x, l, err := m.linear(inner)
		if err != nil {
			return nil, nil, err
		}
		name, layers = x, slices.Insert(layers, 0, l)
	}
	reads, first, err := m.normed(name)
	return reads, slices.Insert(layers, 0, first), err
}

func (m *model) residualEmbedding(name string) (reads []column, layers []dense, err error) {
	block := func(name string) (string, error) {
		inner, ok := m.mish(name)
		if !ok {
			return "", m.wrong(name, "Mish")
		}
		x, l, ok, err := m.block(inner)
		if err == nil && !ok {
			err = m.wrong(inner, "a linear layer of LayerNorm")
		}
		layers = slices.Insert(layers, 0, l)
		return x, err
	}
	x, err := block(name)
	if err != nil {
		return nil, nil, err
	}
	first, between, err := m.skipped(x)
	if err != nil {
		return nil, nil, err
	}
	layers = append(between, layers...)
	if x, err = block(first); err != nil {
		return nil, nil, err
	}
	reads, err = m.columns(x)
	return reads, layers, err
}
