package setup

import (
	"errors"
	"fmt"
	"os"

	"optibfm/configs"
	"optibfm/hal/rover"
	"optibfm/rtloop"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// Model is an opened model, whatever evaluates it: a bundle that this
// program evaluates itself, or a SavedModel, which only TensorFlow does.
type Model interface {
	Dims() tflite.Dims
	Title() string       // for people
	Fingerprint() string // of what is evaluated, as the log keeps it
	// Channels are those that the model was trained with, none where they are
	// not known.
	Channels() (observation, action []tflite.Channel)

	// Fits reports what of a configuration the model cannot do, before
	// anything is opened.
	Fits(configs.File) error
	// Evaluator makes the model's φ, π and ψ for one thread, the control
	// thread among them.
	Evaluator(configs.File) (tflite.Evaluator, error)
	// Searcher makes the model that the planner's candidates are evaluated
	// with; a native one uses up to so many processors. What was asked for
	// and is not granted is in note, a line for the posture, and on standard
	// error; with posture strict it is an error.
	Searcher(f configs.File, processors int) (m tflite.Model, note string, err error)
	// Caveat is what the model costs the real-time promise, "" if nothing.
	Caveat() string
}

// OpenModel opens embedded:rover or the model in a directory.
func OpenModel(bundle string) (Model, error) {
	if bundle == configs.EmbeddedRover {
		b, err := tflite.Load(rover.Model())
		return NativeModel{b}, err
	}
	if _, err := os.Stat(bundle); err != nil {
		return nil, err
	}
	b, err := tflite.LoadDir(bundle)
	if errors.Is(err, tflite.ErrSavedModel) {
		m, err := tflite.LoadSavedModel(bundle)
		return SavedModel{m}, err
	}
	return NativeModel{b}, err
}

// CloseModels gives back the sessions of TensorFlow among models. The others hold
// nothing but memory.
func CloseModels(models ...tflite.Model) error {
	var errs []error
	for _, m := range models {
		if t, ok := m.(tensorflow.Model); ok {
			errs = append(errs, t.Close())
		}
	}
	return errors.Join(errs...)
}

// NativeModel is a bundle of our own format, or a checkpoint.
type NativeModel struct{ *tflite.Bundle }

func (m NativeModel) Title() string       { return m.Name }
func (m NativeModel) Fingerprint() string { return m.Hash }
func (m NativeModel) Channels() (observation, action []tflite.Channel) {
	return m.Observation, m.Action
}

func (m NativeModel) Fits(configs.File) error { return nil }
func (m NativeModel) Caveat() string          { return "" }

func (m NativeModel) Evaluator(configs.File) (tflite.Evaluator, error) { return m.NewNetwork() }

// Searcher searches with TensorFlow where the configuration asks for it and it
// can be had; posture warn goes on natively. A session of TensorFlow that is not
// released lives as long as the process, as the library does.
func (m NativeModel) Searcher(f configs.File, processors int) (tflite.Model, string, error) {
	network, err := m.NewNetwork(tflite.Workers(processors))
	if err != nil {
		return nil, "", err
	}
	if f.Model.Backend != configs.BackendTensorFlow {
		return network, "", nil
	}
	n := f.Controller.NumCandidates()
	if n == 0 { // ucb_gradient uses native gradients, the other strategies evaluate nothing
		return network, "", nil
	}
	accelerated, err := tensorflow.New(m.Bundle, f.Model.TensorFlow, n)
	if err == nil {
		return accelerated, "", nil
	}
	note, err := insteadOf(f, "model.backend", err, "the search is native")
	return network, note, err
}

// insteadOf decides by the posture whether a search without the TensorFlow that
// key asks for will do.
func insteadOf(f configs.File, key string, missing error, instead string) (note string, err error) {
	if f.Loop.Posture == rtloop.Strict {
		return "", fmt.Errorf("%s: %w (with loop.posture: warn %s)", key, missing, instead)
	}
	note = fmt.Sprintf("TensorFlow on %s: not granted, %s: %v", f.Model.TensorFlow.Device, instead, missing)
	warn(note)
	return note, nil
}
