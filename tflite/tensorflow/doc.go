// Package tensorflow evaluates a model with TensorFlow: on a Jetson's GPU, or
// on any CPU.
//
// It implements tflite.Model, so that the planner does not know which backend
// it has. A whole search is one call of one graph: observation, candidates and
// belief go in, the best index and its score come out. The candidates are drawn
// by the caller, in Go, so a plan does not depend on the backend but for the
// rounding of scores.
//
// # Building and running
//
// Without the build tag tensorflow the package is a stub: New returns
// ErrNotBuilt, and the program stays a static binary without cgo. With
//
//	go build -tags tensorflow ./cmd/optibfm
//
// it loads the library when New is called, so the same program runs with and
// without it; no C compiler and no header is needed, and cross-compiling works
// as ever. The program is then linked dynamically with the C library (libc),
// and its threads are libc's, each with 8 MB of stack that a control process
// with locked memory keeps: that is why there is a tag. TensorFlow comes from
// scripts/install-tensorflow.sh; docs/tensorflow.md is the manual,
// `optibfm model backend` the check.
//
//	m, err := tensorflow.New(bundle, tensorflow.DefaultConfig(), 128)
//	if errors.Is(err, tensorflow.ErrNoDevice) { ... } // also ErrNoLibrary, ErrVersion, ErrNotBuilt
//	defer m.Close()
//	best, score, err := m.Search(obs, candidates, belief)
//
// LoadSavedModel makes a Model of a SavedModel whose signatures give φ, π and ψ:
// its architecture is its own affair.
//
// NewDifferentiable makes a model that has the score's gradient too.
//
// # Why not the Go binding
//
// github.com/tensorflow/tensorflow/tensorflow/go does not build as a
// dependency; github.com/wamuir/graft is the same binding, regenerated. It was
// considered and left out: it frees tensors in finalizers, which the small Go heap of
// a planner hardly ever runs; its session, graph and tensors keep their C handles
// to themselves, so nothing can be reused around it; and it needs cgo, headers
// and the library to build. The 37 functions of the C API that are used here are
// called through github.com/ebitengine/purego instead, which is pure Go, and
// the graph is written as the protocol buffer that TensorFlow imports.
//
// # The graph
//
// newGraph in networks.go is the architecture of tflite/FORMAT.md: weights are
// constants, products with the observation are made once and not for every
// candidate, and so is the actor's embedding of the observation. Every node is on
// the configured device and soft placement is off: nothing moves to the CPU
// without a word. Normalising the observation and z is done in Go, in the
// precision in which tflite does it.
//
// # The gradient
//
// NewDifferentiable has TensorFlow derive the gradient of the scores with respect
// to the candidates (TF_AddGradients, from the registered gradients of its
// operations) in a graph of its own, exports that, and imports it into the
// session's, where its nodes are placed on the device as all others are. A call
// of Gradient is a run for one candidate; the way through the norm of z is added
// in Go, in float64. The root in ‖R⁻ᵀψ‖ has no slope at 0: the graph bounds
// its argument from below such that none passes.
//
// # Memory
//
// A call allocates nothing on Go's heap. Input tensors are TensorFlow's, are
// made once, and are written in place; the candidates' is made again where
// their number changes. TensorFlow makes the result tensors of a run (three of
// up to 8 bytes for a search, the gradient's besides) and its own scratch; the results are freed
// before the call returns, the scratch goes back to TensorFlow's allocator.
//
// # Numbers
//
// φ, π and ψ agree with tflite's to 1e-4 (relative; at most 4e-5 measured), with
// TF32 on a GPU to 1e-2. Where two scores are closer than that, the index may be
// the other one. Gradients agree to 1e-4 of their norm (about 1e-5 measured) but
// at kinks, where a ReLU or the least member is at a tie; where members tie
// exactly, Gradient is the mean of theirs.
//
// An overflow inside the networks is ErrNotFinite. Kernels can hide one: 1/√∞ is 0, tanh ∞ is 1,
// and oneDNN's ReLU turns NaN into 0. The graph therefore checks the variance of every LayerNorm
// and the inputs of every ReLU and of the policy's tanh, and returns the result of the check with
// every result. LayerNorm squares in float32 here and in float64 in tflite: activations that vary
// by more than 1e19 are ErrNotFinite here only.
//
// The package turns oneDNN off (TF_ENABLE_ONEDNN_OPTS=0) before it loads the library. TensorFlow
// uses oneDNN by default on some processors only, and the graph of a SavedModel has no checks.
package tensorflow
