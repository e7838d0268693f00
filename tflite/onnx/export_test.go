package onnx_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/tflite"
	"optibfm/tflite/onnx"
	"optibfm/tflite/tflitetest"
)

// folders are checkpoints of every layout, and those of the public models' sizes where they are.
func folders(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("../testdata/checkpoints/*")
	if err != nil || len(all) == 0 {
		t.Fatal("no reference checkpoints", err)
	}
	public, err := filepath.Glob("../../../shared/public/*")
	fatal.If(t, err)
	if testing.Short() { // each model starts Python
		return all[:2]
	}
	return append(all, public...)
}

// run evaluates an exported model, or skips the test without onnxruntime.
func run(t *testing.T, file string, inputs npz.Archive) npz.Archive {
	t.Helper()
	results, err := onnx.Run(file, inputs)
	if errors.Is(err, onnx.ErrNoRuntime) && os.Getenv("OPTIBFM_TEST_ONNX") == "" {
		t.Skip(err)
	}
	fatal.If(t, err)
	return results
}

func TestExport_AgreesWithPyTorchInONNXRuntime(t *testing.T) {
	for _, folder := range folders(t) {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			b, vectors := tflitetest.Imported(t, folder)
			dir := filepath.Join(t.TempDir(), "onnx")
			fatal.If(t, onnx.Export(dir, b))
			checkExported(t, dir, vectors)
		})
	}
	t.Run("walker", func(t *testing.T) {
		b, err := tflite.LoadDir("../../models/walker")
		fatal.If(t, err)
		dir := filepath.Join(t.TempDir(), "onnx")
		fatal.If(t, onnx.Export(dir, b))
		e, err := onnx.Verify(dir, b)
		if errors.Is(err, onnx.ErrNoRuntime) && os.Getenv("OPTIBFM_TEST_ONNX") == "" {
			t.Skip(err)
		}
		t.Logf("%+v", e)
		if err != nil || !(e.Worst() <= 2e-5) {
			t.Errorf("%+v, %v, want at most 2e-5", e, err)
		}
	})
}

// checkExported compares the results of exported models with the expected ones of the cases.
func checkExported(t *testing.T, dir string, cases npz.Archive) {
	t.Helper()
	for name, file := range map[string]string{"phi": onnx.PhiFile, "action": onnx.PolicyFile, "psi": onnx.PsiFile} {
		want, err := cases[name].Float32s()
		fatal.If(t, err)
		got, err := run(t, filepath.Join(dir, file), float32s(t, cases))[name].Float32s()
		fatal.If(t, err)
		if len(got) != len(want) {
			t.Fatalf("%s: %d elements, want %d", name, len(got), len(want))
		}
		var e, size float64
		for i := range want {
			e = max(e, math.Abs(float64(got[i]-want[i])))
			size = max(size, math.Abs(float64(want[i])))
		}
		e /= size
		t.Logf("%s: relative error %.2g", name, e)
		if !(e <= 2e-5) {
			t.Errorf("%s: relative error %g, want at most 2e-5", name, e)
		}
	}
}

// float32s are the arrays in float32, the type of the models' inputs.
func float32s(t *testing.T, arrays npz.Archive) npz.Archive {
	t.Helper()
	all := make(npz.Archive)
	for name, a := range arrays {
		values, err := a.Float32s()
		fatal.If(t, err)
		all[name] = npz.Float32(values, a.Shape()...)
	}
	return all
}

func TestExport_NeedsANewDirectory(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o644))
	b := tflitetest.Bundle(tflite.Dims{Obs: 3, Action: 2, Latent: 4, Ensemble: 1}, 1)
	errtest.NotNil(t, onnx.Export(dir, b), "no error for a directory with files")
}
