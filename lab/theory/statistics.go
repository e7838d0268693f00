package theory

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Confidence of all intervals.
const Confidence = 0.95

// Interval is an estimate with its confidence interval.
type Interval struct{ Value, Low, High float64 }

// Share returns the share of successes in n trials with its Clopper-Pearson interval, whose
// coverage is at least Confidence for every n and every share.
func Share(successes, n int) Interval {
	k, tail := float64(successes), (1-Confidence)/2
	i := Interval{Value: k / float64(n), High: 1}
	if successes > 0 {
		i.Low = distuv.Beta{Alpha: k, Beta: float64(n) - k + 1}.Quantile(tail)
	}
	if successes < n {
		i.High = distuv.Beta{Alpha: k + 1, Beta: float64(n) - k}.Quantile(1 - tail)
	}
	return i
}

// resamples of a bootstrap.
const resamples = 1000

// Exponent fits p in curve ~ x^p by least squares on the logarithm of the mean curve at the indices
// `at`. The interval is a seeded percentile bootstrap over curves.
func Exponent(curves [][]float64, at []int, seed uint64) Interval {
	return bootstrap(len(curves), seed, func(chosen []int) float64 {
		return slope(at, func(index int) float64 { return mean(curves, chosen, index) })
	})
}

// worstExponent is Exponent of the highest mean over tasks at each index. The bootstrap resamples
// run i of all tasks together.
func worstExponent(byTask [][]Trace, at []int, seed uint64) Interval {
	tasks := make([][][]float64, len(byTask))
	for i, traces := range byTask {
		for _, t := range traces {
			tasks[i] = append(tasks[i], t.Regret)
		}
	}
	return bootstrap(len(tasks[0]), seed, func(chosen []int) float64 {
		return slope(at, func(index int) float64 {
			most := 0.0
			for _, curves := range tasks {
				most = max(most, mean(curves, chosen, index))
			}
			return most
		})
	})
}

// bootstrap returns a statistic of n runs, given by their indices, and its percentile interval.
func bootstrap(n int, seed uint64, statistic func(chosen []int) float64) Interval {
	rng := rand.New(rand.NewPCG(seed, bootstrapStream))
	chosen := make([]int, n)
	for i := range chosen {
		chosen[i] = i
	}
	value, samples := statistic(chosen), make([]float64, resamples)
	for i := range samples {
		for j := range chosen {
			chosen[j] = rng.IntN(n)
		}
		samples[i] = statistic(chosen)
	}
	slices.Sort(samples)
	return Interval{
		Value: value,
		Low:   stat.Quantile((1-Confidence)/2, stat.Empirical, samples, nil),
		High:  stat.Quantile((1+Confidence)/2, stat.Empirical, samples, nil),
	}
}

// slope returns the slope of log y over the logarithm of the number of episodes, without points of
// y = 0.
func slope(at []int, y func(index int) float64) float64 {
	var xs, ys []float64
	for _, index := range at {
		if v := y(index); v > 0 {
			xs, ys = append(xs, math.Log(float64(index+1))), append(ys, math.Log(v))
		}
	}
	_, slope := stat.LinearRegression(xs, ys, nil, false)
	return slope
}

// mean returns the mean of the chosen curves at an index.
func mean(curves [][]float64, chosen []int, index int) float64 {
	sum := 0.0
	for _, c := range chosen {
		sum += curves[c][index]
	}
	return sum / float64(len(chosen))
}

// spaced returns up to n indices of episodes, logarithmically spaced from episode first to last.
func spaced(first, last, n int) []int {
	var at []int
	ratio := math.Log(float64(last) / float64(first))
	for i := range n {
		index := int(math.Round(float64(first)*math.Exp(ratio*float64(i)/float64(n-1)))) - 1
		if len(at) == 0 || index > at[len(at)-1] {
			at = append(at, index)
		}
	}
	return at
}

// band returns the mean of curves at an index and the quantiles of their middle 90 %.
func band(curves [][]float64, index int) Interval {
	values := make([]float64, len(curves))
	for i, curve := range curves {
		values[i] = curve[index]
	}
	slices.Sort(values)
	return Interval{
		Value: stat.Mean(values, nil),
		Low:   stat.Quantile(0.05, stat.Empirical, values, nil),
		High:  stat.Quantile(0.95, stat.Empirical, values, nil),
	}
}
