package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"optibfm/tflite"
)

func newTestStepper(t *testing.T) *stepper {
	t.Helper()
	b, err := tflite.LoadDir(modelBundle(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStepper(b, 9)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.network.Close)
	return s
}

func TestThePeersStepsLearnDrawAndActAsTheySay(t *testing.T) {
	for _, c := range []struct {
		name          string
		learns, draws bool
	}{{"policy", false, false}, {"tick", true, false}, {"thompson", true, true}, {"ucb", true, true}} {
		s := newTestStepper(t)
		s.count = 1 // the belief begins anew at 0
		before, z := s.belief.Hash(), slices.Clone(s.z)
		if err := s.serve(strings.NewReader(c.name+" 1\n"), new(bytes.Buffer)); err != nil {
			t.Fatal(err)
		}
		if learnt := s.belief.Hash() != before; learnt != c.learns {
			t.Errorf("%s: the belief changes: %v", c.name, learnt)
		}
		if drawn := !slices.Equal(s.z, z); drawn != c.draws {
			t.Errorf("%s: z changes: %v", c.name, drawn)
		}
		if !slices.ContainsFunc(s.action, func(x float32) bool { return x != 0 }) {
			t.Errorf("%s: no action", c.name)
		}
	}
}

func TestThePeersStepsAnswerWithATimeForEveryStep(t *testing.T) {
	s := newTestStepper(t)
	var out bytes.Buffer
	if err := s.serve(strings.NewReader("search 3\nucb 2\n"), &out); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(&out)
	for _, want := range []int{3, 2} {
		var times []int64
		if err := answers.Decode(&times); err != nil || len(times) != want || slices.Min(times) <= 0 {
			t.Errorf("%v, %v: want %d times", times, err, want)
		}
	}
	for _, line := range []string{"walk 1", "ucb", "ucb 0", ""} {
		if err := s.serve(strings.NewReader(line+"\n"), &out); err == nil || !strings.Contains(err.Error(), "write a step and a count") {
			t.Errorf("%q: %v", line, err)
		}
	}
}
