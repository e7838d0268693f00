// Package tensorflowgo evaluates a model with TensorFlow through TensorFlow's own Go package,
// github.com/tensorflow/tensorflow/tensorflow/go.
//
// It runs the graph of package tensorflow (tensorflow.GraphDef), so both backends compute the same
// results. cmd/optibfm-tensorflow-go is optibfm with this backend; scripts/build-tensorflow-go.sh
// builds it. docs/tensorflow.md compares the backends.
//
// The package is a separate module, because the build needs cgo, TensorFlow's library and compiler
// flags. TensorFlow's module has no go.mod and lacks the messages that its build generates: the
// module in the folder core has them.
//
// TensorFlow's package frees tensors in finalizers. A search makes seven tensors. The package
// starts the garbage collector after 16 MiB of tensors.
package tensorflowgo
