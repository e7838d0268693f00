//go:build tensorflow

package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/tflite/tensorflow"
)

func TestBench_PlansWithTensorFlow(t *testing.T) {
	for name, set := range map[string]string{
		"candidates": "model.backend=tensorflow", "SavedModel": "model.bundle=" + rigtest.SavedModelBundle(t, nil),
	} {
		t.Run(name, func(t *testing.T) {
			out, err := lab("", "bench", "--ticks", "3", "--set", "controller.strategy=ucb",
				"--set", "model.tensorflow.device=/CPU:0",
				"--set", "model.backend=tensorflow", "--set", set)
			if errors.Is(err, tensorflow.ErrNoLibrary) && os.Getenv("OPTIBFM_TENSORFLOW") == "" {
				t.Skip(err)
			}
			// The report has no limit for TensorFlow's plan, because the work is not counted.
			if _, plan, ok := strings.Cut(out, "\nplan: "); err != nil || !ok || strings.Contains(plan, "limited by") {
				t.Errorf("%v in\n%s", err, out)
			}
		})
	}
}

func TestBackend_ComparesTensorFlowWithNativeNetworks(t *testing.T) {
	out, err := lab("", "backend", "--candidates", "4", "--searches", "3", "--limit", "0s",
		"--set", "model.backend=tensorflow", "--set", "model.tensorflow.device=/CPU:0")
	if errors.Is(err, tensorflow.ErrNoLibrary) && os.Getenv("OPTIBFM_TENSORFLOW") == "" {
		t.Skip(err)
	}
	fatal.If(t, err)
	rigtest.Contains(t, out, "| start | rover | /CPU:0 | ", "0 of 3 searches have another best", ", there ")
}
