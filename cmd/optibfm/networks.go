package main

import (
	"errors"
	"fmt"
	"os"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal/rover"
	"optibfm/rtloop"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// networks is an opened model, whatever evaluates it: a bundle that this
// program evaluates itself, or a SavedModel, which only TensorFlow does.
type networks interface {
	Dims() tflite.Dims
	title() string // for people
	hash() string  // of what is evaluated, as the log keeps it
	// channels are those that the model was trained with, none where they are
	// not known.
	channels() (observation, action []tflite.Channel)

	// fits reports what of a configuration the model cannot do, before
	// anything is opened.
	fits(configs.File) error
	// evaluator makes the model's φ, π and ψ for one thread, the control
	// thread among them.
	evaluator(configs.File) (tflite.Evaluator, error)
	// searcher makes the model that the planner's candidates are evaluated
	// with; a native one uses up to so many processors. What was asked for
	// and is not granted is in note, a line for the posture, and on standard
	// error; with posture strict it is an error.
	searcher(f configs.File, processors int) (m tflite.Model, note string, err error)
	// caveat is what the model costs the real-time promise, "" if nothing.
	caveat() string
}

// openModel opens the model that a configuration names.
func openModel(m configs.Model) (networks, error) { return openBundle(m.Bundle) }

// openBundle opens embedded:rover or the model in a directory.
func openBundle(bundle string) (networks, error) {
	if bundle == configs.EmbeddedRover {
		b, err := tflite.Load(rover.Model())
		return nativeModel{b}, err
	}
	if _, err := os.Stat(bundle); err != nil {
		return nil, err
	}
	b, err := tflite.LoadDir(bundle)
	if errors.Is(err, tflite.ErrSavedModel) {
		m, err := tflite.LoadSavedModel(bundle)
		return savedModel{m}, err
	}
	return nativeModel{b}, err
}

// closeModels gives back the sessions of TensorFlow among models. The others hold
// nothing but memory.
func closeModels(models ...tflite.Model) error {
	var errs []error
	for _, m := range models {
		if t, ok := m.(tensorflow.Model); ok {
			errs = append(errs, t.Close())
		}
	}
	return errors.Join(errs...)
}

// nativeModel is a bundle of our own format, or a checkpoint.
type nativeModel struct{ *tflite.Bundle }

func (m nativeModel) title() string { return m.Name }
func (m nativeModel) hash() string  { return m.Hash }
func (m nativeModel) channels() (observation, action []tflite.Channel) {
	return m.Observation, m.Action
}

func (m nativeModel) fits(configs.File) error { return nil }
func (m nativeModel) caveat() string          { return "" }

func (m nativeModel) evaluator(configs.File) (tflite.Evaluator, error) { return m.NewNetwork() }

// searcher searches with TensorFlow where the configuration asks for it and it
// can be had; posture warn goes on natively. A session of TensorFlow that is not
// released lives as long as the process, as the library does.
func (m nativeModel) searcher(f configs.File, processors int) (tflite.Model, string, error) {
	network, err := m.NewNetwork(tflite.Workers(processors))
	if err != nil {
		return nil, "", err
	}
	if f.Model.Backend != configs.BackendTensorFlow {
		return network, "", nil
	}
	var accelerated tflite.Model
	switch n := f.Controller.Searched(); {
	case n > 0:
		accelerated, err = tensorflow.New(m.Bundle, f.Model.TensorFlow, n)
	case f.Controller.Strategy == controller.UCBGradient:
		accelerated, err = tensorflow.NewDifferentiable(m.Bundle, f.Model.TensorFlow, 1)
	default: // nothing is evaluated
		return network, "", nil
	}
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
