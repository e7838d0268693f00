package onnx

import (
	"fmt"
	"math"
	"slices"
)

// column is a column of a tensor that depends only on one column of an input: (x + shift)·scale.
type column struct {
	input        string
	index        int
	scale, shift float64
	unit         bool // before that, each row is scaled to the norm √d
}

// columns returns the columns of a tensor that selects, joins and normalises columns of inputs.
func (m *model) columns(name string) ([]column, error) {
	all, ok := m.known[name]
	if !ok {
		var err error
		if all, err = m.findColumns(name); err != nil {
			return nil, err
		}
		if m.total += len(all); len(all) > maxColumns || m.total > maxKnown {
			return nil, fmt.Errorf("the tensor %q has more than %d columns, or all tensors more than %d",
				name, maxColumns, maxKnown)
		}
		m.known[name] = all
	}
	return slices.Clone(all), nil
}

func (m *model) findColumns(name string) ([]column, error) {
	if i := slices.IndexFunc(m.inputs, func(in input) bool { return in.name == name }); i >= 0 {
		all := make([]column, m.inputs[i].width)
		for k := range all {
			all[k] = column{input: name, index: k, scale: 1}
		}
		return all, nil
	}
	n := m.producers[name]
	if n == nil {
		return nil, fmt.Errorf("the tensor %q has no origin", name)
	}
	if x, size, ok := m.sphere(name); ok {
		return m.unitColumns(n, x, size)
	}
	switch n.op {
	case "Identity":
		return m.columns(n.inputs[0])
	case "Concat":
		return m.joined(n)
	case "Slice":
		return m.sliced(n)
	case "Gather":
		return m.gathered(n)
	case "BatchNormalization":
		return m.batchNorm(n)
	case "Sub", "Add", "Mul", "Div":
		return m.affine(n)
	}
	return nil, n.unexpected("a normaliser, or a part of the input")
}

func (m *model) unitColumns(n *node, x string, size float64) ([]column, error) {
	all, err := m.columns(x)
	if err != nil {
		return nil, err
	}
	if math.Abs(size-math.Sqrt(float64(len(all)))) > 1e-3 {
		return nil, n.unexpected(fmt.Sprintf("the norm √%d", len(all)))
	}
	for i, c := range all {
		if c.scale != 1 || c.shift != 0 || c.unit || c.input != all[0].input || c.index != all[0].index+i {
			return nil, n.unexpected("the norm of z")
		}
		all[i].unit = true
	}
	return all, nil
}

func (m *model) joined(n *node) ([]column, error) {
	if !isLastAxis(n.numbers["axis"]) {
		return nil, n.unexpected("axis 1")
	}
	var all []column
	for _, x := range n.inputs {
		part, err := m.columns(x)
		if err != nil {
			return nil, err
		}
		if all = append(all, part...); len(all) > maxColumns {
			return nil, n.unexpected("fewer columns")
		}
	}
	return all, nil
}

func isLastAxis(axis float64) bool { return axis == 1 || axis == -1 }

// sliced is Slice(x, starts, ends, axes, steps).
func (m *model) sliced(n *node) ([]column, error) {
	all, err := m.columns(n.inputs[0])
	if err != nil {
		return nil, err
	}
	var values []float64
	for _, name := range n.inputs[1:] {
		t, ok := m.constants[name]
		if !ok || len(t.values) != 1 {
			return nil, n.unexpected("one constant for start, end, axis and step")
		}
		values = append(values, t.values[0])
	}
	if len(values) < 3 || !isLastAxis(values[2]) || len(values) > 3 && values[3] != 1 {
		return nil, n.unexpected("axis 1 and step 1")
	}
	var bounds [2]int
	for i, v := range values[:2] {
		if v < 0 {
			v += float64(len(all))
		}
		bounds[i] = int(min(max(v, 0), float64(len(all))))
	}
	if bounds[0] >= bounds[1] {
		return nil, n.unexpected("at least one column")
	}
	return all[bounds[0]:bounds[1]], nil
}

func (m *model) gathered(n *node) ([]column, error) {
	all, err := m.columns(n.inputs[0])
	if err != nil {
		return nil, err
	}
	if len(n.inputs) != 2 || !isLastAxis(n.numbers["axis"]) {
		return nil, n.unexpected("axis 1")
	}
	var some []column
	for _, v := range m.constants[n.inputs[1]].values {
		if v < 0 || v >= float64(len(all)) {
			return nil, n.unexpected("constant indices of columns")
		}
		some = append(some, all[int(v)])
	}
	if len(some) == 0 {
		return nil, n.unexpected("constant indices of columns")
	}
	return some, nil
}

// batchNorm is BatchNormalization(x, scale, bias, mean, var) with constants.
func (m *model) batchNorm(n *node) ([]column, error) {
	if len(n.inputs) != 5 || n.numbers["training_mode"] != 0 {
		return nil, n.unexpected("5 inputs, and training_mode 0")
	}
	all, err := m.columns(n.inputs[0])
	if err != nil {
		return nil, err
	}
	var values [4][]float64
	for i, name := range n.inputs[1:] {
		if values[i] = m.constants[name].values; len(values[i]) != len(all) {
			return nil, n.unexpected(fmt.Sprintf("%d constants", len(all)))
		}
	}
	eps, ok := n.numbers["epsilon"]
	if !ok {
		eps = 1e-5
	}
	for i := range all {
		deviation := math.Sqrt(values[3][i] + eps)
		all[i] = all[i].then(values[0][i]/deviation, values[1][i]-values[2][i]*values[0][i]/deviation)
	}
	return all, nil
}

// then is the column scaled, plus an offset.
func (c column) then(scale, offset float64) column {
	total := c.scale * scale
	c.shift, c.scale = (c.shift*total+offset)/total, total
	return c
}

// affine is x - c, x + c, x·c or x/c with a constant c.
func (m *model) affine(n *node) ([]column, error) {
	if len(n.inputs) != 2 {
		return nil, n.unexpected("2 inputs")
	}
	x, c := n.inputs[0], m.constants[n.inputs[1]].values
	if c == nil && (n.op == "Add" || n.op == "Mul") {
		x, c = n.inputs[1], m.constants[n.inputs[0]].values
	}
	if c == nil {
		return nil, n.unexpected("a constant")
	}
	all, err := m.columns(x)
	if err != nil {
		return nil, err
	}
	if len(c) != 1 && len(c) != len(all) {
		return nil, n.unexpected(fmt.Sprintf("%d constants", len(all)))
	}
	for i := range all {
		v := c[min(i, len(c)-1)]
		switch n.op {
		case "Sub":
			all[i] = all[i].then(1, -v)
		case "Add":
			all[i] = all[i].then(1, v)
		case "Mul":
			all[i] = all[i].then(v, 0)
		default:
			all[i] = all[i].then(1/v, 0)
		}
	}
	return all, nil
}

// sphere recognises size·x/‖x‖, whose lower limit of ‖x‖ does not matter.
func (m *model) sphere(name string) (x string, size float64, ok bool) {
	n := m.producer(name)
	if n == nil || n.op != "Mul" || len(n.inputs) != 2 {
		return "", 0, false
	}
	ratio, c := n.inputs[0], m.constants[n.inputs[1]].values
	if len(c) != 1 {
		ratio, c = n.inputs[1], m.constants[n.inputs[0]].values
	}
	d := m.producer(ratio)
	if len(c) != 1 || d == nil {
		return "", 0, false
	}
	if p, given := d.numbers["p"]; d.op == "LpNormalization" && (!given || p == 2) {
		axis, given := d.numbers["axis"]
		return d.inputs[0], c[0], !given || isLastAxis(axis)
	}
	if d.op != "Div" || len(d.inputs) != 2 {
		return "", 0, false
	}
	of, ok := m.norm(d.inputs[1])
	return d.inputs[0], c[0], ok && of == m.original(d.inputs[0])
}

// smallestNorm limits a norm from below without effect on a network: PyTorch uses 1e-12.
const smallestNorm = 1e-6

// norm recognises ‖x‖ of each row, perhaps repeated over the columns and limited from below.
func (m *model) norm(name string) (x string, ok bool) {
	for n := m.producer(name); n != nil; n = m.producer(n.inputs[0]) {
		switch n.op {
		case "Expand":
		case "Clip":
			if low, high := m.limits(n); !(low <= smallestNorm) || !math.IsInf(high, 1) {
				return "", false
			}
		case "Max": // of the norm and a constant, in any order
			x, c, ok := m.withConstant(n, "Max")
			if !ok || len(c) == 0 || slices.Max(c) > smallestNorm {
				return "", false
			}
			n = &node{inputs: []string{x}}
		case "ReduceL2":
			return m.original(n.inputs[0]), m.overColumns(n)
		case "Sqrt":
			sum := m.producer(n.inputs[0])
			switch {
			case sum == nil || !m.overColumns(sum):
				return "", false
			case sum.op == "ReduceSumSquare":
				return m.original(sum.inputs[0]), true
			case sum.op == "ReduceSum":
				return m.square(sum.inputs[0])
			}
			return "", false
		default:
			return "", false
		}
	}
	return "", false
}

// square recognises x².
func (m *model) square(name string) (x string, ok bool) {
	n := m.producer(name)
	if n == nil || n.op != "Mul" && n.op != "Pow" {
		return "", false
	}
	x = m.original(n.inputs[0])
	if n.op == "Mul" {
		return x, x == m.original(n.inputs[1])
	}
	c := m.constants[m.original(n.inputs[1])].values
	return x, len(c) == 1 && c[0] == 2
}

// overColumns reports whether a reduction is over the columns, and keeps their dimension. The axes
// are an attribute or, in later operator sets, an input.
func (m *model) overColumns(n *node) bool {
	axes := n.lists["axes"]
	if len(n.inputs) > 1 {
		axes = nil
		for _, v := range m.constants[m.original(n.inputs[1])].values {
			axes = append(axes, int(v))
		}
	}
	keep, given := n.numbers["keepdims"]
	return len(axes) == 1 && isLastAxis(float64(axes[0])) && (!given || keep == 1)
}

// limits are those of Clip: inputs or, in early operator sets, attributes. Limits that are not
// constant are NaN.
func (m *model) limits(n *node) (low, high float64) {
	limit := func(i int, name string, none float64) float64 {
		if v, given := n.numbers[name]; given {
			return v
		}
		if i >= len(n.inputs) || n.inputs[i] == "" {
			return none
		}
		if c := m.constants[m.original(n.inputs[i])].values; len(c) == 1 {
			return c[0]
		}
		return math.NaN()
	}
	return limit(1, "min", math.Inf(-1)), limit(2, "max", math.Inf(1))
}

// original is the name of a tensor behind Identity.
func (m *model) original(name string) string {
	for n := m.producers[name]; n != nil && n.op == "Identity" && len(n.inputs) == 1; n = m.producers[name] {
		name = n.inputs[0]
	}
	return name
}

// producer is the operation that computes a tensor; nil for inputs and constants.
func (m *model) producer(name string) *node { return m.producers[m.original(name)] }

// unexpected is the error for the first unknown node.
func (n *node) unexpected(want string) error {
	return fmt.Errorf("node %q (%s) is not part of a known network: want %s; "+
		"layers other than those of FORMAT.md need a SavedModel (docs/tensorflow.md)", n.name, n.op, want)
}
