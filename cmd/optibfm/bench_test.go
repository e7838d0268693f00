package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/tflite/tflitetest"
)

// benchRun runs `optibfm bench ARGS...` with few calls and returns what it
// prints.
func benchRun(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newBenchCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return out.String(), err
}

func benchJSON(t *testing.T, args ...string) benchReport {
	t.Helper()
	out, err := benchRun(append([]string{"--count", "2", "--json"}, args...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	var r benchReport
	if err := decoder.Decode(&r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

func names(rows []rowReport) []string {
	var n []string
	for _, r := range rows {
		n = append(n, r.Name)
	}
	return n
}

func stepNames(rows []stepReport) []string {
	var n []string
	for _, r := range rows {
		n = append(n, r.Name)
	}
	return n
}

func TestBenchHasEveryRowForTheRoverAndForABundle(t *testing.T) {
	for name, args := range map[string][]string{
		"rover":  nil,
		"bundle": {"--bundle", modelBundle(t), "--candidates", "9", "--gradient-steps", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			r := benchJSON(t, args...)
			control := []string{
				"belief: update", "belief: update and ẑ", "belief: forgetting", "belief: D-gap", "belief: hash",
				"tick without networks", "φ", "π", "control tick",
			}
			if got := names(r.Control); !slices.Equal(got, control) {
				t.Errorf("control: %q", got)
			}
			if got := names(r.Search); got[0] != "native, 1 processor" {
				t.Errorf("search: %q", got)
			}
			steps := []string{"policy only", "thompson", "ucb, 128 candidates", "ucb_gradient, 8 steps"}
			if name == "bundle" {
				steps[2], steps[3] = "ucb, 9 candidates", "ucb_gradient, 3 steps"
			}
			if got := stepNames(r.Steps); !slices.Equal(got, steps) {
				t.Errorf("steps: %q", got)
			}
			if len(r.Plans) != 2 || len(r.Stages) != 3 || r.Limits.GFLOPS <= 0 || len(r.Limits.Read) == 0 {
				t.Errorf("plans %v, stages %v, limits %v", r.Plans, r.Stages, r.Limits)
			}
		})
	}
}

func TestBenchCountsEveryRowAndNoAllocationOfTheControlThread(t *testing.T) {
	r := benchJSON(t, "--count", "100")
	rows := slices.Concat(r.Control, r.Search, r.Plans)
	for _, s := range r.Steps {
		rows = append(rows, s.rowReport)
	}
	for _, row := range rows {
		if row.Calls != 100 || row.P50 <= 0 || row.P99 < row.P50 || row.Max < row.P99 {
			t.Errorf("%+v", row)
		}
	}
	for _, row := range r.Control {
		if row.Allocs > 0.5 { // other goroutines of the process make some at times
			t.Errorf("%s makes %v allocations", row.Name, row.Allocs)
		}
	}
}

func TestBenchCountsTheOperationsOfTheNetworks(t *testing.T) {
	r := benchJSON(t, "--bundle", modelBundle(t), "--candidates", "9")
	flops := tflitetest.Manifest(modelDims).Architecture.FLOPs()
	for i, want := range []int64{flops.Phi, flops.Act, flops.Search(9, modelDims.Ensemble)} {
		s := r.Stages[i]
		if s.DenseFLOPs != want {
			t.Errorf("%s: %d operations, want %d", s.Name, s.DenseFLOPs, want)
		}
		if !(s.FLOPs > 0 && s.FLOPs <= float64(want)) || s.Bytes <= 0 {
			t.Errorf("%s: %v of %d operations were done, on %v bytes", s.Name, s.FLOPs, want, s.Bytes)
		}
		if !(s.RoofGFLOPS > 0 && s.RoofGFLOPS <= r.Limits.GFLOPS) {
			t.Errorf("%s: the roof is %v, the peak %v", s.Name, s.RoofGFLOPS, r.Limits.GFLOPS)
		}
	}
}

func TestBenchComparesStepsWithThePolicyAndThePaper(t *testing.T) {
	papers := map[string]float64{"policy only": 1, "thompson": paperThompson, "ucb, 128 candidates": paperUCB}
	for _, s := range benchJSON(t).Steps {
		if s.Paper != papers[s.Name] || s.Ratio <= 0 {
			t.Errorf("%s: %v, the paper's %v", s.Name, s.Ratio, s.Paper)
		}
	}
}

func TestATimeOfTheBenchIsNotLessThanTheCallTook(t *testing.T) {
	const least = 2 * time.Millisecond
	row := newTimed("sleep", func() error { time.Sleep(least); return nil })
	if err := measure([]*timed{row}, pace{rounds: 2, count: 2}); err != nil {
		t.Fatal(err)
	}
	if row.calls() != 4 || row.p50() < 0.99*float64(least) || row.max() < row.p50() {
		t.Errorf("%d calls, median %v ns, longest %v", row.calls(), row.p50(), row.max())
	}
}

func TestAStepOfTheBenchLearnsPlansAndActs(t *testing.T) {
	b, err := newBenchmark(benchOptions{config: "rover", bundle: modelBundle(t), candidates: 9, span: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	for _, strategy := range b.strategies() {
		model, err := b.stepModel()
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.newBenchStep(b.planning(strategy), model)
		if err != nil {
			t.Fatal(err)
		}
		before := s.belief.Hash()
		if err := s.step(); err != nil {
			t.Fatal(err)
		}
		after, z := s.belief.Hash(), slices.Clone(s.plan.Z)
		if after == before || s.state.Hash != after {
			t.Errorf("%s: the belief %x became %x, the planner has %x", strategy, before, after, s.state.Hash)
		}
		if !slices.ContainsFunc(s.phi, func(x float64) bool { return x != 0 }) || !slices.ContainsFunc(s.action, func(x float32) bool { return x != 0 }) {
			t.Errorf("%s: φ %v, action %v", strategy, s.phi, s.action)
		}
		if err := s.step(); err != nil {
			t.Fatal(err)
		}
		if slices.Equal(s.plan.Z, z) {
			t.Errorf("%s: the second step has the z of the first", strategy)
		}
	}
}

func TestBenchTakesTheConfigurationAndWhatTheFlagsChange(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "gradient.yaml")
	text := "version: 1\ncontroller: {strategy: ucb_gradient, gradient: {steps: 5}, replan_every_ticks: 0}\nloop: {period_ms: 4}\nrobot: {rover: {period_ms: 4}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := benchJSON(t, "--config", path, "--set", "controller.candidates=7")
	if r.Strategy != controller.UCBGradient || r.Size != 5 || r.Allowance.PeriodNS != 4e6 || r.Allowance.What != "gradient steps" {
		t.Errorf("%+v", r)
	}
	if r.Allowance.ZAgeMax != 0 || r.Replan != 0 {
		t.Errorf("a plan an episode is replaced: %+v", r.Allowance)
	}
	if r := benchJSON(t, "--config", path, "--period-ms", "8", "--gradient-steps", "2"); r.Size != 2 || r.Allowance.PeriodNS != 8e6 {
		t.Errorf("%+v", r.Allowance)
	}
	r = benchJSON(t, "--set", "controller.strategy=thompson")
	if len(r.Plans) != 1 || len(r.Allowance.Room) != 0 {
		t.Errorf("thompson has no candidates: %+v", r.Allowance)
	}
}

func TestBenchFitsATerminal(t *testing.T) {
	for _, args := range [][]string{{}, {"--set", "controller.strategy=ucb_sphere"}, {"--set", "controller.replan_every_ticks=0", "--device", "/CPU:0"}} {
		out, err := benchRun(append(args, "--count", "1")...)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > 80 || strings.HasSuffix(line, " ") {
				t.Errorf("%q is too long or ends in a space", line)
			}
		}
	}
}

func TestBenchWithoutTensorFlowSaysWhy(t *testing.T) {
	if r := benchJSON(t); !strings.Contains(r.Backend, "was not asked for") {
		t.Errorf("%q", r.Backend)
	}
	r := benchJSON(t, "--tensorflow", filepath.Join(t.TempDir(), "nowhere"))
	if !strings.Contains(r.Backend, "takes no part") || len(r.Search) != len(counts(r.Machine.Processors)) {
		t.Errorf("%q, %v", r.Backend, names(r.Search))
	}
}

func TestBenchNamesTheFlagThatIsWrong(t *testing.T) {
	for _, c := range []struct {
		words string
		args  []string
	}{
		{"--candidates is out of range (-1)", []string{"--candidates", "-1"}},
		{"--candidates is out of range", []string{"--candidates", "70000"}},
		{"--gradient-steps", []string{"--gradient-steps", "1001"}},
		{"--period-ms", []string{"--period-ms", "-1"}},
		{"--period-ms", []string{"--period-ms", "NaN"}},
		{"--span", []string{"--span", "0s"}},
		{"--count", []string{"--count", "-3"}},
		{"span", []string{"--span", "1s", "--count", "3"}},
		{"device is no device", []string{"--device", "gpu"}},
		{"no such configuration", []string{"--config", "nowhere"}},
		{"controller.strategy", []string{"--set", "controller.strategy=best"}},
		{"bfm.json", []string{"--bundle", t.TempDir()}},
	} {
		if out, err := benchRun(c.args...); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%v: %v, want %q\n%s", c.args, err, c.words, out)
		}
	}
}

func TestAgeOfZIsThatOfThePlanInForce(t *testing.T) {
	at := func(tick, plan float64, every uint64) allowance {
		b := &benchmark{file: configs.Default()}
		b.file.Loop.PeriodMS, b.file.Controller.Replan = 10, every
		b.control.tick, b.period.plan = newTimed("", nil), newTimed("", nil)
		for row, ms := range map[*timed]float64{b.control.tick: tick, b.period.plan: plan} {
			if err := row.times.RecordValue(int64(ms * 1e6)); err != nil {
				t.Fatal(err)
			}
		}
		return b.allowance()
	}
	for _, c := range []struct {
		tick, plan float64
		every      uint64
		min, max   uint64
	}{
		{0.1, 1, 1, 1, 1},   // every tick has the plan of the one before
		{0.1, 1, 5, 1, 5},   // four ticks more with the same
		{0.1, 15, 1, 2, 3},  // planning takes two periods, and so does the next
		{0.1, 9.5, 1, 2, 3}, // the delay of looking counts
		{0.1, 1, 0, 1, 0},   // nothing replaces it
	} {
		if a := at(c.tick, c.plan, c.every); a.ZAgeMin != c.min || a.ZAgeMax != c.max {
			t.Errorf("%+v: %d to %d", c, a.ZAgeMin, a.ZAgeMax)
		}
	}
	if a := at(1, 1, 1); a.MaxRateHz < 499 || a.MaxRateHz > 501 || a.TickShare < 0.0999 || a.TickShare > 0.1001 {
		t.Errorf("a tick of 1 ms of 10: %+v", a)
	}
}

func TestTheRoomOfAPeriodIsWhatIsLeftByTheTickAndTheDelayOfLooking(t *testing.T) {
	b := &benchmark{file: configs.Default()}
	b.file.Loop.PeriodMS = 10
	b.control.tick, b.period.plan, b.period.more = newTimed("", nil), newTimed("", nil), newTimed("", nil)
	b.period.size, b.period.sizeMore = 100, 400
	for row, ms := range map[*timed]float64{b.control.tick: 1, b.period.plan: 1, b.period.more: 4} { // 10 µs a candidate
		if err := row.times.RecordValue(int64(ms * 1e6)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int64{850, 1850, 4850} { // 10, 20, 50 ms less 1 and 0.5
		got := b.allowance().Room[i]
		if far := got.Size - want; far < -5 || far > 5 {
			t.Errorf("%d periods: %d candidates, want %d", got.Periods, got.Size, want)
		}
	}
}

func TestTimesAndNumbersHaveThreeDigits(t *testing.T) {
	for got, want := range map[string]string{
		brief(5): "5 ns", brief(999.4): "999 ns", brief(999.6): "1.00 µs", brief(12345): "12.3 µs", brief(2e6): "2 ms", brief(1.5e9): "1.50 s",
		scaled(12, ""): "12", scaled(1.41e9, ""): "1.41 G", scaled(7140, "Hz"): "7.14 kHz", scaled(50, "Hz"): "50 Hz",
		amount(0.001): "0", amount(24): "24", amount(0.5): "0.50",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
