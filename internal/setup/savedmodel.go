package setup

import (
	"errors"
	"fmt"
	"os"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/journal"
	"optibfm/rtloop"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// SavedModel is a model that TensorFlow evaluates, also on the control thread. It ignores model.backend.
type SavedModel struct{ *tflite.SavedModel }

// CPUDevice is the TensorFlow device of φ and π, so that a tick never waits for a GPU.
const CPUDevice = "/CPU:0"

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
	case !tensorflow.Built:
		return fmt.Errorf("model.bundle: %s: a SavedModel needs TensorFlow: %w", f.Model.Bundle, tensorflow.ErrNotBuilt)
	}
	return nil
}

func (m SavedModel) Caveat() string {
	return "TensorFlow on the control thread: not real-time: it evaluates φ and π on one CPU thread, allocates and " +
		"takes locks, so a tick may be late; check the lateness in the summary"
}

// Evaluator implements Model. All operations run on the calling thread: inter_op_threads 1 would use a
// second thread without real-time priority.
func (m SavedModel) Evaluator(f configs.File) (tflite.Evaluator, error) {
	c := f.Model.TensorFlow
	c.Device, c.IntraOpThreads, c.InterOpThreads = CPUDevice, 1, -1
	return tensorflow.LoadSavedModel(*m.SavedModel, c, 1)
}

// Searcher implements Model. It uses the configured device, or the CPU if that is missing.
func (m SavedModel) Searcher(f configs.File, _ int) (tflite.Model, string, error) {
	n := f.Controller.NumCandidates()
	if n == 0 {
		return unsearched{m.Sizes}, "", nil
	}
	c := f.Model.TensorFlow
	searcher, err := tensorflow.LoadSavedModel(*m.SavedModel, c, n)
	if err == nil || !errors.Is(err, tensorflow.ErrNoDevice) || c.Device == CPUDevice {
		return searcher, "", err
	}
	note, err := insteadOf(f, "model.tensorflow.device", err, "the search is on "+CPUDevice)
	if err != nil {
		return nil, "", err
	}
	c.Device = CPUDevice
	searcher, err = tensorflow.LoadSavedModel(*m.SavedModel, c, n)
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
func warn(text string) { fmt.Fprintln(journal.For(os.Stderr, journal.Warning), "optibfm: "+text) }
