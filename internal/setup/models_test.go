package setup_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/sections"
	"optibfm/internal/setup"
	"optibfm/rtloop"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
	"optibfm/tflite/tflitetest"
)

// withoutTensorFlow returns a session whose TensorFlow library does not exist.
func withoutTensorFlow(t *testing.T, posture, strategy string) *setup.Session {
	return rigtest.NewSession(t, func(f *configs.File) {
		f.Model.Backend = "tensorflow"
		library := filepath.Join(t.TempDir(), "nowhere")
		sections.Edit(&f.Model.Sections, func(c *tensorflow.Config) { c.Library = library })
		f.Loop.Posture, f.Controller.Strategy = posture, strategy
	})
}

func TestSearcher_StrictNeedsTensorFlow(t *testing.T) {
	s := withoutTensorFlow(t, rtloop.Strict, controller.UCB)
	if _, _, err := s.Model.Searcher(s.File, 1); err == nil || !strings.Contains(err.Error(), "model.backend") {
		t.Errorf("%v: want an error that names model.backend", err)
	}
}

func TestSearcher_IsNativeWithoutTensorFlow(t *testing.T) {
	for name, c := range map[string]struct{ posture, strategy, note string }{
		"posture warn": {rtloop.Warn, controller.UCB, "the search is native"},
		"gradients":    {rtloop.Strict, controller.UCBGradient, ""},
		"no search":    {rtloop.Strict, controller.Thompson, ""},
	} {
		s := withoutTensorFlow(t, c.posture, c.strategy)
		searcher, note, err := s.Model.Searcher(s.File, 1)
		_, native := searcher.(*tflite.Network)
		if err != nil || !native || !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
			t.Errorf("%s: %T, note %q, %v", name, searcher, note, err)
		}
	}
}

func TestCloseModels_EndsTheWorkersOfASearch(t *testing.T) {
	d := tflite.Dims{Obs: 4, Action: 2, Latent: 8, Ensemble: 2}
	manifest := tflitetest.Manifest(d)
	manifest.Architecture.Actor.Hidden = 256 // smaller products are not divided
	bundle, err := tflite.New(manifest, tflitetest.Tensors(manifest.Architecture, 1))
	fatal.If(t, err)
	searcher, _, err := setup.NativeModel{Bundle: bundle}.Searcher(configs.Default(), 2)
	fatal.If(t, err)
	belief := tflite.Belief{Mean: make([]float32, d.Latent), InvR: make([]float32, d.Latent*d.Latent), Beta: 1}
	candidates := slices.Repeat([]float32{1}, 128*d.Latent)
	_, _, err = searcher.Search(make([]float32, d.Obs), candidates, belief)
	fatal.If(t, err)
	stacks := make([]byte, 1<<20)
	workers := func() int { return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "kernel.(*Team).help(") }
	for workers() == 0 { // the goroutine may still begin
		runtime.Gosched()
	}
	fatal.If(t, setup.CloseModels(searcher))
	if n := workers(); n != 0 {
		t.Errorf("%d workers after CloseModels, want none", n)
	}
}

func TestSavedModel_FitsOnlyWhatTensorFlowCanDo(t *testing.T) {
	dir := rigtest.SavedModelBundle(t, nil)
	m, err := setup.OpenModel(dir)
	fatal.If(t, err)
	for want, change := range map[string]func(*configs.File){
		"ucb_gradient needs gradients":       func(f *configs.File) { f.Controller.Strategy = controller.UCBGradient },
		"loop.posture: strict is impossible": func(f *configs.File) { f.Loop.Posture = rtloop.Strict },
	} {
		file := configs.Default()
		file.Model.Bundle = dir
		change(&file)
		err := m.Fits(file)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("want %q and the bundle: %v", want, err)
		}
	}
	file := configs.Default()
	file.Loop.Posture, file.Run.Lockstep = rtloop.Strict, true // lockstep has no deadlines
	if err := m.Fits(file); err != nil && !errors.Is(err, tensorflow.ErrNotBuilt) {
		t.Errorf("lockstep: %v", err)
	}
}

func TestSavedModel_IsNotLoadedForAStrategyWithoutSearch(t *testing.T) {
	m, err := setup.OpenModel(rigtest.SavedModelBundle(t, nil))
	fatal.If(t, err)
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

func TestCheckChannels_WarnsOfTheListWithoutNames(t *testing.T) {
	s := rigtest.NewSession(t, func(f *configs.File) { f.Model.Bundle = "models/mine" })
	var action []tflite.Channel
	for _, c := range rigtest.RoverSpec(t).Action {
		action = append(action, tflite.Channel{Name: c.Name})
	}
	s.Model.(setup.NativeModel).Action = action
	_, warning, err := setup.CheckChannels(s.File, s.Model)
	want := "model.bundle: models/mine: the observation channels have no names"
	if err != nil || !strings.HasPrefix(warning, want) {
		t.Errorf("%q, %v", warning, err)
	}
}

func TestNewAssembler_ChannelsOfTheRobotNeedNoGroups(t *testing.T) {
	s, robot := rigtest.NewSession(t, nil), rigtest.RoverSpec(t)
	bundle := s.Model.(setup.NativeModel).Bundle
	bundle.Architecture.Groups = []tflite.Group{{Name: "place", Size: 2}, {Name: "rest", Size: len(robot.Obs) - 2}}
	bundle.Observation = nil
	for _, c := range robot.Obs {
		bundle.Observation = append(bundle.Observation, tflite.Channel{Name: c.Name, Unit: c.Unit})
	}
	if a, err := setup.NewAssembler(s.File, robot, s.Model); a != nil || err != nil {
		t.Errorf("%v, %v: want the observation as it is", a, err)
	}
	swapped := bundle.Observation
	swapped[0], swapped[1] = swapped[1], swapped[0]
	if _, err := setup.NewAssembler(s.File, robot, s.Model); !errors.Is(err, controller.ErrConfig) {
		t.Errorf("other channels: %v, want ErrConfig", err)
	}
	bundle.Observation = nil
	if _, err := setup.NewAssembler(s.File, robot, s.Model); !errors.Is(err, controller.ErrConfig) {
		t.Errorf("no names: %v, want ErrConfig", err)
	}
}
