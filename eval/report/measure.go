package report

import (
	"math"
	"slices"

	"optibfm/eval"
)

// measureBudget is computed from rewards and labels: against a number n of
// labels, the mean of all rewards up to the step at which n labels were used,
// or of the whole trial where it used fewer.
const measureBudget = "reward until the labels are used"

// curve returns a measure of a trial, nil where the trial has none.
func (t *trial) curve(measure string) curve {
	if measure == measureBudget {
		return budgetCurve(t.curves[eval.MeasureReward], t.curves[eval.MeasureLabels])
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

// last is the value at the greatest x.
func (c curve) last() float64 { return c[len(c)-1].y }

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

// Budgets of labels go from 10 to 50,000, three a decade.
var budgets = []float64{10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000}

// budgetCurve is the mean reward up to the row at which each budget was used.
// Rewards are means of the steps since the row before, labels are totals.
func budgetCurve(rewards, labels curve) curve {
	if len(rewards) == 0 || len(labels) == 0 {
		return nil
	}
	var out curve
	for _, budget := range budgets {
		end := math.Inf(1)
		if used := slices.IndexFunc(labels, func(p point) bool { return p.y >= budget }); used >= 0 {
			end = labels[used].x
		}
		sum, steps := 0.0, 0.0
		for _, p := range rewards {
			if p.x > end {
				break
			}
			sum += p.y * (p.x - steps)
			steps = p.x
		}
		if steps > 0 {
			out = append(out, point{budget, sum / steps})
		}
	}
	return out
}

// reduction makes one number of a curve.
type reduction int

const (
	ofAll  reduction = iota // the mean
	atLast                  // the value at the greatest x
)

func (r reduction) apply(c curve) float64 {
	if r == atLast {
		return c.last()
	}
	return c.mean()
}
