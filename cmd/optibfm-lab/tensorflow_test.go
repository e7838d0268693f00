//go:build tensorflow

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

func TestBench_PlansWithTensorFlow(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "saved")
	_, err := tflite.SaveSavedModel(saved, tflite.SavedModel{
		Dir: "../optibfm/testdata/exported", Name: "saved", Signatures: tflite.DefaultSignatures(),
		Sizes: tflite.Dims{Obs: 6, Action: 2, Latent: 8, Ensemble: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]string{
		"candidates": "model.backend=tensorflow", "SavedModel": "model.bundle=" + saved,
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"bench", "--ticks", "3", "--set", "model.tensorflow.device=/CPU:0", "--set", "model.backend=tensorflow", "--set", set}
			out, err := lab("", args...)
			if errors.Is(err, tensorflow.ErrNoLibrary) && os.Getenv("OPTIBFM_TENSORFLOW") == "" {
				t.Skip(err)
			}
			if _, plan, ok := strings.Cut(out, "\nplan: "); err != nil || !ok || strings.Contains(plan, "limited by") {
				t.Errorf("%v; the plan is not TensorFlow's, whose work is not counted, in\n%s", err, out)
			}
		})
	}
}
