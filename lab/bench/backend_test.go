package bench

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	_ "optibfm/standard"
)

func TestMeasurePlans_StopsAtTheLimit(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		plans int
	}{
		{0, leastPlans},
		{120 * ms, 10}, // a step takes 8 ms, also each of the five of the warm-up
		{time.Minute, mostPlans},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBenchmark(options(controller.UCB))
			fatal.If(t, b.measurePlans(t.Context(), c.limit))
			if n := len(b.plan.times); n != c.plans {
				t.Errorf("limit %v: %d plans, want %d", c.limit, n, c.plans)
			}
			if got := quantile(b.plan.times, 50); got != 5*ms {
				t.Errorf("limit %v: median %v", c.limit, got)
			}
		})
	}
}

func TestTable_HasPlansAndTheirRatioToThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBenchmark(options(controller.UCB))
		fatal.If(t, b.measurePlans(t.Context(), 0))
		policy, err := policyTime(sleeper{}, 0)
		if err != nil || policy != ms {
			t.Errorf("policy %v, %v", policy, err)
		}
		var out strings.Builder
		(&table{out: &out, model: "m", backend: "/GPU:0", native: policy / 4, policy: 2 * policy}).plans(9, b)
		const want = "| plan, n = 9 | m | /GPU:0 | 5 ms | 5 ms | 20 | 2.5 | " +
			"5 plans; π alone 0.25 ms, there 2 ms; in the tick φ 2 ms, π 1 ms |\n"
		if out.String() != want {
			t.Errorf("%s, want %s", out.String(), want)
		}
	})
}

func TestTimeBackend_PrintsTheRowsOfItsHeader(t *testing.T) {
	f := configs.Default()
	f.Controller.Strategy = controller.UCB
	var out bytes.Buffer
	fatal.If(t, TimeBackend(t.Context(), &out, f, BackendOptions{Candidates: []int{4, 8}}))
	for i, want := range []string{"| plan, n = 4 | ", "| plan, n = 8 | ", "| memory | "} {
		line, rest, _ := strings.Cut(out.String(), "\n")
		out = *bytes.NewBufferString(rest)
		if !strings.HasPrefix(line, want) || strings.Count(line, "|") != strings.Count(BackendHeader, "|")/2 {
			t.Errorf("line %d: %s, want %s", i, line, want)
		}
	}
	if out.Len() > 0 {
		t.Errorf("more lines: %s", &out)
	}
}

func TestTimeBackend_RefusesWhatItCannotMeasure(t *testing.T) {
	for words, change := range map[string]func(*configs.File, *BackendOptions){
		"candidates [0]":      func(_ *configs.File, o *BackendOptions) { o.Candidates = []int{0} },
		"searches -1":         func(_ *configs.File, o *BackendOptions) { o.Searches = -1 },
		"use one of bfmzero":  func(_ *configs.File, o *BackendOptions) { o.Random = "s9" },
		"controller.strategy": func(f *configs.File, _ *BackendOptions) { f.Controller.Strategy = controller.Thompson },
	} {
		f, o := configs.Default(), BackendOptions{Candidates: []int{4}}
		f.Controller.Strategy = controller.UCB
		change(&f, &o)
		errtest.Contains(t, TimeBackend(t.Context(), new(bytes.Buffer), f, o), words)
	}
}

func TestMilliseconds_HasThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "", 12_345: "0.0123 ms", 2 * ms: "2 ms", 999_400 * time.Microsecond: "999 ms", 12_345 * ms: "12345 ms",
	} {
		if got := milliseconds(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}

// The weights that the program loads of checkpoints in these sizes: docs/results.md.
func TestArchitectures_HaveTheSizesOfThePublicModels(t *testing.T) {
	for name, want := range map[string]float64{"s1": 54, "bfmzero": 807} {
		a := architectures[name]
		errtest.Nil(t, a.Validate(), name)
		bytes := 0
		for _, shape := range a.Tensors() {
			size := 4
			for _, n := range shape {
				size *= n
			}
			bytes += size
		}
		if got := float64(bytes) / 1e6; math.Abs(got-want) > 1 {
			t.Errorf("%s: %.1f MB, want %g", name, got, want)
		}
	}
}
