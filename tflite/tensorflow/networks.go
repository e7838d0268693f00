//go:build tensorflow

package tensorflow

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"optibfm/tflite"
)

// The graph's inputs and outputs. TensorFlow can feed any tensor of a graph, so
// action is both: Psi feeds it, Search and Act use the policy's.
const (
	obsName       = "obs"        // [1, O], normalised
	candidateName = "candidates" // [n, d], normalised
	meanName      = "mean"       // ẑ, [d, 1]
	invRName      = "inv_r"      // R⁻¹, [d, d], zeros below the diagonal
	betaName      = "beta"       // β, []
	phiName       = "phi"        // φ(s), [1, d], float64; absent without Cov B
	actionName    = "action"     // π_z(s), [n, A]
	psiName       = "psi"        // ψ, [E, n, d]
	bestName      = "best"       // of the highest score, [], int64
	scoreName     = "score"      // the highest score, []

	// Whether φ, π, ψ or the scores, and their intermediate results, are finite: [], bool.
	phiFiniteName, actionFiniteName = "phi_finite", "action_finite"
	psiFiniteName, finiteName       = "psi_finite", "finite"
)

// newGraph returns the graph of a bundle's networks and the score of the candidates.
func newGraph(b *tflite.Bundle, device string) *graphDef {
	layers, a := b.Layers(), b.Architecture
	n := &networks{graphDef: newGraphDef(device), allWidth: a.Obs, eps: float32(b.LayerNormEps)}
	n.wire = make([]byte, 0, b.Bytes+1<<20) // growing would copy the weights
	n.all = n.placeholder(obsName, 1, a.Obs)
	z := n.placeholder(candidateName, -1, a.Latent)
	if layers.Cov != nil {
		n.phi(layers.B, layers.Cov, a)
	}
	// ψ depends on this node, whether it is fed or computed.
	action := n.add(actionName, "Tanh", []ref{n.watch(n.twoTower(layers.Actor, "", z))}, typed("T", float32Type))
	actor := n.check(actionFiniteName)
	var members []ref
	for _, f := range layers.F {
		members = append(members, n.watch(n.twoTower(f, action, z)))
	}
	psi := n.check(psiFiniteName)
	n.scores(n.pack(psiName, members), len(members), a.Latent)
	n.check(finiteName, append(actor, psi...)...)
	return n.graphDef
}

// networks is the graph of networks that share an observation.
type networks struct {
	*graphDef
	all      ref // the observation, [1, O]
	allWidth int
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

// phi is φ(s) = (Cov B)⁻¹ B(s).
func (n *networks) phi(b tflite.BackwardLayers, cov []float64, a tflite.Architecture) {
	n.read(b.Inputs)
	x := n.tanhNorm(n.linear(n.obs, b.First), b.Gain, b.Shift)
	for i, l := range b.More {
		if i > 0 {
			x = n.relu(x)
		}
		x = n.linear(x, l)
	}
	if a.B.Norm {
		x = n.toSphere(x, a.Latent)
	}
	n.watch(x)
	n.check(phiFiniteName)
	inverseCov := n.doubles(inverse(cov, a.Latent), a.Latent, a.Latent)
	n.named(phiName, float64Type, n.matMul(float64Type, n.widen(x), inverseCov))
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
	mean, invR, beta := n.placeholder(meanName, d, 1), n.placeholder(invRName, d, d), n.placeholder(betaName)
	rows := n.reshape(psi, -1, d)
	whitened := n.matMul(float32Type, rows, invR)
	width := n.unary("Sqrt", n.reduce("", "Sum", n.unary("Square", whitened), 1, true))
	bound := n.watch(n.binary("AddV2", n.matMul(float32Type, rows, mean), n.binary("Mul", width, beta)))
	least := n.reduce("", "Min", n.reshape(bound, members, -1), 0, false)
	n.argMax(bestName, least)
	n.reduce(scoreName, "Max", least, 0, false)
}

// inverse is (Cov B)⁻¹. The bundle's loader has checked that Cov B is positive
// definite. The inverse is symmetric, so rows multiply it from the left.
func inverse(cov []float64, d int) []float64 {
	var chol mat.Cholesky
	var inv mat.SymDense
	if !chol.Factorize(mat.NewSymDense(d, cov)) {
		panic("tensorflow: the bundle's Cov B is not positive definite")
	}
	if err := chol.InverseTo(&inv); err != nil {
		if _, ill := err.(mat.Condition); !ill {
			panic(err)
		}
	}
	return mat.DenseCopyOf(&inv).RawMatrix().Data
}
