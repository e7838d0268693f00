package eval

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/hal/rover"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// tiny is an experiment on the rover that uses most settings.
const tiny = `
version: 1
experiment: tiny
run: {trials: 2, episodes: 2, episode_steps: 20, reward_every: 7}
environments:
  - name: rover
    tasks: [spin, corner]
    models: [{bundle: "embedded:rover"}]
methods:
  - {name: ucb, beta: [0.1], candidates: [8]}
  - {name: thompson, sigma: [0.1], kappa: [0.1], delay_s: [0.1], mistakes: [0.2], bias: [0.1]}
  - {name: thompson_ep, warm_start: [5], plan_age: [2], sampler: [transposed]}
  - {name: lola, horizon: [5], replay: [10], noise: [0.1]}
  - {name: random}
`

func parsed(t *testing.T, text string) Protocol {
	t.Helper()
	p, err := Parse("test.yaml", []byte(text))
	fatal.If(t, err)
	return p
}

// runInto runs a protocol into a file.
func runInto(t *testing.T, path string, r Runner) {
	t.Helper()
	fatal.If(t, runOnce(context.Background(), t, path, r))
}

func runOnce(ctx context.Context, t *testing.T, path string, r Runner) error {
	t.Helper()
	hash, err := r.Hash()
	fatal.If(t, err)
	results, err := OpenResults(path, hash)
	fatal.If(t, err)
	if err := r.Run(ctx, results); err != nil {
		return errors.Join(err, results.Close())
	}
	return results.Finish()
}

// content returns a results file without measured values.
func content(t *testing.T, path string) string {
	t.Helper()
	rows, err := ReadFile(path)
	fatal.If(t, err)
	for i := range rows {
		if rows[i].Measure == MeasureHz {
			rows[i].Value = 0
		}
	}
	var text bytes.Buffer
	fatal.If(t, WriteRows(&text, rows))
	return text.String()
}

func TestRunner_RowsDoNotDependOnJobs(t *testing.T) {
	dir, p := t.TempDir(), parsed(t, tiny)
	one, many := filepath.Join(dir, "one.csv"), filepath.Join(dir, "many.csv")
	runInto(t, one, Runner{Protocol: p, Jobs: 1})
	runInto(t, many, Runner{Protocol: p, Jobs: 5})
	if a, b := content(t, one), content(t, many); a != b {
		t.Errorf("with one job:\n%s\nwith five:\n%s", a, b)
	}
	if rows, _ := ReadFile(one); len(rows) < len(p.Trials())*5 {
		t.Errorf("%d rows of %d trials", len(rows), len(p.Trials()))
	}
}

// stopAfter cancels a run after some trials.
type stopAfter struct {
	left   int
	cancel context.CancelFunc
}

func (s *stopAfter) Begin([]Trial, int) {}
func (s *stopAfter) Finished(Trial, int, time.Duration) {
	if s.left--; s.left == 0 {
		s.cancel()
	}
}

func TestRunner_ResumesAfterAKill(t *testing.T) {
	dir, p := t.TempDir(), parsed(t, tiny)
	whole, killed := filepath.Join(dir, "whole.csv"), filepath.Join(dir, "killed.csv")
	runInto(t, whole, Runner{Protocol: p, Jobs: 2})
	ctx, cancel := context.WithCancel(context.Background())
	err := runOnce(ctx, t, killed, Runner{Protocol: p, Jobs: 1, Progress: &stopAfter{6, cancel}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the interrupted run returned %v", err)
	}
	text, err := os.ReadFile(killed)
	fatal.If(t, err)
	// A kill may leave any part of the last trial.
	for _, cut := range []int{1, 200, 500} {
		fatal.If(t, os.WriteFile(killed, text[:len(text)-cut], 0o644))
		hash, _ := p.Hash()
		results, err := OpenResults(killed, hash)
		fatal.If(t, err)
		if results.Dropped == "" {
			t.Errorf("%d bytes less: Dropped is empty", cut)
		}
		done := 0
		for _, trial := range p.Trials() {
			if results.Done(trial) {
				done++
			}
		}
		if done < 4 || done > 5 {
			t.Errorf("%d bytes less: %d trials are done, of 6", cut, done)
		}
		fatal.If(t, results.Close())
	}
	runInto(t, killed, Runner{Protocol: p, Jobs: 2})
	if a, b := content(t, whole), content(t, killed); a != b {
		t.Errorf("at once:\n%s\nin two runs:\n%s", a, b)
	}
}

func TestRunner_DoesNotRepeatFinishedTrials(t *testing.T) {
	path, p := filepath.Join(t.TempDir(), "results.csv"), parsed(t, tiny)
	runInto(t, path, Runner{Protocol: p, Jobs: 2})
	before, err := os.ReadFile(path)
	fatal.If(t, err)
	runInto(t, path, Runner{Protocol: p, Jobs: 2})
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the file has changed")
	}
}

func TestHash_CoversTheTaskPriorWhereATrialUsesIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	fatal.If(t, os.CopyFS(dir, rover.Model()))
	text := "version: 1\nexperiment: test\nenvironments: [{name: rover, tasks: [spin], models: [{bundle: " + dir + "}]}]\n"
	hashes := func() (of [3]string) {
		for i, settings := range []string{"preset: [person]", "prior: [task]", "preset: [person], prior: [isotropic]"} {
			p := parsed(t, text+"methods: [{name: random}, {name: thompson, sigma: [1], "+settings+"}]\n")
			var err error
			of[i], err = Runner{Protocol: p}.Hash()
			fatal.If(t, err)
		}
		return of
	}
	before := hashes()
	b, err := tflite.LoadDir(dir)
	fatal.If(t, err)
	fatal.If(t, tflite.SavePrior(dir, "", *b.Prior.WithoutResiduals()))
	after := hashes()
	if before[0] == after[0] || before[1] == after[1] {
		t.Error("the hash of an experiment with a task prior is that with another one")
	}
	if before[2] != after[2] {
		t.Error("the hash of an experiment without a task prior depends on the prior")
	}
}

func TestRunner_RefusesAModelWithOtherWeights(t *testing.T) {
	path, p := filepath.Join(t.TempDir(), "results.csv"), parsed(t, tiny)
	p.Methods = p.Methods[4:]
	ctx, cancel := context.WithCancel(context.Background())
	err := runOnce(ctx, t, path, Runner{Protocol: p, Jobs: 1, Progress: &stopAfter{1, cancel}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	rows, err := ReadFile(path)
	fatal.If(t, err)
	for i := range rows {
		rows[i].ModelHash = "of another model"
	}
	fatal.If(t, WriteFile(path, rows))
	err = runOnce(context.Background(), t, path, Runner{Protocol: p, Jobs: 1})
	if !errors.Is(err, ErrOtherModel) || !strings.Contains(err.Error(), EmbeddedRover) {
		t.Errorf("the run continued: %v", err)
	}
	if after, err := ReadFile(path); err != nil || len(after) != len(rows) {
		t.Errorf("%d rows were there, now %d (%v)", len(rows), len(after), err)
	}
}

// stuck is a simulator that fails to close.
type stuck struct{ Simulator }

var errStuck = errors.New("does not close")

func (stuck) Close() error { return errStuck }

func TestWorker_CloseErrorDoesNotCancelTheRun(t *testing.T) {
	p := &pool{}
	if err := (&worker{pool: p, robot: stuck{}}).work(context.Background()); err != nil {
		t.Errorf("stops the other workers: %v", err)
	}
	if err := p.run(context.Background()); !errors.Is(err, errStuck) || errors.Is(err, context.Canceled) {
		t.Errorf("the run returned %v", err)
	}
}

func TestRunner_LearnsFromLateLabels(t *testing.T) {
	for _, asked := range []string{"", ", kappa: [0]"} {
		p := parsed(t, `
version: 1
experiment: delays
run: {trials: 1, episodes: 1, episode_steps: 1000}
environments: [{name: rover, tasks: [spin], models: [{bundle: "embedded:rover"}]}]
methods: [{name: thompson, delay_s: [8, 20]`+asked+`}]
`)
		path := filepath.Join(t.TempDir(), "results.csv")
		runInto(t, path, Runner{Protocol: p, Jobs: 2})
		rows, err := ReadFile(path)
		fatal.If(t, err)
		for _, row := range rows {
			if row.Measure == MeasureLabels && row.Value < 1 {
				t.Errorf("%s: %v labels were used of 50 s", row.Params, row.Value)
			}
		}
	}
}

func TestRunner_ReportsAMissingModelBeforeTheRun(t *testing.T) {
	p := parsed(t, strings.ReplaceAll(tiny, "embedded:rover", "nowhere"))
	path := filepath.Join(t.TempDir(), "results.csv")
	err := runOnce(context.Background(), t, path, Runner{Protocol: p, Jobs: 2})
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("the error is %v", err)
	}
	if rows, _ := ReadFile(path); len(rows) > 0 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestRunner_RefusesAModelWithOtherChannels(t *testing.T) {
	m := tflitetest.Manifest(tflite.Dims{Obs: 6, Action: 2, Latent: 8, Ensemble: 2})
	m.Action = []tflite.Channel{{Name: "right_wheel"}, {Name: "left_wheel"}}
	bundle := filepath.Join(t.TempDir(), "model")
	fatal.If(t, tflite.Save(bundle, m, tflitetest.Tensors(m.Architecture, 1)))
	path := filepath.Join(t.TempDir(), "results.csv")
	p := parsed(t, strings.ReplaceAll(tiny, "embedded:rover", bundle))
	err := runOnce(context.Background(), t, path, Runner{Protocol: p, Jobs: 1})
	if !errors.Is(err, controller.ErrMismatch) || !strings.Contains(err.Error(), "*    0  left_wheel   right_wheel") {
		t.Errorf("the error is %v", err)
	}
	if rows, _ := ReadFile(path); len(rows) > 0 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestRunner_ReportsAMissingPythonBeforeTheRun(t *testing.T) {
	p := parsed(t, strings.NewReplacer("name: rover", "name: cheetah", "[spin, corner]", "[walk]").Replace(tiny))
	path := filepath.Join(t.TempDir(), "results.csv")
	err := runOnce(context.Background(), t, path, Runner{Protocol: p, Worlds: Worlds{Python: "no-such-python"}})
	if !errors.Is(err, ErrPython) || !strings.Contains(err.Error(), "--python") {
		t.Errorf("the error is %v", err)
	}
}
