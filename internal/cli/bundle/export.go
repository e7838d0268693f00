package bundle

import (
	"errors"
	"fmt"
	"io"

	"optibfm/internal/setup"
	"optibfm/tflite/onnx"
)

// onnxTolerance is the largest relative difference of an exported model.
const onnxTolerance = 1e-4

// ExportONNX writes the networks of a bundle as ONNX models to a new directory. If ONNX Runtime is
// installed, ExportONNX compares them with the native networks.
func ExportONNX(out io.Writer, name, dir string) error {
	m, err := setup.OpenModel(name)
	if err != nil {
		return err
	}
	native, ok := m.(setup.NativeModel)
	if !ok {
		return errors.New("model export: a SavedModel is not supported; convert its signatures with tf2onnx")
	}
	if err := onnx.Export(dir, native.Bundle); err != nil {
		return fmt.Errorf("model export: %w", err)
	}
	fmt.Fprintf(out, "%s: %s as ONNX (optibfm model export --help lists the files)\n", dir, native.Name)
	e, err := onnx.Verify(dir, native.Bundle)
	if errors.Is(err, onnx.ErrNoRuntime) {
		fmt.Fprintf(out, "note: not compared with the native networks: %v\n", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("model export: %w", err)
	}
	fmt.Fprintf(out, "ONNX Runtime differs in φ by %.1e, π by %.1e, ψ by %.1e (relative, the largest of %d cases)\n",
		e.Phi, e.Action, e.Psi, e.Cases)
	if !(e.Worst() <= onnxTolerance) {
		return fmt.Errorf("model export: ONNX Runtime differs from the native networks (%.1e, tolerance %.0e); "+
			"do not use %s, and report the versions", e.Worst(), onnxTolerance, dir)
	}
	return nil
}
