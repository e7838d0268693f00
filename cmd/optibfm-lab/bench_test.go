package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/hal/rover"
	"optibfm/lab/bench"
	"optibfm/tflite"
)

// lab runs optibfm-lab and returns what it prints. A machine that is too slow during a test is no
// error.
func lab(input string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newRootCommand()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(input))
	cmd.SetOut(&out)
	err := cmd.Execute()
	if errors.Is(err, bench.ErrTooSlow) {
		err = nil
	}
	return out.String(), err
}

func benchJSON(t *testing.T, args ...string) bench.Report {
	t.Helper()
	out, err := lab("", append([]string{"bench", "--json", "--ticks", "3"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	var r bench.Report
	if err := decoder.Decode(&r); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return r
}

func TestBench_MeasuresTheConfiguration(t *testing.T) {
	r := benchJSON(t)
	if !strings.HasPrefix(r.Model, "rover (obs 6,") || r.Tick.Count != 3 || r.Candidates != 128 || r.Plan.Available != 5*r.Period {
		t.Errorf("the rover: %+v", r)
	}
	r = benchJSON(t, "--set", "controller.strategy=ucb_gradient", "--set", "controller.replan_every_ticks=2",
		"--set", "loop.period_ms=4", "--set", "robot.rover.period_ms=4")
	if r.Strategy != "ucb_gradient" || r.Candidates != 0 || r.Period != 4e6 || r.Plan.Available != 8e6 {
		t.Errorf("changed: %+v", r)
	}
	out, err := lab("", "bench", "--ticks", "3")
	if err != nil || !strings.Contains(out, "control tick") {
		t.Errorf("%v in\n%s", err, out)
	}
}

func TestBench_RefusesWhatCannotRun(t *testing.T) {
	for words, args := range map[string][]string{
		"no such configuration":     {"--config", "nowhere"},
		"bench: model.bundle":       {"--set", "model.bundle=" + t.TempDir()},
		"controller.strategy":       {"--set", "controller.strategy=best"},
		"number of ticks":           {"--ticks", "0"},
		"bench: model.backend: ":    {"--set", "model.backend=tensorflow", "--set", "model.tensorflow.library=/nowhere"},
		"unknown flag: --candidate": {"--candidate", "3"},
	} {
		out, err := lab("", append([]string{"bench"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), words) || out != "" {
			t.Errorf("%v: %v, want %q\n%s", args, err, words, out)
		}
	}
}

func TestBench_ServesSteps(t *testing.T) {
	out, err := lab("policy 2\nucb 3\n", "bench", "--serve", "--set", "controller.candidates=9")
	var policy, ucb []int64
	answers := json.NewDecoder(strings.NewReader(out))
	if err := errors.Join(err, answers.Decode(&policy), answers.Decode(&ucb)); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if len(policy) != 2 || len(ucb) != 3 {
		t.Errorf("2 policies: %v, 3 ucb: %v", policy, ucb)
	}
}

func TestOpenModels_CountsTheBytesOfTheWeights(t *testing.T) {
	bundle, err := tflite.Load(rover.Model())
	if err != nil {
		t.Fatal(err)
	}
	var want int64
	for name, shape := range bundle.Architecture.Tensors() {
		if !strings.HasSuffix(name, ".weight") || strings.HasSuffix(name, ".1.weight") { // biases, LayerNorm
			continue
		}
		size := int64(4)
		for _, n := range shape {
			size *= int64(n)
		}
		want += size
	}
	var o bench.Options
	closeModels, err := openModels(configs.Default(), &o)
	if err != nil {
		t.Fatal(err)
	}
	if err := closeModels(); err != nil || o.Weights != want {
		t.Errorf("%d bytes, want %d; %v", o.Weights, want, err)
	}
}
