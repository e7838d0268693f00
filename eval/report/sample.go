package report

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Interval is a range of numbers. One that could not be computed is NaN.
type Interval struct{ Low, High float64 }

func unknown() Interval { return Interval{math.NaN(), math.NaN()} }

// add widens the interval to what lies between low and high.
func (i *Interval) add(low, high float64) { i.Low, i.High = min(i.Low, low), max(i.High, high) }

// Known says whether the interval could be computed.
func (i Interval) Known() bool { return !math.IsNaN(i.Low) && !math.IsNaN(i.High) }

// Estimate is what a set of trials says about a number. The mean is over the
// trials of a task, then over the tasks, then over the models: each task and
// each model counts the same.
type Estimate struct {
	Mean       float64
	Confidence Interval // 95 %, of the mean, if the same models and tasks were tried anew; NaN where a task has one trial
	Models     Interval // least and greatest mean of a model
	IQM        float64  // interquartile mean: over the middle half of all trials

	BFMs, Tasks, Trials int // how many there are; Trials counts them all
}

// stratum is the trials of one model on one task.
type stratum struct {
	bfm    bfm
	task   string // "env/task"
	values []float64
	oracle []float64 // the oracle's, by which the values are divided; empty: they are not
}

// sample is one number of each of a set of trials, by stratum.
type sample []stratum

// sort puts the strata in an order that does not depend on how they were found.
func (s sample) sort() {
	slices.SortFunc(s, func(a, b stratum) int { return cmp.Or(a.bfm.compare(b.bfm), cmp.Compare(a.task, b.task)) })
}

// perModel is the mean of each model's tasks, where centre takes the mean of
// the trials on a task.
func (s sample) perModel(centre func([]float64) float64) []float64 {
	var means []float64
	for first := 0; first < len(s); {
		sum, n := 0.0, 0
		for ; first+n < len(s) && s[first+n].bfm == s[first].bfm; n++ {
			sum += s[first+n].centre(centre)
		}
		means = append(means, sum/float64(n))
		first += n
	}
	return means
}

func (s *stratum) centre(centre func([]float64) float64) float64 {
	v := centre(s.values)
	if len(s.oracle) > 0 {
		v /= centre(s.oracle)
	}
	return v
}

func (s sample) mean() float64 { return mean(s.perModel(mean)) }

func mean(values []float64) float64 { return stat.Mean(values, nil) }

// redraw is the mean of a sample that might have been found instead.
func (s sample) redraw(rng *rand.Rand) float64 {
	return mean(s.perModel(func(values []float64) float64 { return drawnMean(rng, values) }))
}

// drawnMean is the mean of n-1 values drawn with replacement from n. Drawing n
// makes intervals too narrow by √(1-1/n), which matters with few trials (Rao
// and Wu, 1988).
func drawnMean(rng *rand.Rand, values []float64) float64 {
	n := len(values) - 1
	sum := 0.0
	for range n {
		sum += values[rng.IntN(len(values))]
	}
	return sum / float64(n)
}

// repeated says whether each task was tried more than once with each model,
// without which nothing is known about the spread of the trials.
func (s sample) repeated() bool {
	return len(s) > 0 && !slices.ContainsFunc(s, func(each stratum) bool {
		return len(each.values) < 2 || len(each.oracle) == 1
	})
}

// trialValues are the numbers of all trials, each relative to its oracle where
// there is one.
func (s sample) trialValues() []float64 {
	var all []float64
	for i := range s {
		unit := 1.0
		if len(s[i].oracle) > 0 {
			unit = mean(s[i].oracle)
		}
		for _, v := range s[i].values {
			all = append(all, v/unit)
		}
	}
	return all
}

// interquartileMean is the mean without the lowest and the highest quarter.
func interquartileMean(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	cut := len(sorted) / 4
	return mean(sorted[cut : len(sorted)-cut])
}

// bootstrap computes intervals by drawing the trials of each stratum anew.
type bootstrap struct {
	seed      uint64
	resamples int
}

// interval is the 95 % interval of a number, of which redraw gives one that
// might have been found instead. What it is called decides the random numbers,
// so that an interval does not depend on what else is computed.
func (b bootstrap) interval(name string, redraw func(*rand.Rand) float64) Interval {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	rng := rand.New(rand.NewPCG(b.seed, hash.Sum64()))
	drawn := make([]float64, b.resamples)
	for i := range drawn {
		drawn[i] = redraw(rng)
	}
	if slices.ContainsFunc(drawn, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		return unknown() // the oracle's draws reached zero
	}
	slices.Sort(drawn)
	return Interval{stat.Quantile(0.025, stat.LinInterp, drawn, nil), stat.Quantile(0.975, stat.LinInterp, drawn, nil)}
}

// estimate says what a sample, which must not be empty, tells.
func (b bootstrap) estimate(name string, s sample) Estimate {
	models := s.perModel(mean)
	values := s.trialValues()
	e := Estimate{
		Mean: mean(models), Confidence: unknown(), Models: Interval{slices.Min(models), slices.Max(models)},
		IQM: interquartileMean(values), BFMs: len(models), Trials: len(values),
	}
	tasks := make(map[string]bool)
	for i := range s {
		tasks[s[i].task] = true
	}
	e.Tasks = len(tasks)
	if s.repeated() {
		e.Confidence = b.interval(name, s.redraw)
	}
	return e
}
