package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

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

// numbers are one number of each of some trials. Trials with the same seed met
// the same initial states.
type numbers struct {
	seeds  []uint64 // of the trials, ascending
	values []float64
}

// add puts a trial's number in its place.
func (n *numbers) add(seed uint64, value float64) {
	i := 0
	for i < len(n.seeds) && n.seeds[i] <= seed {
		i++
	}
	n.seeds, n.values = slices.Insert(n.seeds, i, seed), slices.Insert(n.values, i, value)
}

// stratum is the trials of one model on one task.
type stratum struct {
	bfm    bfm
	task   string // "env/task"
	values numbers
	oracle numbers // the oracle's, by which the values are divided; empty: they are not
}

// sample is one number of each of a set of trials, by stratum.
type sample []stratum

// sort puts the strata in an order that does not depend on how they were found.
func (s sample) sort() {
	slices.SortFunc(s, func(a, b stratum) int { return cmp.Or(a.bfm.compare(b.bfm), cmp.Compare(a.task, b.task)) })
}

// centre is the mean of the numbers, or what it might have been.
type centre func(*numbers) float64

func meanOf(n *numbers) float64 { return mean(n.values) }

// perModel is the mean of each model's tasks.
func (s sample) perModel(of centre) []float64 {
	var means []float64
	for first := 0; first < len(s); {
		sum, n := 0.0, 0
		for ; first+n < len(s) && s[first+n].bfm == s[first].bfm; n++ {
			sum += s[first+n].centre(of)
		}
		means = append(means, sum/float64(n))
		first += n
	}
	return means
}

func (s *stratum) centre(of centre) float64 {
	v := of(&s.values)
	if len(s.oracle.values) > 0 {
		v /= of(&s.oracle)
	}
	return v
}

func (s sample) mean() float64 { return s.statistic(meanOf) }

// statistic is the sample's mean with the centres of its strata.
func (s sample) statistic(of centre) float64 { return mean(s.perModel(of)) }

func mean(values []float64) float64 { return stat.Mean(values, nil) }

// repeated says whether each task was tried more than once with each model,
// without which nothing is known about the spread of the trials.
func (s sample) repeated() bool {
	return len(s) > 0 && !slices.ContainsFunc(s, func(each stratum) bool {
		return len(each.values.values) < 2 || len(each.oracle.values) == 1
	})
}

// size is the number of trials.
func (s sample) size() int {
	n := 0
	for i := range s {
		n += len(s[i].values.values)
	}
	return n
}

// samePlaces says whether two samples are of the same models and tasks, without
// which their means are not comparable.
func (s sample) samePlaces(other sample) bool {
	return slices.EqualFunc(s, other, func(x, y stratum) bool { return x.bfm == y.bfm && x.task == y.task })
}

// untried are those of an environment's tasks on which not every model was tried.
func (s sample) untried(tasks []string) []string {
	models := len(s.perModel(meanOf))
	var untried []string
	for _, task := range tasks {
		n := 0
		for i := range s {
			if strings.HasSuffix(s[i].task, "/"+task) {
				n++
			}
		}
		switch {
		case n == 0:
			untried = append(untried, task)
		case n < models:
			untried = append(untried, task+" (with some models)")
		}
	}
	return untried
}

// paired says whether the trials of two samples of the same places have the same
// seeds, so that they can be compared one by one.
func (s sample) paired(other sample) bool {
	return slices.EqualFunc(s, other, func(x, y stratum) bool { return slices.Equal(x.values.seeds, y.values.seeds) })
}

// trialValues are the numbers of all trials, each relative to its oracle where
// there is one.
func (s sample) trialValues() []float64 {
	var all []float64
	for i := range s {
		unit := 1.0
		if len(s[i].oracle.values) > 0 {
			unit = meanOf(&s[i].oracle)
		}
		for _, v := range s[i].values.values {
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

// estimate says what a sample, which must not be empty, tells.
func (b bootstrap) estimate(name string, s sample) Estimate {
	models := s.perModel(meanOf)
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
		e.Confidence = b.uncertainty(name, []sample{s}, s.statistic).interval()
	}
	return e
}
