package onnx

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"optibfm/tflite"
)

// The files of Export.
const (
	PhiFile      = "phi.onnx"
	BackwardFile = "backward.onnx"
	PolicyFile   = "policy.onnx"
	PsiFile      = "psi.onnx"
)

// Export writes the networks of a bundle to a new or empty directory. Without Cov B it writes no
// phi.onnx, without F no psi.onnx.
func Export(dir string, b *tflite.Bundle) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("onnx: %s has files in it (%s, ...); use a new directory", dir, entries[0].Name())
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("onnx: %w", err)
	}
	n := networks{layers: b.Layers(), arch: b.Architecture, eps: float32(b.LayerNormEps)}
	files := map[string]func(*networks){
		BackwardFile: (*networks).writeBackward, PolicyFile: (*networks).writePolicy,
	}
	if b.Architecture.HasForward() {
		files[PsiFile] = (*networks).writePsi
	}
	if n.layers.Cov != nil {
		files[PhiFile] = (*networks).writePhi
	}
	for name, build := range files {
		n.graph = new(graph)
		build(&n)
		err := writeFile(filepath.Join(dir, name), func(w io.Writer) error {
			return n.writeTo(w, b.Name, "optibfm_bundle", b.Hash, "licence", b.Provenance["licence"])
		})
		if err != nil {
			return fmt.Errorf("onnx: %s: %w", name, err)
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// networks builds the graph of a network.
type networks struct {
	*graph
	layers tflite.Layers
	arch   tflite.Architecture
	eps    float32
}

func (n *networks) writeBackward() {
	b := n.backward(n.layers.B, n.observation(), n.arch.Latent)
	n.output("backward", b, rows, n.arch.Latent)
}

// writePhi applies (Cov B)⁻¹ in float64: its condition may be large.
func (n *networks) writePhi() {
	d := n.arch.Latent
	b := n.node("Cast", []ref{n.backward(n.layers.B, n.observation(), d)}, integer("to", int(float64Type)))
	phi := n.node("MatMul", []ref{b, n.doubles(n.layers.InverseCov(), d, d)})
	n.output("phi", n.node("Cast", []ref{phi}, integer("to", int(float32Type))), rows, d)
}

func (n *networks) writePolicy() {
	obs, z := n.observation(), n.embedding()
	n.output("action", n.unary("Tanh", n.twoTower(n.layers.Actor, obs, "", z)), rows, n.arch.Action)
}

func (n *networks) writePsi() {
	obs, action, z := n.observation(), n.input("action", rows, n.arch.Action), n.embedding()
	var members []ref
	for _, f := range n.layers.F {
		psi := n.twoTower(f, obs, action, z)
		members = append(members, n.node("Unsqueeze", []ref{psi, n.ints([]int{0})}))
	}
	n.output("psi", n.node("Concat", members, integer("axis", 0)), len(members), rows, n.arch.Latent)
}

// observation is the input obs, normalised.
func (n *networks) observation() ref {
	obs := n.input("obs", rows, n.arch.Obs)
	if n.layers.Mean == nil {
		return obs
	}
	obs = n.node("Sub", []ref{obs, n.floats(n.layers.Mean, n.arch.Obs)})
	return n.node("Mul", []ref{obs, n.floats(n.layers.Scale, n.arch.Obs)})
}

// embedding is the input z, normalised.
func (n *networks) embedding() ref {
	z := n.input("z", rows, n.arch.Latent)
	if !n.arch.NormZ {
		return z
	}
	return n.toSphere(z, n.arch.Latent)
}

func (n *networks) unary(op string, x ref) ref { return n.node(op, []ref{x}) }

func (n *networks) linear(x ref, l tflite.Linear) ref {
	return n.node("Gemm", []ref{x, n.floats(l.Weight, l.In, l.Out), n.floats(l.Bias, l.Out)})
}

// layerNorm is LayerNorm of each row; without gain and shift, those are 1 and 0.
func (n *networks) layerNorm(x ref, gain, shift []float32) ref {
	return n.node("LayerNormalization", []ref{x, n.floats(gain, len(gain)), n.floats(shift, len(shift))},
		integer("axis", -1), float("epsilon", n.eps))
}

// toSphere scales a row of d elements to the norm √d; a zero row stays.
func (n *networks) toSphere(x ref, d int) ref {
	size := n.node("ReduceL2", []ref{x}, integers("axes", 1), integer("keepdims", 1))
	size = n.node("Max", []ref{size, n.floats([]float32{1e-12})})
	return n.node("Mul", []ref{n.node("Div", []ref{x, size}), n.floats([]float32{float32(math.Sqrt(float64(d)))})})
}

// read returns these columns of the observation, or all for nil.
func (n *networks) read(obs ref, columns []int) ref {
	if columns == nil {
		return obs
	}
	return n.node("Gather", []ref{obs, n.ints(columns)}, integer("axis", 1))
}

func (n *networks) join(left, right ref) ref {
	if right == "" {
		return left
	}
	return n.node("Concat", []ref{left, right}, integer("axis", 1))
}

// backward is B(s), or the encoder, with d outputs.
func (n *networks) backward(b tflite.BackwardLayers, obs ref, d int) ref {
	x := n.linear(n.read(obs, b.Inputs), b.First)
	if len(b.More) > 0 {
		x = n.unary("Tanh", n.layerNorm(x, b.Gain, b.Shift))
	}
	for i, l := range b.More {
		if i > 0 {
			x = n.unary("Relu", x)
		}
		x = n.linear(x, l)
	}
	if b.Norm {
		x = n.toSphere(x, d)
	}
	return x
}

// twoTower is the actor, whose left input is "", or a member of F.
func (n *networks) twoTower(t tflite.TwoTowerLayers, obs, left, right ref) ref {
	obs = n.read(obs, t.Inputs)
	if t.Encoded {
		obs = n.backward(*n.layers.Encoder, obs, n.arch.Encoder.Size)
	}
	embed, trunk := n.embed, n.trunk
	if t.Residual {
		embed, trunk = n.residualEmbed, n.residualTrunk
	}
	return trunk(t.Trunk, n.join(embed(t.Left, n.join(obs, left)), embed(t.Right, n.join(obs, right))))
}

func (n *networks) embed(e tflite.EmbeddingLayers, x ref) ref {
	x = n.unary("Tanh", n.layerNorm(n.linear(x, e.First), e.Gain, e.Shift))
	for _, l := range e.More {
		x = n.unary("Relu", n.linear(x, l))
	}
	return x
}

func (n *networks) trunk(layers []tflite.Linear, x ref) ref {
	for i, l := range layers {
		if i > 0 {
			x = n.unary("Relu", x)
		}
		x = n.linear(x, l)
	}
	return x
}

// normLinear is a layer of the normalised rows, see tflite.Linear.
func (n *networks) normLinear(x ref, l tflite.Linear) ref {
	ones := make([]float32, l.In)
	for i := range ones {
		ones[i] = 1
	}
	return n.linear(n.layerNorm(x, ones, make([]float32, l.In)), l)
}

// mish is x·tanh(log(1 + exp x)).
func (n *networks) mish(x ref) ref {
	return n.node("Mul", []ref{x, n.unary("Tanh", n.unary("Softplus", x))})
}

func (n *networks) residualEmbed(e tflite.EmbeddingLayers, x ref) ref {
	x = n.mish(n.normLinear(x, e.First))
	last := len(e.More) - 1
	for _, l := range e.More[:last] {
		x = n.node("Add", []ref{n.mish(n.normLinear(x, l)), x})
	}
	return n.mish(n.normLinear(x, e.More[last]))
}

func (n *networks) residualTrunk(layers []tflite.Linear, x ref) ref {
	last := len(layers) - 1
	for _, l := range layers[:last] {
		x = n.node("Add", []ref{n.mish(n.normLinear(x, l)), x})
	}
	return n.normLinear(x, layers[last])
}
