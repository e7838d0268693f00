package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/rtloop"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// exported is a SavedModel of the rover's size: testdata/make_exported.py.
const exported = "testdata/exported"

// savedBundle writes a bundle of exported as `model import` does; change alters
// what it says.
func savedBundle(t *testing.T, change func(*tflite.SavedModel)) string {
	t.Helper()
	m := tflite.SavedModel{Dir: exported, Name: "exported", Signatures: tflite.DefaultSignatures(), Sizes: tflite.Dims{Obs: 6, Action: 2, Latent: 8, Ensemble: 2}}
	if change != nil {
		change(&m)
	}
	dir := filepath.Join(t.TempDir(), "bundle")
	if _, err := tflite.SaveSavedModel(dir, m); err != nil {
		t.Fatal(err)
	}
	return dir
}

// These tests need neither the tag nor the library.

func TestWithoutTheTagASavedModelSaysHowToBuildTheProgram(t *testing.T) {
	if tensorflow.Built {
		t.Skip("this test was built with TensorFlow")
	}
	dir := savedBundle(t, nil)
	_, imported := modelRun("import", exported, "--out", filepath.Join(t.TempDir(), "bundle"))
	_, evaluated := modelRun("eval", dir, "--obs", "[0,0,0,0,0,0]", "--z", "[1,0,0,0,0,0,0,0]")
	_, opened := openRun(runFlags{config: embeddedConfig, set: []string{"model.bundle=" + dir}})
	for name, err := range map[string]error{"import": imported, "eval": evaluated, "run": opened} {
		if !errors.Is(err, tensorflow.ErrNotBuilt) || !strings.Contains(err.Error(), "go build -tags tensorflow ./cmd/optibfm") || strings.Contains(err.Error(), "native") {
			t.Errorf("%s: %v: want ErrNotBuilt and how to mend it", name, err)
		}
	}
}

func TestWhatASavedModelSaysOfItselfNeedsNoTensorFlow(t *testing.T) {
	dir := savedBundle(t, func(m *tflite.SavedModel) { m.Action = []tflite.Channel{{Name: "left", Unit: "N"}, {Name: "right"}} })
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

func TestWhatASavedModelCannotDoIsSaidBeforeTheRun(t *testing.T) {
	dir := savedBundle(t, nil)
	m, err := openBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*configs.File){
		"ucb_gradient needs gradients":    func(f *configs.File) { f.Controller.Strategy = controller.UCBGradient },
		"loop.posture: strict cannot be":  func(f *configs.File) { f.Loop.Posture = rtloop.Strict },
		"which this program evaluates it": func(f *configs.File) { f.Loop.Posture = rtloop.Strict },
	} {
		file := configs.Default()
		file.Model.Bundle = dir
		change(&file)
		if err := m.fits(file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v: want %q and the bundle", err, want)
		}
	}
	file := configs.Default()
	file.Loop.Posture, file.Run.Lockstep = rtloop.Strict, true // which promises no time
	if err := m.fits(file); err != nil && !errors.Is(err, tensorflow.ErrNotBuilt) {
		t.Errorf("lockstep: %v", err)
	}
}

func TestAStrategyThatEvaluatesNothingDoesNotLoadASavedModel(t *testing.T) {
	m, err := openBundle(savedBundle(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	file := configs.Default()
	file.Controller.Strategy = controller.Thompson
	searcher, note, err := m.searcher(file, 1)
	if err != nil || note != "" || searcher.Dims() != m.Dims() {
		t.Errorf("%v, %q, %v", searcher, note, err)
	}
	if _, _, err := searcher.Search(nil, nil, tflite.Belief{}); err == nil {
		t.Error("it searches")
	}
}

func TestImportingACheckpointNeedsObservationsAndNothingElseHasThem(t *testing.T) {
	checkpoint := t.TempDir()
	if err := os.WriteFile(filepath.Join(checkpoint, tflite.CheckpointFileName), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, without := modelRun("import", checkpoint, "--out", "x")
	_, with := modelRun("import", exported, "--out", "x", "--observations", "obs.npz")
	_, bundle := modelRun("import", modelBundle(t), "--out", "x")
	for want, err := range map[string]error{"--observations is missing": without, "leave the flag out": with, "a bundle needs no import": bundle} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

func TestTheManualHasTheExampleThatTheTestsUse(t *testing.T) {
	script, err := os.ReadFile("../../scripts/export_savedmodel.py")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../../docs/tensorflow.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(script), "\"\"\"\n\n")
	if !strings.Contains(string(manual), example) || len(example) < 500 {
		t.Error("docs/tensorflow.md and scripts/export_savedmodel.py differ: copy the script, from its imports on, into the manual")
	}
}
