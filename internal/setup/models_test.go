package setup_test

import (
	"path/filepath"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rtloop"
	"optibfm/tflite"
)

// withoutTensorFlow asks for a library that is not there.
func withoutTensorFlow(t *testing.T, posture string) *setup.Session {
	return rigtest.NewSession(t, func(f *configs.File) {
		f.Model.Backend = configs.BackendTensorFlow
		f.Model.TensorFlow.Library = filepath.Join(t.TempDir(), "nowhere")
		f.Loop.Posture = posture
	})
}

func searcherOf(s *setup.Session) (tflite.Model, string, error) { return s.Model.Searcher(s.File, 1) }

func TestPostureWarnSearchesNativelyAndSaysSo(t *testing.T) {
	searcher, note, err := searcherOf(withoutTensorFlow(t, rtloop.Warn))
	if err != nil {
		t.Fatal(err)
	}
	if _, native := searcher.(*tflite.Network); !native {
		t.Errorf("the searcher is a %T", searcher)
	}
	if !strings.Contains(note, "the search is native") {
		t.Errorf("the note is %q", note)
	}
}

func TestSearcher_StrictNeedsTensorFlow(t *testing.T) {
	if _, _, err := searcherOf(withoutTensorFlow(t, rtloop.Strict)); err == nil || !strings.Contains(err.Error(), "model.backend") {
		t.Errorf("%v: want an error that names model.backend", err)
	}
}

func TestSearcher_GradientStrategyIsNativeWithEveryBackend(t *testing.T) {
	s := withoutTensorFlow(t, rtloop.Strict)
	s.File.Controller.Strategy = controller.UCBGradient
	searcher, note, err := searcherOf(s)
	if _, native := searcher.(*tflite.Network); err != nil || note != "" || !native {
		t.Errorf("%T, note %q, %v: want a network", searcher, note, err)
	}
}

func TestAStrategyThatEvaluatesNothingDoesNotLoadTensorFlow(t *testing.T) {
	s := withoutTensorFlow(t, rtloop.Strict)
	s.File.Controller.Strategy = controller.Thompson
	if _, note, err := searcherOf(s); err != nil || note != "" {
		t.Errorf("%q, %v", note, err)
	}
}
