package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/internal/rigtest"
	"optibfm/lab/bench"
	"optibfm/lab/theory"
)

// lab runs optibfm-lab and returns its output. A slow machine does not
// fail a test.
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

func TestHelp_ExamplesParse(t *testing.T) {
	rigtest.CheckHelp(t, newRootCommand())
}

func TestBench_MeasuresTheConfiguration(t *testing.T) {
	for _, c := range []struct {
		args  string
		check func(bench.Report) bool
	}{
		{"--set controller.strategy=ucb --set controller.replan_every_ticks=5", func(r bench.Report) bool {
			return strings.HasPrefix(r.Model, "rover (obs 6,") && r.Tick.Count == 3 && r.Candidates == 128 &&
				r.Plan.Available == 5*r.Period
		}},
		{"--set controller.strategy=ucb_gradient --set controller.replan_every_ticks=2 --set loop.period_ms=4 " +
			"--set robot.rover.period_ms=4", func(r bench.Report) bool {
			return r.Strategy == "ucb_gradient" && r.Candidates == 0 && r.Period == 4e6 && r.Plan.Available == 8e6
		}},
	} {
		out, err := lab("", append([]string{"bench", "--json", "--ticks", "3"}, strings.Fields(c.args)...)...)
		fatal.If(t, err)
		decoder := json.NewDecoder(strings.NewReader(out))
		decoder.DisallowUnknownFields()
		var r bench.Report
		if err := decoder.Decode(&r); err != nil || !c.check(r) {
			t.Errorf("%s: %v in\n%s", c.args, err, out)
		}
	}
	out, err := lab("", "bench", "--ticks", "3")
	if err != nil || !strings.Contains(out, "control tick") {
		t.Errorf("%v in\n%s", err, out)
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

func TestLab_NamesWhatIsWrong(t *testing.T) {
	for want, args := range map[string][]string{
		"no such configuration": {"bench", "--config", "nowhere"},
		"bench: model.bundle":   {"bench", "--set", "model.bundle=" + t.TempDir()},
		"controller.strategy":   {"bench", "--set", "controller.strategy=best"},
		"number of ticks":       {"bench", "--ticks", "0"},
		"bench: model.backend: ": {"bench", "--set", "controller.strategy=ucb", "--set", "model.backend=tensorflow",
			"--set", "model.tensorflow.library=/nowhere"},
		"unknown flag: --candidate": {"bench", "--candidate", "3"},
		"at least 40":               {"theory", "--runs", "5"},
		"collect: ":                 {"collect", "--transitions", "0", "--out", filepath.Join(t.TempDir(), "none.npz")},
		"the file exists":           {"collect", "--out", t.TempDir()},
		"--amplitude":               {"collect", "--amplitude", "0", "--out", filepath.Join(t.TempDir(), "none.npz")},
		"arguments (0)":             {"eval"},
		"arguments (1)":             {"eval", "merge", "out.csv"},
		"no.csv":                    {"eval", "merge", "out.csv", "no.csv"},
	} {
		out, err := lab("", args...)
		if err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%v: %v, want %q\n%s", args, err, want, out)
		}
	}
	errtest.Is(t, errtest.Of(lab("", "theory", "--runs", "5")), theory.ErrConfig, "too few runs")
}

func TestCollect_WritesTrainingData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "transitions.npz")
	out, err := lab("", "collect", "--transitions", "200", "--seed", "3", "--out", path)
	if err != nil || !strings.HasPrefix(out, "200 transitions in ") {
		t.Fatalf("%v: %q", err, out)
	}
	archive, err := npz.ReadFile(path)
	fatal.If(t, err)
	for name, width := range map[string]int{"obs": 6, "action": 2, "next_obs": 6} {
		errtest.Nil(t, errtest.Of(archive.Shaped(name, 200, width)))
	}
	errtest.Nil(t, errtest.Of(archive.Shaped("episode", 200)))
}

func TestBackend_PrintsATable(t *testing.T) {
	out, err := lab("", "backend", "--candidates", "4", "--limit", "0s")
	fatal.If(t, err)
	if !strings.HasPrefix(out, bench.BackendHeader+"| plan, n = 4 | rover | native, ") {
		t.Errorf("no table in\n%s", out)
	}
}
