package main

import (
	"fmt"
	"os"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/rtloop"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// openSearcher makes the model that the planner evaluates candidates with, or
// climbs; a native one uses up to so many processors. Where the configuration
// asks for TensorFlow and it cannot be had, posture strict is an error, and
// posture warn tells on standard error and in note, a line for the posture, that
// the search is native. A session of TensorFlow lives as long as the process, as
// the library does.
func openSearcher(s *session, processors int) (searcher tflite.Model, note string, err error) {
	network, err := s.bundle.NewNetwork(tflite.Workers(processors))
	if err != nil {
		return nil, "", err
	}
	m := s.file.Model
	if m.Backend != configs.BackendTensorFlow {
		return network, "", nil
	}
	switch n := s.file.Controller.Searched(); {
	case n > 0:
		searcher, err = tensorflow.New(s.bundle, m.TensorFlow, n)
	case s.file.Controller.Strategy == controller.UCBGradient:
		searcher, err = tensorflow.NewDifferentiable(s.bundle, m.TensorFlow, 1)
	default: // nothing is evaluated
		return network, "", nil
	}
	if err == nil {
		return searcher, "", nil
	}
	if s.file.Loop.Posture == rtloop.Strict {
		return nil, "", fmt.Errorf("model.backend: %w (with loop.posture: warn the search would be native)", err)
	}
	note = fmt.Sprintf("TensorFlow on %s: not granted, the search is native: %v", m.TensorFlow.Device, err)
	fmt.Fprintln(os.Stderr, "optibfm: "+note)
	return network, note, nil
}
