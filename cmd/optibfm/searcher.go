package main

import (
	"fmt"
	"os"

	"optibfm/configs"
	"optibfm/rtloop"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// openSearcher makes the model that the planner's candidates are evaluated
// with; a native one uses up to so many processors. Where the configuration asks for TensorFlow and it cannot be had,
// posture strict is an error, and posture warn tells on standard error and in
// note, a line for the posture, that the search is native. A session of
// TensorFlow lives as long as the process, as the library does.
func openSearcher(s *session, processors int) (searcher tflite.Model, note string, err error) {
	network, err := s.bundle.NewNetwork(tflite.Workers(processors))
	if err != nil {
		return nil, "", err
	}
	m := s.file.Model
	n := s.file.Controller.Searched()
	if m.Backend != configs.BackendTensorFlow || n == 0 {
		return network, "", nil
	}
	accelerated, err := tensorflow.New(s.bundle, m.TensorFlow, n)
	if err == nil {
		return accelerated, "", nil
	}
	if s.file.Loop.Posture == rtloop.Strict {
		return nil, "", fmt.Errorf("model.backend: %w (with loop.posture: warn the search would be native)", err)
	}
	note = fmt.Sprintf("TensorFlow on %s: not granted, the search is native: %v", m.TensorFlow.Device, err)
	fmt.Fprintln(os.Stderr, "optibfm: "+note)
	return network, note, nil
}
