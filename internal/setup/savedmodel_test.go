package setup_test

import (
	"errors"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rtloop"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

func TestWhatASavedModelCannotDoIsSaidBeforeTheRun(t *testing.T) {
	dir := rigtest.SavedModelBundle(t, nil)
	m, err := setup.OpenModel(dir)
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
		if err := m.Fits(file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v: want %q and the bundle", err, want)
		}
	}
	file := configs.Default()
	file.Loop.Posture, file.Run.Lockstep = rtloop.Strict, true // which promises no time
	if err := m.Fits(file); err != nil && !errors.Is(err, tensorflow.ErrNotBuilt) {
		t.Errorf("lockstep: %v", err)
	}
}

func TestAStrategyThatEvaluatesNothingDoesNotLoadASavedModel(t *testing.T) {
	m, err := setup.OpenModel(rigtest.SavedModelBundle(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	file := configs.Default()
	file.Controller.Strategy = controller.Thompson
	searcher, note, err := m.Searcher(file, 1)
	if err != nil || note != "" || searcher.Dims() != m.Dims() {
		t.Errorf("%v, %q, %v", searcher, note, err)
	}
	if _, _, err := searcher.Search(nil, nil, tflite.Belief{}); err == nil {
		t.Error("it searches")
	}
}
