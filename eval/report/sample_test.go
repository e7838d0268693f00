package report

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// drawSample draws trials of models on tasks about known means.
func drawSample(rng *rand.Rand, models, tasks, trials int, spread float64) sample {
	var s sample
	for model := range models {
		for task := range tasks {
			values := make([]float64, trials)
			for i := range values {
				values[i] = float64(model+10*task) + spread*float64(task+1)*rng.NormFloat64()
			}
			s = append(s, stratum{bfm: bfm{seed: model}, task: string(rune('a' + task)), values: values})
		}
	}
	return s
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v ± %v", what, got, want, tolerance)
	}
}

func TestAMeanCountsEachTaskAndEachModelTheSame(t *testing.T) {
	s := sample{
		{bfm: bfm{seed: 0}, task: "a", values: []float64{1, 2, 3}}, // 2
		{bfm: bfm{seed: 0}, task: "b", values: []float64{10}},      // 10: the model's 6
		{bfm: bfm{seed: 1}, task: "a", values: []float64{0, 4}},    // 2: the model's 2
	}
	e := bootstrap{resamples: 200}.estimate("", s)
	near(t, "the mean", e.Mean, 4, 1e-12)
	near(t, "the least model", e.Models.Low, 2, 1e-12)
	near(t, "the greatest model", e.Models.High, 6, 1e-12)
	if e.BFMs != 2 || e.Tasks != 2 || e.Trials != 6 {
		t.Errorf("%d models, %d tasks, %d trials", e.BFMs, e.Tasks, e.Trials)
	}
	if e.Confidence.Known() {
		t.Errorf("an interval of %v where a task was tried once", e.Confidence)
	}
}

func TestARelativeMeanDividesEachTaskByItsOwnOracle(t *testing.T) {
	s := sample{
		{task: "a", values: []float64{50, 70}, oracle: []float64{90, 110}},     // 0.6
		{task: "b", values: []float64{900, 700}, oracle: []float64{500, 1500}}, // 0.8
	}
	near(t, "the mean", s.mean(), 0.7, 1e-12)
	near(t, "the interquartile mean", bootstrap{resamples: 200}.estimate("", s).IQM, (0.7+0.7)/2, 1e-12)
}

func TestAnIntervalIsThatOfTheNormalApproximationWithTheUnbiasedVariance(t *testing.T) {
	s := drawSample(rand.New(rand.NewPCG(3, 4)), 3, 4, 8, 2)
	variance := 0.0
	for i := range s {
		variance += stat.Variance(s[i].values, nil) / float64(len(s[i].values))
	}
	half := 1.959964 * math.Sqrt(variance) / float64(len(s))
	e := bootstrap{seed: 1, resamples: 20_000}.estimate("", s)
	near(t, "the lower end", e.Confidence.Low, e.Mean-half, 0.06*half)
	near(t, "the upper end", e.Confidence.High, e.Mean+half, 0.06*half)
}

func TestAnIntervalOfARatioIsThatOfTheDeltaMethod(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	s := sample{{task: "a"}}
	for range 40 {
		s[0].values = append(s[0].values, 80+4*rng.NormFloat64())
		s[0].oracle = append(s[0].oracle, 100+6*rng.NormFloat64())
	}
	a, b := stat.Mean(s[0].values, nil), stat.Mean(s[0].oracle, nil)
	relative := stat.Variance(s[0].values, nil)/40/(a*a) + stat.Variance(s[0].oracle, nil)/40/(b*b)
	half := 1.959964 * a / b * math.Sqrt(relative)
	e := bootstrap{seed: 1, resamples: 20_000}.estimate("", s)
	near(t, "the mean", e.Mean, a/b, 1e-12)
	near(t, "the width", (e.Confidence.High-e.Confidence.Low)/2, half, 0.06*half)
}

func TestIntervalsCoverTheTruthAsOftenAsTheySay(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	truth := (0+1+2)/3.0 + 10*(0+1)/2.0
	covered, n := 0, 600
	for i := range n {
		s := drawSample(rng, 3, 2, 4, 1)
		interval := bootstrap{seed: uint64(i), resamples: 400}.interval("", s.redraw)
		if interval.Low <= truth && truth <= interval.High {
			covered++
		}
	}
	if share := float64(covered) / float64(n); share < 0.92 || share > 0.98 {
		t.Errorf("95 %% intervals of four trials a task cover the truth in %.1f %% of %d cases", 100*share, n)
	}
}

func TestAnIntervalDependsOnItsNameAndTheSeedAlone(t *testing.T) {
	s := drawSample(rand.New(rand.NewPCG(9, 10)), 2, 2, 5, 1)
	b := bootstrap{seed: 1, resamples: 200}
	first := b.interval("a", s.redraw)
	if again := b.interval("a", s.redraw); again != first {
		t.Errorf("%v, then %v", first, again)
	}
	if other := b.interval("b", s.redraw); other == first {
		t.Error("two names have the same random numbers")
	}
	if other := (bootstrap{seed: 2, resamples: 200}).interval("a", s.redraw); other == first {
		t.Error("two seeds have the same random numbers")
	}
}

func TestAnIntervalIsUnknownWhereTheOracleMayBeZero(t *testing.T) {
	s := sample{{task: "a", values: []float64{1, 2, 3}, oracle: []float64{0, 0, 1}}}
	if e := (bootstrap{resamples: 200}).estimate("", s); e.Confidence.Known() {
		t.Errorf("the interval is %v", e.Confidence)
	}
}

func TestTheInterquartileMeanIsOfTheMiddleHalf(t *testing.T) {
	near(t, "of eight", interquartileMean([]float64{100, 1, 2, 3, 4, 5, 6, -100}), (2+3+4+5)/4.0, 1e-12)
	near(t, "of three", interquartileMean([]float64{3, 1, 2}), 2, 1e-12)
}
