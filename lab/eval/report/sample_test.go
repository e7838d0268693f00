package report

import (
	"math"
	"math/rand/v2"
	"testing"
)

// numbered gives numbers the seeds 0, 1, 2 and so on.
func numbered(values ...float64) numbers { return seededFrom(0, values...) }

func seededFrom(first int, values ...float64) numbers {
	var n numbers
	for i, v := range values {
		n.add(uint64(first+i), v)
	}
	return n
}

// reseeded is the same numbers of trials with other seeds.
func reseeded(n numbers) numbers {
	seeds := make([]uint64, len(n.seeds))
	for i, seed := range n.seeds {
		seeds[i] = seed + 1_000_000
	}
	return numbers{seeds, n.values}
}

// drawSample draws trials of models on tasks about known means; no two models met the
// same initial states.
func drawSample(rng *rand.Rand, models, tasks, trials int, spread float64) sample {
	var s sample
	for model := range models {
		for task := range tasks {
			values := make([]float64, trials)
			for i := range values {
				values[i] = float64(model+10*task) + spread*float64(task+1)*rng.NormFloat64()
			}
			s = append(s, stratum{bfm: bfm{seed: model}, task: string(rune('a' + task)), values: seededFrom(1000*model, values...)})
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
		{bfm: bfm{seed: 0}, task: "a", values: numbered(1, 2, 3)}, // 2
		{bfm: bfm{seed: 0}, task: "b", values: numbered(10)},      // 10: the model's 6
		{bfm: bfm{seed: 1}, task: "a", values: numbered(0, 4)},    // 2: the model's 2
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
		{task: "a", values: numbered(50, 70), oracle: numbered(90, 110)},     // 0.6
		{task: "b", values: numbered(900, 700), oracle: numbered(500, 1500)}, // 0.8
	}
	near(t, "the mean", s.mean(), 0.7, 1e-12)
	near(t, "the interquartile mean", bootstrap{resamples: 200}.estimate("", s).IQM, (0.7+0.7)/2, 1e-12)
}

func TestAnIntervalIsUnknownWhereTheOracleMayBeZero(t *testing.T) {
	s := sample{{task: "a", values: numbered(1, 2, 3), oracle: numbered(0, 0, 1)}}
	if e := (bootstrap{resamples: 200}).estimate("", s); e.Confidence.Known() {
		t.Errorf("the interval is %v", e.Confidence)
	}
}

func TestTheInterquartileMeanIsOfTheMiddleHalf(t *testing.T) {
	near(t, "of eight", interquartileMean([]float64{100, 1, 2, 3, 4, 5, 6, -100}), (2+3+4+5)/4.0, 1e-12)
	near(t, "of three", interquartileMean([]float64{3, 1, 2}), 2, 1e-12)
}
