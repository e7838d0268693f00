package setup

import (
	"errors"
	"fmt"
	"os"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/rtloop"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// SavedModel is a model that TensorFlow evaluates everywhere, on the control
// thread too: model.backend does not count for it.
type SavedModel struct{ *tflite.SavedModel }

// CPUDevice is where φ and π are: a tick does not wait for a GPU.
const CPUDevice = "/CPU:0"

func (m SavedModel) Title() string       { return m.Name }
func (m SavedModel) Fingerprint() string { return m.Hash }

func (m SavedModel) Channels() (observation, action []tflite.Channel) {
	return m.Observation, m.Action
}

func (m SavedModel) Fits(f configs.File) error {
	switch {
	case f.Controller.Strategy == controller.UCBGradient:
		return fmt.Errorf("controller.strategy: %s needs gradients, which a SavedModel (model.bundle: %s) does not give: use %s",
			controller.UCBGradient, f.Model.Bundle, controller.UCB)
	case f.Loop.Posture == rtloop.Strict && !f.Run.Lockstep:
		return fmt.Errorf("loop.posture: %s cannot be kept with a SavedModel (model.bundle: %s): TensorFlow evaluates φ and π on the control thread, where it allocates and takes locks: "+
			"set loop.posture: %s, or make the model a forward-backward bundle, which this program evaluates itself (tflite/FORMAT.md)", rtloop.Strict, f.Model.Bundle, rtloop.Warn)
	case !tensorflow.Built:
		return fmt.Errorf("model.bundle: %s is a SavedModel, which TensorFlow evaluates: %w", f.Model.Bundle, tensorflow.ErrNotBuilt)
	}
	return nil
}

func (m SavedModel) Caveat() string {
	return "TensorFlow on the control thread: not real-time: it evaluates φ and π, on one CPU thread, and allocates and takes locks: a tick may be late; look at the lateness that the summary gives"
}

// Evaluator runs everything on the calling thread: one thread for an operation,
// and no other for the next (with inter_op_threads 1 it would be another, which
// has no real-time priority).
func (m SavedModel) Evaluator(f configs.File) (tflite.Evaluator, error) {
	c := f.Model.TensorFlow
	c.Device, c.IntraOpThreads, c.InterOpThreads = CPUDevice, 1, -1
	return tensorflow.LoadSavedModel(*m.SavedModel, c, 1)
}

// Searcher searches on the device of the configuration; where it is not there,
// posture warn goes on on the CPU.
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

// unsearched are the sizes of a model for a strategy that evaluates nothing.
type unsearched struct{ dims tflite.Dims }

var errUnsearched = errors.New("model: it is not loaded: the strategy evaluates no candidates")

func (u unsearched) Dims() tflite.Dims                         { return u.dims }
func (u unsearched) Phi([]float64, []float32) error            { return errUnsearched }
func (u unsearched) Act([]float32, []float32, []float64) error { return errUnsearched }
func (u unsearched) Search([]float32, []float32, tflite.Belief) (int, float32, error) {
	return 0, 0, errUnsearched
}

// warn says on standard error what was not granted.
func warn(text string) { fmt.Fprintln(os.Stderr, "optibfm: "+text) }
