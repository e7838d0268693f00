package main

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"optibfm/internal/rigtest"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// biased is a network with scores multiplied by a factor.
type biased struct {
	*tflite.Network
	factor float32
}

func (b biased) Search(obs, candidates []float32, belief tflite.Belief) (int, float32, error) {
	best, score, err := b.Network.Search(obs, candidates, belief)
	return best, score * b.factor, err
}

func TestComparison_FailsAboveTheTolerance(t *testing.T) {
	native := tflitetest.Network(rigtest.ModelDims, 1)
	for _, c := range []struct {
		factor float32
		tf32   bool
		agree  bool
	}{
		{1, false, true},
		{1.001, false, false},
		{1.001, true, true},
		{1.05, true, false},
		{float32(math.NaN()), true, false},
	} {
		var out bytes.Buffer
		compare := comparison{out: &out, candidates: 9, searches: 5, tf32: c.tf32}
		m := biased{tflitetest.Network(rigtest.ModelDims, 1), c.factor}
		err := compare.search(m, native)
		if c.agree != (err == nil) || err != nil && !strings.Contains(err.Error(), "scores") {
			t.Errorf("%+v: %v", c, err)
		}
		for _, want := range []string{"9 candidates: TensorFlow p50", "; native p50", "0 of 5 searches have another best"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%+v: no %q in\n%s", c, want, &out)
			}
		}
	}
}

func TestComparison_TimesAModelWithoutANativeOne(t *testing.T) {
	var out bytes.Buffer
	if err := (comparison{out: &out, candidates: 9, searches: 5}).search(tflitetest.Network(rigtest.ModelDims, 1)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "native") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%s", &out)
	}
}

func TestModelBackend_RefusesInvalidFlags(t *testing.T) {
	for words, args := range map[string][]string{
		"--candidates 0": {"--candidates", "0"},
		"--searches 0":   {"--searches", "0"},
		"bfm.json":       {"--bundle", t.TempDir()},
	} {
		if _, err := modelRun(append([]string{"backend"}, args...)...); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v: %v, want %q", args, err, words)
		}
	}
}
