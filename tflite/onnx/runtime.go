package onnx

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"optibfm/internal/npz"
)

//go:embed runtime.py
var runtimeScript string

// ErrNoRuntime: python3 or its package onnxruntime is not installed.
var ErrNoRuntime = errors.New("onnxruntime is not installed; pip install onnxruntime")

// noRuntime is the exit status of runtime.py without onnxruntime.
const noRuntime = 3

// Run evaluates a model with ONNX Runtime, a program of Python. The inputs and the results are
// float32 arrays by the names of the model's tensors; an input that the model does not have is
// ignored.
func Run(model string, inputs npz.Archive) (npz.Archive, error) {
	dir, err := os.MkdirTemp("", "onnx-")
	if err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	defer os.RemoveAll(dir)
	in, out := filepath.Join(dir, "in.npz"), filepath.Join(dir, "out.npz")
	if err := npz.WriteFile(in, inputs); err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	output, err := exec.Command("python3", "-c", runtimeScript, model, in, out).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.As(err, &exit) && exit.ExitCode() == noRuntime:
		return nil, ErrNoRuntime
	case err != nil:
		return nil, fmt.Errorf("onnx: %s: onnxruntime: %w: %s", model, err, output)
	}
	return npz.ReadFile(out)
}
