package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

const ms = time.Millisecond

var dims = tflite.Dims{Obs: 3, Action: 2, Latent: 4, Ensemble: 2}

// sleeper is a model whose evaluations take known times of the clock within synctest.Test.
type sleeper struct{}

func (sleeper) Dims() tflite.Dims { return dims }

func (sleeper) Phi(dst []float64, obs []float32) error {
	time.Sleep(2 * ms)
	for i := range dst {
		dst[i] = float64(obs[i%len(obs)])
	}
	return nil
}

func (sleeper) Act(dst, _ []float32, _ []float64) error {
	time.Sleep(ms)
	clear(dst)
	return nil
}

func (sleeper) Search(_, _ []float32, _ tflite.Belief) (int, float32, error) {
	time.Sleep(5 * ms)
	return 1, 0, nil
}

func (sleeper) Gradient(dz, _, _ []float32, _ tflite.Belief) (float32, error) {
	time.Sleep(3 * ms)
	dz[0] = 1
	return 0, nil
}

// options are those of a sleeper with one tick in 10 ms.
func options(strategy string) Options {
	c := controller.DefaultConfig()
	c.Strategy, c.Gradient.Steps = strategy, 4
	return Options{Name: "test", Controller: c, Period: 10 * ms, Control: sleeper{}, Planner: sleeper{}, Ticks: 3}
}

// native are the options of a random network.
func native(t *testing.T, strategy string) Options {
	t.Helper()
	o := options(strategy)
	o.Control, o.Planner = tflitetest.Network(dims, 1), tflitetest.Network(dims, 1)
	o.Weights, o.Period = 1<<12, time.Hour
	return o
}

func lineOf(t *testing.T, s Stage, name string) Line {
	t.Helper()
	i := slices.IndexFunc(s.Parts, func(l Line) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("%s has no part %q: %+v", s.Name, name, s.Parts)
	}
	return s.Parts[i]
}

func TestRun_TimesEachPart(t *testing.T) {
	for strategy, search := range map[string]time.Duration{
		controller.UCB: 5 * ms, controller.UCBSphere: 5 * ms,
		controller.UCBGradient: (4*3 + 5) * ms, controller.Thompson: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			o := options(strategy)
			o.Ticks = 2*labels + 1 // three rigs
			o.Controller.Replan = 2
			r, err := Run(t.Context(), o)
			fatal.If(t, err)
			for name, want := range map[string]time.Duration{"φ": 2 * ms, "π": ms, "D-gap, update": 0, "other": 0} {
				if l := lineOf(t, r.Tick, name); l.Count != o.Ticks || l.P50 != want || l.P99 != want || l.Max != want {
					t.Errorf("%s: %+v, want %v", strategy, l, want)
				}
			}
			if r.Tick.P50 != 3*ms || r.Plan.P50 != search || r.Plan.Available != 20*ms {
				t.Errorf("%s: control tick %+v, plan %+v", strategy, r.Tick, r.Plan)
			}
			if search == 0 {
				if len(r.Plan.Parts) != 0 {
					t.Errorf("%s searches nothing, but has %+v", strategy, r.Plan.Parts)
				}
				return
			}
			if l := lineOf(t, r.Plan, "search"); l.P50 != search || r.Plan.Parts[0].Name != "search" {
				t.Errorf("%s: search %+v, want %v", strategy, l, search)
			}
		})
	}
}

func TestRun_FailsWhereTickOrPlanDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		period time.Duration
		words  []string // of the error; none: it fits
	}{
		{5 * ms, nil},
		{5*ms - 1, []string{"bench: plan: too slow (p99 5ms, available 4.999999ms); lower controller.candidates"}},
		{3*ms - 1, []string{"control tick: too slow (p99 3ms", "plan: too slow", "loop.period_ms"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := options(controller.UCB)
			o.Period = c.period
			r, err := Run(t.Context(), o)
			if errors.Is(err, ErrTooSlow) != (c.words != nil) || err != nil && c.words == nil {
				t.Errorf("period %v: %v", c.period, err)
			}
			for _, words := range c.words {
				errtest.Contains(t, err, words, "period ", c.period)
			}
			if r.Tick.Count != o.Ticks {
				t.Errorf("period %v: report of %d ticks", c.period, r.Tick.Count)
			}
		})
	}
}

func TestRun_CountsTheWorkOfNetworks(t *testing.T) {
	o := native(t, controller.UCB)
	o.Controller.Candidates = 9
	r, err := Run(t.Context(), o)
	fatal.If(t, err)
	dense := tflitetest.Manifest(dims).Architecture.FLOPs()
	for _, c := range []struct {
		stage Stage
		name  string
		flops int64
	}{{r.Tick, "φ", dense.Phi}, {r.Tick, "π", dense.Act}, {r.Plan, "search", dense.Search(9, dims.Ensemble)}} {
		l := lineOf(t, c.stage, c.name)
		flops := l.GFLOPS * float64(l.P50)
		if !(flops > 0 && flops <= 1.001*float64(c.flops)) ||
			l.Bytes <= 0 || l.GBS <= 0 || l.Copy <= 0 || l.Limit == "" {
			t.Errorf("%+v: %.0f of %d operations", l, flops, c.flops)
		}
	}
	if l := lineOf(t, r.Tick, "other"); l.Limit != "" {
		t.Errorf("a limit without a network: %+v", l)
	}
}

func TestRun_RefusesWhatCannotRun(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for words, change := range map[string]func(*Options){
		"number of ticks is out of range (0)": func(o *Options) { o.Ticks = 0 },
		"period":                              func(o *Options) { o.Period = 0 },
		"strategy":                            func(o *Options) { o.Controller.Strategy = "best" },
		"has no gradient": func(o *Options) {
			o.Controller.Strategy, o.Planner = controller.UCBGradient, struct{ tflite.Model }{sleeper{}}
		},
	} {
		o := options(controller.UCB)
		change(&o)
		errtest.Contains(t, errtest.Of(Run(t.Context(), o)), words)
	}
	errtest.Is(t, errtest.Of(Run(cancelled, native(t, controller.UCB))), context.Canceled)
}

func TestRig_LearnsPlansAndActsInEveryStep(t *testing.T) {
	for _, strategy := range []string{controller.UCB, controller.UCBGradient, controller.Thompson} {
		r, err := newBenchmark(native(t, strategy)).newRig(strategy)
		fatal.If(t, err)
		for range 3 {
			before, z := r.agent.Learner().Belief().Hash(), slices.Clone(r.tick.Z)
			fatal.If(t, r.step())
			if r.tick.NumLabels != 1 || r.tick.Labels[0].Outcome != controller.Applied ||
				r.agent.Learner().Belief().Hash() == before {
				t.Errorf("%s: no label applied: %+v", strategy, r.tick.Header)
			}
			moves := slices.ContainsFunc(r.tick.Action, func(x float32) bool { return x != 0 })
			if slices.Equal(r.tick.Z, z) || !moves {
				t.Errorf("%s: z %v, action %v", strategy, r.tick.Z, r.tick.Action)
			}
		}
	}
}

func TestStage_JudgesP99AndMaximum(t *testing.T) {
	for _, c := range []struct {
		long, longest time.Duration // of 2 and 1 in 100 ticks
		verdict       string
		margin        float64
	}{
		{10 * ms, 10 * ms, Fits, 1},
		{5 * ms, 10 * ms, Fits, 1},
		{5 * ms, 11 * ms, DoesNotFit, 10.0 / 11},
		{11 * ms, 11 * ms, DoesNotFit, 10.0 / 11},
	} {
		p := part{times: slices.Repeat([]time.Duration{ms}, 97)}
		p.times = append(p.times, c.long, c.long, c.longest)
		s := newStage("", &p, 10*ms, "")
		if s.Verdict != c.verdict || math.Abs(s.Margin-c.margin) > 1e-9 || s.Max != c.longest {
			t.Errorf("%+v: %+v", c, s.Line)
		}
	}
	late := part{times: append(slices.Repeat([]time.Duration{ms}, 999), time.Second)}
	if s := newStage("", &late, 10*ms, ""); s.Verdict != Late || s.P99 != ms {
		t.Errorf("one late tick of 1000: %+v", s.Line)
	}
}

func TestStage_NamesTheLimit(t *testing.T) {
	for moved, want := range map[int64]string{49e6: Arithmetic, 50e6: Memory} { // in 10 ms: 4.9 and 5 GB/s
		p := part{times: []time.Duration{10 * ms}, work: tflite.Work{FLOPs: 20e6, Bytes: moved}}
		s := newStage("", &p, time.Second, "")
		s.include("network", &p, 10)
		if l := s.Parts[0]; l.Limit != want || l.GFLOPS != 2 || l.GBS != float64(moved)/1e7 || l.Copy != 10 {
			t.Errorf("%d bytes: %+v, want %s", moved, l, want)
		}
		var text strings.Builder
		if s.explain(&text); !strings.Contains(text.String(), "network dominates (100 %), limited by "+want) {
			t.Errorf("%d bytes: %s", moved, &text)
		}
	}
}

func TestPlanTime_IsTheReplanIntervalUpToTheOldestPlan(t *testing.T) {
	for _, c := range []struct {
		replan, age uint64
		want        time.Duration
	}{
		{1, 25, 10 * ms}, {5, 25, 50 * ms},
		{100, 25, 250 * ms},
		{0, 25, 250 * ms}, // once an episode
		{0, math.MaxUint64, math.MaxInt64 / (10 * ms) * (10 * ms)},
	} {
		cfg := controller.Config{Replan: c.replan, MaxPlanAge: c.age}
		if got := planTime(cfg, 10*ms); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestReport_FitsATerminal(t *testing.T) {
	for _, strategy := range []string{controller.UCBSphere, controller.Thompson} {
		o := native(t, strategy)
		o.Period = 10 * time.Second
		r, err := Run(t.Context(), o)
		if err != nil && !errors.Is(err, ErrTooSlow) {
			t.Fatal(err)
		}
		text := r.String()
		for line := range strings.Lines(text) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("too long: %q", line)
			}
		}
		for _, want := range []string{strategy, "control tick", "φ", "plan", "dominates", "margin"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
}

func TestShort_HasThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5: "5ns", 999: "999ns", 12_345: "12.3µs", 2 * ms: "2ms", 1_999_999: "2ms", 1_234 * ms: "1.23s",
	} {
		if got := short(d).String(); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

func TestServeSteps_TimesEachStep(t *testing.T) {
	for request, want := range map[string]time.Duration{
		"policy 3": ms, "tick 2": 3 * ms, "ucb 101": 8 * ms, "thompson 2": 3 * ms, "search 1": 5 * ms,
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			in := strings.NewReader(request + "\n" + request + "\n")
			fatal.If(t, ServeSteps(options(controller.UCB), in, &out))
			answers := json.NewDecoder(&out)
			for range 2 {
				var times []time.Duration
				err := answers.Decode(&times)
				other := slices.ContainsFunc(times, func(d time.Duration) bool { return d != want })
				if err != nil || other || !strings.HasSuffix(request, " "+strconv.Itoa(len(times))) {
					t.Errorf("%s: %v, %v, want each %v", request, times, err, want)
				}
			}
		})
	}
}

func TestServeSteps_NamesTheRequest(t *testing.T) {
	for request, words := range map[string]string{
		"walk 1": `"walk"`, "ucb": "a step and a count", "ucb x": "a step and a count",
	} {
		synctest.Test(t, func(t *testing.T) {
			err := ServeSteps(options(controller.UCB), strings.NewReader(request+"\n"), new(bytes.Buffer))
			errtest.Contains(t, err, words, request)
		})
	}
}

func TestCopyRate_CountsBytesReadAndWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buffers := [][]byte{make([]byte, 1<<20), make([]byte, 1<<20)}
		if r := copyRate(buffers); !math.IsInf(r, 1) { // the clock stands still
			t.Errorf("rate %v", r)
		}
	})
	if r := copyRate([][]byte{nil}); r != 0 {
		t.Errorf("rate without a buffer: %v", r)
	}
	if r := copyRate([][]byte{make([]byte, 64)}); !(r > 0) {
		t.Errorf("rate %v", r)
	}
}
