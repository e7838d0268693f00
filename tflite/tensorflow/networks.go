package tensorflow

import (
	"math"

	"optibfm/tflite"
)

// The operations of [GraphDef] that are inputs and outputs. TensorFlow can feed any tensor of a
// graph, so the action is both: ψ of an action feeds it, a search uses the policy's.
const (
	ObsName       = "obs"        // [1, O], normalised
	CandidateName = "candidates" // [n, d], normalised
	MeanName      = "mean"       // ẑ, [d, 1]
	InvRName      = "inv_r"      // R⁻¹, [d, d], zeros below the diagonal
	BetaName      = "beta"       // β, []
	PhiName       = "phi"        // φ(s), [1, d], float64; absent without Cov B
	ActionName    = "action"     // π_z(s), [n, A]
	PsiName       = "psi"        // ψ, [E, n, d]
	BestName      = "best"       // of the highest score, [], int64
	ScoreName     = "score"      // the highest score, []

	// Whether φ, π, ψ or the scores, and their intermediate results, are finite: [], bool.
	PhiFiniteName    = "phi_finite"
	ActionFiniteName = "action_finite"
	PsiFiniteName    = "psi_finite"
	FiniteName       = "finite"
)

// GraphDef encodes the graph of a bundle: its networks, all on one device such as /GPU:0, and the
// scores of a search. Its elements are float32 unless noted.
func GraphDef(b *tflite.Bundle, device string) []byte { return newGraph(b, device, false).bytes() }

// newGraph returns the graph of a bundle's networks and the score of the candidates. If assigned is
// set, large weights are variables.
func newGraph(b *tflite.Bundle, device string, assigned bool) *graphDef {
	layers, a := b.Layers(), b.Architecture
	n := &networks{graphDef: newGraphDef(device), allWidth: a.Obs, eps: float32(b.LayerNormEps)}
	if n.assigned = assigned; !assigned {
		n.wire = make([]byte, 0, b.Bytes+1<<20) // growing would copy the weights
	}
	n.all = n.placeholder(ObsName, 1, a.Obs)
	z := n.placeholder(CandidateName, -1, a.Latent)
	if layers.Cov != nil {
		n.phi(layers.B, layers.InverseCov(), a)
	}
	if layers.Encoder != nil {
		n.encoded, n.encWidth = n.watch(n.backward(*layers.Encoder, a.Encoder.Size)), a.Encoder.Size
	}
	// ψ depends on this node, whether it is fed or computed.
	action := n.add(ActionName, "Tanh", []ref{n.watch(n.twoTower(layers.Actor, "", z))}, typed("T", float32Type))
	actor := n.check(ActionFiniteName)
	var members []ref
	for _, f := range layers.F {
		members = append(members, n.watch(n.twoTower(f, action, z)))
	}
	psi := n.check(PsiFiniteName)
	n.scores(n.pack(PsiName, members), len(members), a.Latent)
	n.check(FiniteName, append(actor, psi...)...)
	return n.graphDef
}

// networks is the graph of networks that share an observation.
type networks struct {
	*graphDef
	all      ref // the observation, [1, O]
	allWidth int
	encoded  ref // the encoder's output; "" without
	encWidth int
	obs      ref // what the present network reads of it, [1, obsWidth]
	obsWidth int
	eps      float32 // of the LayerNorms
	watched  []ref   // since the last check, [rows] each
}

// watch adds the rows of x to the next check and returns x. Some operations hide an
// infinity or NaN from the results: the reciprocal root of an infinite variance is 0,
// the tanh of infinity is 1, and some kernels of ReLU turn NaN into 0.
func (n *networks) watch(x ref) ref {
	n.watched = append(n.watched, n.reduce("", "Sum", x, 1, false))
	return x
}

// check adds a node that is true if the sums, and the tensors watched since the last
// check, are finite. It returns the watched ones.
func (n *networks) check(name string, sums ...ref) []ref {
	watched := n.watched
	n.watched = nil
	n.allFinite(name, n.concat(0, append(sums, watched...)...))
	return watched
}

func (n *networks) relu(x ref) ref { return n.unary("Relu", n.watch(x)) }

// linear is x·w + bias, row by row.
func (n *networks) linear(x ref, l tflite.Linear) ref {
	return n.biasAdd(n.matMul(float32Type, x, n.floats(l.Weight, l.In, l.Out)), l)
}

func (n *networks) biasAdd(x ref, l tflite.Linear) ref {
	return n.add("", "BiasAdd", []ref{x, n.floats(l.Bias, l.Out)}, typed("T", float32Type))
}

// splitLinear is linear for an input in two parts. A part that is the same for all
// candidates has a single row and is multiplied once.
func (n *networks) splitLinear(left, right ref, leftWidth int, l tflite.Linear) ref {
	at := leftWidth * l.Out
	x := n.biasAdd(n.matMul(float32Type, left, n.floats(l.Weight[:at], leftWidth, l.Out)), l)
	if right == "" {
		return x
	}
	return n.binary("AddV2", n.matMul(float32Type, right, n.floats(l.Weight[at:], l.In-leftWidth, l.Out)), x)
}

// tanhNorm is LayerNorm and tanh of each row.
func (n *networks) tanhNorm(x ref, gain, shift []float32) ref {
	width := len(gain)
	mean := n.reduce("", "Mean", x, 1, true)
	variance := n.watch(n.reduce("", "Mean", n.binary("SquaredDifference", x, mean), 1, true))
	scale := n.unary("Rsqrt", n.binary("AddV2", variance, n.floats([]float32{n.eps})))
	y := n.binary("Mul", n.binary("Sub", x, mean), scale)
	y = n.binary("AddV2", n.binary("Mul", y, n.floats(gain, width)), n.floats(shift, width))
	return n.unary("Tanh", y)
}

// read makes these elements of the observation, or all for nil, the input of the next network.
func (n *networks) read(inputs []int) {
	n.obs, n.obsWidth = n.all, n.allWidth
	if inputs != nil {
		n.obs, n.obsWidth = n.columns(n.all, inputs), len(inputs)
	}
}

// embed is an embedding of the observation and of varying, which may be "".
func (n *networks) embed(e tflite.EmbeddingLayers, varying ref) ref {
	x := n.tanhNorm(n.splitLinear(n.obs, varying, n.obsWidth, e.First), e.Gain, e.Shift)
	for _, l := range e.More {
		x = n.relu(n.linear(x, l))
	}
	return x
}

// twoTower is the actor, whose left input is "", or a member of F.
func (n *networks) twoTower(t tflite.TwoTowerLayers, left, right ref) ref {
	n.read(t.Inputs)
	if t.Encoded {
		n.obs, n.obsWidth = n.encoded, n.encWidth
	}
	if t.Residual {
		return n.residualTwoTower(t, left, right)
	}
	leftSide, rightSide := n.embed(t.Left, left), n.embed(t.Right, right)
	x := n.splitLinear(leftSide, rightSide, t.Left.More[len(t.Left.More)-1].Out, t.Trunk[0])
	for _, l := range t.Trunk[1:] {
		x = n.linear(n.relu(x), l)
	}
	return x
}

// backward is B(s), or the encoder, with d outputs.
func (n *networks) backward(b tflite.BackwardLayers, d int) ref {
	n.read(b.Inputs)
	x := n.linear(n.obs, b.First)
	if len(b.More) > 0 {
		x = n.tanhNorm(x, b.Gain, b.Shift)
	}
	for i, l := range b.More {
		if i > 0 {
			x = n.relu(x)
		}
		x = n.linear(x, l)
	}
	if b.Norm {
		x = n.toSphere(x, d)
	}
	return x
}

// phi is φ(s) = (Cov B)⁻¹ B(s).
func (n *networks) phi(b tflite.BackwardLayers, inverse []float64, a tflite.Architecture) {
	x := n.watch(n.backward(b, a.Latent))
	n.check(PhiFiniteName)
	inverseCov := n.doubles(inverse, a.Latent, a.Latent)
	n.named(PhiName, float64Type, n.matMul(float64Type, n.widen(x), inverseCov))
}

// toSphere scales a row to the norm √d; a zero row stays.
func (n *networks) toSphere(x ref, d int) ref {
	size := n.unary("Sqrt", n.watch(n.reduce("", "Sum", n.unary("Square", x), 1, true)))
	size = n.binary("Maximum", size, n.floats([]float32{1e-12}))
	return n.binary("Mul", n.binary("RealDiv", x, size), n.floats([]float32{float32(math.Sqrt(float64(d)))}))
}

// scores adds the score of every candidate, the least upper confidence bound of
// the members, and the best of the scores.
func (n *networks) scores(psi ref, members, d int) {
	mean, invR, beta := n.placeholder(MeanName, d, 1), n.placeholder(InvRName, d, d), n.placeholder(BetaName)
	rows := n.reshape(psi, -1, d)
	whitened := n.matMul(float32Type, rows, invR)
	width := n.unary("Sqrt", n.reduce("", "Sum", n.unary("Square", whitened), 1, true))
	bound := n.watch(n.binary("AddV2", n.matMul(float32Type, rows, mean), n.binary("Mul", width, beta)))
	least := n.reduce("", "Min", n.reshape(bound, members, -1), 0, false)
	n.argMax(BestName, least)
	n.reduce(ScoreName, "Max", least, 0, false)
}
