//go:build tensorflow

package tensorflow

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"optibfm/tflite"
)

// The graph's inputs and outputs. Any tensor of a graph can be fed, so action
// is both: the policy's where it is not given.
const (
	obsName       = "obs"        // [1, O], as the networks take it
	candidateName = "candidates" // [n, d], as the networks take them
	meanName      = "mean"       // ẑ, [d, 1]
	invRName      = "inv_r"      // R⁻¹, [d, d], zeros below the diagonal
	betaName      = "beta"       // β, []
	phiName       = "phi"        // φ(s), [1, d], float64; not there without Cov B
	actionName    = "action"     // π_z(s), [n, A]
	psiName       = "psi"        // ψ, [E, n, d]
	leastName     = "least"      // of the members' bounds, [n]
	bestName      = "best"       // of the greatest score, [], int64
	scoreName     = "score"      // the greatest score, []

	// Whether φ, π, ψ or the scores, and all that they are made of, are finite: [], bool.
	phiFiniteName, actionFiniteName, psiFiniteName, finiteName = "phi_finite", "action_finite", "psi_finite", "finite"
)

// newGraph writes a bundle's networks and the score of the candidates.
func newGraph(b *tflite.Bundle, device string) *graphDef {
	layers, a := b.Layers(), b.Architecture
	n := &networks{graphDef: newGraphDef(device), obsWidth: a.Obs, eps: float32(b.LayerNormEps)}
	n.obs = n.placeholder(obsName, 1, a.Obs)
	z := n.placeholder(candidateName, -1, a.Latent)
	if layers.Cov != nil {
		n.phi(layers.B, layers.Cov, a)
	}
	// Fed or not, action must be one node: the members' ψ hang on it.
	action := n.add(actionName, "Tanh", []ref{n.watch(n.twin(layers.Actor, "", z))}, typed("T", float32Type))
	actor := n.check(actionFiniteName)
	var members []ref
	for _, f := range layers.F {
		members = append(members, n.watch(n.twin(f, action, z)))
	}
	psi := n.check(psiFiniteName)
	n.scores(n.pack(psiName, members), len(members), a.Latent)
	n.check(finiteName, append(actor, psi...)...)
	return n.graphDef
}

// networks is the graph of networks that share an observation.
type networks struct {
	*graphDef
	obs      ref // [1, O]
	obsWidth int
	eps      float32 // of the LayerNorms
	watched  []ref   // since the last check, [rows] each
}

// watch adds the rows of x to the next check and returns x. It is for tensors from which an
// infinity or NaN may not reach the results: the reciprocal root of an infinite variance is 0,
// the tanh of infinity is 1, and some kernels of ReLU turn NaN into 0.
func (n *networks) watch(x ref) ref {
	n.watched = append(n.watched, n.reduce("", "Sum", x, 1, false))
	return x
}

// check adds a node that is true where the sums are finite, and those watched since the last
// check. It returns the latter.
func (n *networks) check(name string, sums ...ref) []ref {
	watched := n.watched
	n.watched = nil
	n.allFinite(name, n.concat(append(sums, watched...)))
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

// split is the layer for an input in two parts, of which one may have a
// single row: what does not vary between the candidates is multiplied once.
func (n *networks) split(left, right ref, leftWidth int, l tflite.Linear) ref {
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

// embed is an embedding of the observation and of what varies, "" for none.
func (n *networks) embed(e tflite.EmbeddingLayers, varying ref) ref {
	x := n.tanhNorm(n.split(n.obs, varying, n.obsWidth, e.First), e.Gain, e.Shift)
	for _, l := range e.More {
		x = n.relu(n.linear(x, l))
	}
	return x
}

// twin is the actor, where nothing varies on the left (""), or a member of F.
func (n *networks) twin(t tflite.TwinLayers, left, right ref) ref {
	leftSide, rightSide := n.embed(t.Left, left), n.embed(t.Right, right)
	x := n.split(leftSide, rightSide, t.Left.More[len(t.Left.More)-1].Out, t.Trunk[0])
	for _, l := range t.Trunk[1:] {
		x = n.linear(n.relu(x), l)
	}
	return x
}

// phi is φ(s) = (Cov B)⁻¹ B(s).
func (n *networks) phi(b tflite.BackLayers, cov []float64, a tflite.Architecture) {
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
	n.named(phiName, float64Type, n.matMul(float64Type, n.widen(x), n.doubles(inverse(cov, a.Latent), a.Latent, a.Latent)))
}

// toSphere scales a row to the norm √d; a zero row stays.
func (n *networks) toSphere(x ref, d int) ref {
	size := n.unary("Sqrt", n.watch(n.reduce("", "Sum", n.unary("Square", x), 1, true)))
	size = n.binary("Maximum", size, n.floats([]float32{1e-12}))
	return n.binary("Mul", n.binary("RealDiv", x, size), n.floats([]float32{float32(math.Sqrt(float64(d)))}))
}

// leastSquare is about the least normal float32.
const leastSquare = 2e-38

// scores adds the belief's part: the least upper confidence bound over the
// members for every candidate, and the best of them.
func (n *networks) scores(psi ref, members, d int) {
	mean, invR, beta := n.placeholder(meanName, d, 1), n.placeholder(invRName, d, d), n.placeholder(betaName)
	rows := n.reshape(psi, -1, d)
	whitened := n.matMul(float32Type, rows, invR)
	// Where ‖R⁻ᵀψ‖² vanishes its root has no slope: the Maximum passes none.
	square := n.binary("Maximum", n.reduce("", "Sum", n.unary("Square", whitened), 1, true), n.floats([]float32{leastSquare}))
	width := n.unary("Sqrt", square)
	bound := n.watch(n.binary("AddV2", n.matMul(float32Type, rows, mean), n.binary("Mul", width, beta)))
	least := n.reduce(leastName, "Min", n.reshape(bound, members, -1), 0, false)
	n.argMax(bestName, least)
	n.reduce(scoreName, "Max", least, 0, false)
}

// inverse is (Cov B)⁻¹, which the bundle made sure exists; it is symmetric, so
// rows multiply it from the left.
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
