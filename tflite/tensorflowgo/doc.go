// Package tensorflowgo evaluates a model with TensorFlow through TensorFlow's own Go package,
// github.com/tensorflow/tensorflow/tensorflow/go.
//
// It runs the graph of package tensorflow (tensorflow.GraphDef), so both backends compute the same
// numbers. cmd/optibfm-tensorflow-go is a program of package optibfm with this backend,
// scripts/build-tensorflow-go.sh builds it. docs/tensorflow.md compares the backends.
//
// It is a module of its own, because the build needs cgo, TensorFlow's library and compiler flags.
// TensorFlow's module has no go.mod, and lacks the messages that its build generates: the module in the
// folder core has them.
//
// TensorFlow's package frees tensors in finalizers. A search makes seven tensors; the garbage collector
// runs after 16 MiB of them.
package tensorflowgo
