package setup

import (
	"errors"
	"fmt"
	"os"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/journal"
	"optibfm/internal/registry"
	"optibfm/internal/shell"
	"optibfm/rtloop"
	"optibfm/tflite"
)

// SavedModel is a model that TensorFlow evaluates, also on the control thread. It ignores
// model.backend.
type SavedModel struct{ *tflite.SavedModel }

func (m SavedModel) Title() string       { return m.Name }
func (m SavedModel) Fingerprint() string { return m.Hash }

func (m SavedModel) Channels() (observation, action []tflite.Channel) {
	return m.Observation, m.Action
}

func (m SavedModel) Prior() *tflite.Prior { return m.SavedModel.Prior }

func (m SavedModel) Fits(f configs.File) error {
	switch {
	case f.Controller.Strategy == controller.UCBGradient:
		return fmt.Errorf("controller.strategy: %s needs gradients, not in a SavedModel (model.bundle: %s); use %s",
			controller.UCBGradient, f.Model.Bundle, controller.UCB)
	case f.Loop.Posture == rtloop.Strict && !f.Run.Lockstep:
		return fmt.Errorf("loop.posture: %s is impossible with a SavedModel (model.bundle: %s): "+
			"TensorFlow allocates and takes locks on the control thread; set loop.posture: %s, "+
			"or use a forward-backward bundle (tflite/FORMAT.md)", rtloop.Strict, f.Model.Bundle, rtloop.Warn)
	}
	if missing := registry.EvaluatorOfSavedModels().Missing; missing != nil {
		return fmt.Errorf("model.bundle: %s: a SavedModel needs TensorFlow: %w", f.Model.Bundle, missing)
	}
	return nil
}

func (m SavedModel) Caveat() string {
	return "TensorFlow on the control thread: not real-time: it evaluates φ and π on one CPU thread, allocates and " +
		"takes locks, so a tick may be late; check the lateness in the summary"
}

// Evaluator implements Model. It stays on the CPU, so that a tick never waits for a GPU, and on the
// calling thread, because another one has no real-time priority.
func (m SavedModel) Evaluator(f configs.File) (tflite.Evaluator, error) {
	return m.Open(f, registry.SavedModelUse{Candidates: 1, OnCPU: true, OneThread: true})
}

// Open opens the model with the section of a configuration.
func (m SavedModel) Open(f configs.File, use registry.SavedModelUse) (tflite.Evaluator, error) {
	s := registry.EvaluatorOfSavedModels()
	if s.Missing != nil {
		return nil, s.Missing
	}
	return s.Open(f.Model.Section(s.Section), *m.SavedModel, use)
}

// Searcher implements Model. It uses the configured device, or the CPU if that is missing.
func (m SavedModel) Searcher(f configs.File, _ int) (tflite.Model, string, error) {
	use := registry.SavedModelUse{Candidates: f.Controller.NumCandidates()}
	if use.Candidates == 0 {
		return unsearched{m.Sizes}, "", nil
	}
	searcher, err := m.Open(f, use)
	s := registry.EvaluatorOfSavedModels()
	if err == nil || s.NoDevice == nil || !errors.Is(err, s.NoDevice) {
		return searcher, "", err
	}
	note, err := insteadOf(f, "model."+s.Section+".device", err, "the search is on the CPU")
	if err != nil {
		return nil, "", err
	}
	use.OnCPU = true
	searcher, err = m.Open(f, use)
	return searcher, note, err
}

// unsearched has the sizes of a model, for a strategy that evaluates no candidates.
type unsearched struct{ dims tflite.Dims }

var errUnsearched = errors.New("model: not loaded: the strategy evaluates no candidates")

func (u unsearched) Dims() tflite.Dims                         { return u.dims }
func (u unsearched) Phi([]float64, []float32) error            { return errUnsearched }
func (u unsearched) Act([]float32, []float32, []float64) error { return errUnsearched }
func (u unsearched) Search([]float32, []float32, tflite.Belief) (int, float32, error) {
	return 0, 0, errUnsearched
}

// warn prints a missing accelerator on standard error.
func warn(text string) {
	fmt.Fprintln(journal.For(os.Stderr, journal.Warning), shell.Name()+": "+shell.ThisProgram().Renamed(text))
}
