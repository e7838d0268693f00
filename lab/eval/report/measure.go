package report

import (
	"math"
	"slices"

	"optibfm/lab/eval"
)

// measureBudget is computed from rewards and labels: against a number n of
// labels, the mean of all rewards up to the step at which n labels were used,
// or of the whole trial where it used fewer.
const measureBudget = "reward until the labels are used"

// measureSoFar is computed from rewards: the mean of all steps up to each row.
const measureSoFar = "mean reward so far"

// curve returns a measure of a trial, nil where the trial has none.
func (t *trial) curve(measure string) curve {
	if measure == measureBudget {
		return budgetCurve(t.curves[eval.MeasureReward], t.curves[eval.MeasureLabels])
	}
	if measure == measureSoFar {
		return t.curves[eval.MeasureReward].soFar()
	}
	return t.curves[measure]
}

// between returns the points with from <= x <= to.
func (c curve) between(from, to float64) curve {
	return slices.DeleteFunc(slices.Clone(c), func(p point) bool { return p.x < from || p.x > to })
}

// mean is the mean of the values, NaN if there are none.
func (c curve) mean() float64 {
	sum := 0.0
	for _, p := range c {
		sum += p.y
	}
	return sum / float64(len(c))
}

// binned is the means of the curve over bins of a width, each at its middle.
func (c curve) binned(width float64) curve {
	var out curve
	for first := 0; first < len(c); {
		bin, n := math.Floor(c[first].x/width), 0
		for first+n < len(c) && math.Floor(c[first+n].x/width) == bin {
			n++
		}
		out = append(out, point{(bin + 0.5) * width, c[first : first+n].mean()})
		first += n
	}
	return out
}

// Budgets of labels, as the protocol has them.
var budgets = []float64{10, 30, 100, 300, 1000, 3000, 10_000}

// budgetCurve is the mean reward up to the row at which each budget was used.
// Rewards are means of the steps since the row before, labels are totals. Of a
// budget that was used up before the first row nothing is known, and nothing of
// larger ones where a trial ended as it had used one up.
func budgetCurve(rewards, labels curve) curve {
	if len(rewards) == 0 || len(labels) == 0 {
		return nil
	}
	var out curve
	for _, budget := range budgets {
		if labels[0].y > budget {
			continue
		}
		end := math.Inf(1)
		if used := slices.IndexFunc(labels, func(p point) bool { return p.y >= budget }); used >= 0 {
			end = labels[used].x
		}
		if spent := rewards.between(0, end); len(spent) > 0 {
			out = append(out, point{budget, spent.meanReward()})
		}
		if labels[len(labels)-1].y == budget {
			return out
		}
	}
	return out
}

// soFar is the mean over all steps up to each point, of what are means since the
// point before.
func (c curve) soFar() curve {
	out := make(curve, len(c))
	for i := range c {
		out[i] = point{c[i].x, c[:i+1].meanReward()}
	}
	return out
}

// meanReward is the mean over all steps of what are means since the point
// before.
func (c curve) meanReward() float64 {
	sum, steps := 0.0, 0.0
	for _, p := range c {
		sum += p.y * (p.x - steps)
		steps = p.x
	}
	return sum / steps
}

// reduced makes one number of a curve that is not empty: its last value where it
// counts, the mean elsewhere.
func reduced(measure string, c curve) float64 {
	switch measure {
	case eval.MeasureLabels, eval.MeasureAsked, measureSoFar:
		return c[len(c)-1].y
	case eval.MeasureReward:
		return c.meanReward()
	}
	return c.mean()
}
