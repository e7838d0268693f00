package tensorflow

import "optibfm/tflite"

// mish is x·tanh(log(1 + exp x)).
func (n *networks) mish(x ref) ref {
	return n.binary("Mul", n.watch(x), n.unary("Tanh", n.unary("Softplus", x)))
}

// normLinear is a linear layer of the normalised rows of an input in two parts, as in splitLinear.
// With the weights of each output centred over the inputs, the mean of a row drops out of the
// product, so that a part that is the same for all candidates is multiplied once.
func (n *networks) normLinear(left, right ref, leftWidth int, l tflite.Linear) ref {
	parts := []ref{left}
	if right != "" {
		parts = append(parts, right)
	}
	inverseWidth := n.floats([]float32{1 / float32(l.In)})
	mean := n.binary("Mul", n.rowSums(parts), inverseWidth)
	var squares []ref
	for _, x := range parts {
		squares = append(squares, n.binary("SquaredDifference", x, mean))
	}
	variance := n.watch(n.binary("Mul", n.rowSums(squares), inverseWidth))
	scale := n.unary("Rsqrt", n.binary("AddV2", variance, n.floats([]float32{n.eps})))

	weight, at := centre(l), leftWidth*l.Out
	product := n.matMul(float32Type, left, n.floats(weight[:at], leftWidth, l.Out))
	if right != "" {
		product = n.binary("AddV2", n.matMul(float32Type, right, n.floats(weight[at:], l.In-leftWidth, l.Out)), product)
	}
	return n.biasAdd(n.binary("Mul", product, scale), l)
}

// rowSums are the sums of the rows of one or two parts, [rows, 1].
func (n *networks) rowSums(parts []ref) ref {
	sum := n.reduce("", "Sum", parts[0], 1, true)
	for _, x := range parts[1:] {
		sum = n.binary("AddV2", n.reduce("", "Sum", x, 1, true), sum)
	}
	return sum
}

// centre subtracts, for each output, the mean of its weights. It changes and returns l.Weight.
func centre(l tflite.Linear) []float32 {
	means := make([]float64, l.Out)
	for i, w := range l.Weight {
		means[i%l.Out] += float64(w) / float64(l.In)
	}
	for i, w := range l.Weight {
		l.Weight[i] = float32(float64(w) - means[i%l.Out])
	}
	return l.Weight
}

// block is Mish of a layer, plus its input.
func (n *networks) block(x ref, l tflite.Linear) ref {
	return n.binary("AddV2", n.mish(n.normLinear(x, "", l.In, l)), x)
}

// residualEmbed is embed with residual blocks.
func (n *networks) residualEmbed(e tflite.EmbeddingLayers, varying ref) ref {
	x := n.mish(n.normLinear(n.obs, varying, n.obsWidth, e.First))
	last := len(e.More) - 1
	for _, l := range e.More[:last] {
		x = n.block(x, l)
	}
	return n.mish(n.normLinear(x, "", e.More[last].In, e.More[last]))
}

// residualTwoTower is twoTower with residual blocks.
func (n *networks) residualTwoTower(t tflite.TwoTowerLayers, left, right ref) ref {
	leftSide, rightSide := n.residualEmbed(t.Left, left), n.residualEmbed(t.Right, right)
	first, last := t.Trunk[0], len(t.Trunk)-1
	x := n.normLinear(leftSide, rightSide, first.In/2, first)
	if last == 0 {
		return x
	}
	x = n.binary("AddV2", n.mish(x), n.concat(1, n.repeated(leftSide, rightSide), rightSide))
	for _, l := range t.Trunk[1:last] {
		x = n.block(x, l)
	}
	return n.normLinear(x, "", t.Trunk[last].In, t.Trunk[last])
}
