package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/internal/rigtest"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// These tests need neither the tag nor the library.

func TestWithoutTheTagASavedModelSaysHowToBuildTheProgram(t *testing.T) {
	if tensorflow.Built {
		t.Skip("this test was built with TensorFlow")
	}
	dir := rigtest.SavedBundle(t, nil)
	_, imported := modelRun("import", rigtest.Exported, "--out", filepath.Join(t.TempDir(), "bundle"))
	_, evaluated := modelRun("eval", dir, "--obs", "[0,0,0,0,0,0]", "--z", "[1,0,0,0,0,0,0,0]")
	_, opened := openRun(runFlags{config: embeddedConfig, set: []string{"model.bundle=" + dir}})
	for name, err := range map[string]error{"import": imported, "eval": evaluated, "run": opened} {
		if !errors.Is(err, tensorflow.ErrNotBuilt) || !strings.Contains(err.Error(), "go build -tags tensorflow ./cmd/optibfm") || strings.Contains(err.Error(), "native") {
			t.Errorf("%s: %v: want ErrNotBuilt and how to mend it", name, err)
		}
	}
}

func TestWhatASavedModelSaysOfItselfNeedsNoTensorFlow(t *testing.T) {
	dir := rigtest.SavedBundle(t, func(m *tflite.SavedModel) { m.Action = []tflite.Channel{{Name: "left", Unit: "N"}, {Name: "right"}} })
	out, err := modelRun("inspect", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"observation 6, action 2, d 8, ensemble 2", "TensorFlow only", "left [N], right"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestImportingACheckpointNeedsObservationsAndNothingElseHasThem(t *testing.T) {
	checkpoint := t.TempDir()
	if err := os.WriteFile(filepath.Join(checkpoint, tflite.CheckpointFileName), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, without := modelRun("import", checkpoint, "--out", "x")
	_, with := modelRun("import", rigtest.Exported, "--out", "x", "--observations", "obs.npz")
	_, bundle := modelRun("import", rigtest.ModelBundle(t), "--out", "x")
	for want, err := range map[string]error{"--observations is missing": without, "leave the flag out": with, "a bundle needs no import": bundle} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}
