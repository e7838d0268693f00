// Package tensorflow evaluates a model with TensorFlow: on a Jetson's GPU, or on any
// CPU.
//
// It implements tflite.Model, so the planner does not depend on the backend. A whole
// search is one run of one graph: its inputs are the observation, the candidates and
// the belief, its outputs the best index and its score. Go code draws the candidates,
// so a plan depends on the backend only through the rounding of the scores.
//
// The package has no gradients: tflite.Network computes them faster on a CPU, and the
// strategy ucb_gradient uses it with every backend.
//
// # Building and running
//
// Without the build tag tensorflow the package is a stub: New returns ErrNotBuilt, and
// the program stays a static binary without cgo. With
//
//	go build -tags tensorflow ./cmd/optibfm ./cmd/optibfm-lab
//
// New loads the library at run time, so the same program runs with and without it.
// The build needs no C compiler and no headers, and cross-compiling works as usual. The
// program is then linked dynamically with the C library (libc), and each of its threads
// has 8 MB of stack that a control process with locked memory keeps. Therefore the build
// needs the tag.
// scripts/install-tensorflow.sh installs TensorFlow, docs/tensorflow.md is the manual,
// `optibfm model backend` checks an installation.
//
//	m, err := tensorflow.New(bundle, tensorflow.DefaultConfig(), 128)
//	if errors.Is(err, tensorflow.ErrNoDevice) { ... } // also ErrNoLibrary, ErrVersion, ErrNotBuilt
//	defer m.Close()
//	best, score, err := m.Search(obs, candidates, belief)
//
// LoadSavedModel makes a Model of a SavedModel of any architecture whose signatures
// give φ, π and ψ.
//
// # TensorFlow's Go package
//
// Package tensorflowgo, a separate module, runs the same graph through
// github.com/tensorflow/tensorflow/tensorflow/go. This package is the default: it calls the
// C API through github.com/ebitengine/purego, which is pure Go, so one program runs with and
// without TensorFlow and cross-compiles. It reuses tensors and frees them explicitly.
// TensorFlow's package needs cgo and the library to build, and frees tensors in finalizers.
// Only this package evaluates SavedModels.
//
// # The graph
//
// newGraph in networks.go builds the architecture of tflite/FORMAT.md: weights are
// variables, which New assigns, or constants in GraphDef; products with the observation
// and the actor's embedding of the observation are computed once for all candidates.
// Every node is on the configured device and soft placement is off: TensorFlow does not
// move nodes to the CPU silently. Go code normalises the observation and z, in the precision of
// package tflite.
//
// # Memory
//
// A call allocates nothing on Go's heap. TensorFlow owns the input tensors; they are
// allocated once and written in place, except that a new number of candidates gets a new
// tensor. TensorFlow allocates the results of a run (three of up to 8 bytes for a
// search) and its scratch memory; the results are freed before the call returns, the
// scratch memory returns to TensorFlow's allocator.
//
// # Numbers
//
// φ, π and ψ agree with tflite's to 1e-4 (relative; at most 4e-5 measured), with TF32 on
// a GPU to 1e-2. If two scores are closer than that, the two backends may choose
// different candidates.
//
// An overflow inside the networks is ErrNotFinite. Kernels can hide one: 1/√∞ is 0,
// tanh ∞ is 1, and oneDNN's ReLU turns NaN into 0. The graph therefore checks the
// variance of every LayerNorm and the inputs of every ReLU and of the policy's tanh, and
// returns the result of the check with every result. LayerNorm squares in float32 here
// and in float64 in tflite: activations that vary by more than 1e19 are ErrNotFinite
// here only.
//
// The package turns oneDNN off (TF_ENABLE_ONEDNN_OPTS=0) before it loads the library.
// TensorFlow uses oneDNN by default on some processors only, and the graph of a
// SavedModel has no checks.
package tensorflow
