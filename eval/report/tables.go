package report

import (
	"math"

	"optibfm/eval"
)

// TaskRow is what a method got on a task of the main comparison.
type TaskRow struct {
	Env, Task, Method, Params string
	Return                    Estimate  // sum of rewards of an episode, over all episodes
	Relative                  *Estimate // to the oracle's, nil without one
}

// RateRow is how fast decisions come.
type RateRow struct {
	Experiment, Env, Method, Params string
	Hz                              Estimate
	Ticks                           int // measured in the longest trial
}

// taskRows are the main comparison task by task, with each method's best
// hyper-parameters.
func (a *analysis) taskRows() []TaskRow {
	var rows []TaskRow
	best := a.best("tasks", a.trials.of(experimentMain), nil)
	for _, g := range best.split([]string{"env", "task", "method"}) {
		number := func(t *trial) (float64, bool) {
			c := t.curves[eval.MeasureReturn]
			return c.mean(), len(c) > 0
		}
		absolute := a.sampleOf(g.trials, eval.MeasureReturn, false, number)
		if len(absolute) == 0 {
			continue
		}
		name := "task|" + g.key[0] + "|" + g.key[1] + "|" + g.key[2]
		row := TaskRow{
			Env: g.key[0], Task: g.key[1], Method: g.key[2], Params: g.trials[0].params.label(),
			Return: a.boot.estimate(name, absolute),
		}
		if relative := a.sampleOf(g.trials, eval.MeasureReturn, true, number); len(relative) > 0 {
			e := a.boot.estimate(name+"|relative", relative)
			row.Relative = &e
		}
		rows = append(rows, row)
	}
	return rows
}

// rateRows are the rates of the experiment about compute, or of all where it
// was not run.
func (a *analysis) rateRows() []RateRow {
	ts := a.trials.of(experimentCompute)
	if len(ts) == 0 {
		ts = a.trials
	}
	ts = ts.where(func(t *trial) bool { return len(t.curves[eval.MeasureHz]) > 0 })
	var rows []RateRow
	for _, g := range ts.split([]string{"experiment", "env", "method", "params"}) {
		number := func(t *trial) (float64, bool) { return t.curves[eval.MeasureHz].mean(), true }
		row := RateRow{Experiment: g.key[0], Env: g.key[1], Method: g.key[2], Params: g.trials[0].params.label()}
		row.Hz = a.boot.estimate("hz|"+g.key[0]+"|"+g.key[1]+"|"+g.key[2]+"|"+g.key[3], a.sampleOf(g.trials, eval.MeasureHz, false, number))
		for _, t := range g.trials {
			c := t.curves[eval.MeasureHz]
			row.Ticks = max(row.Ticks, int(math.Round(c[len(c)-1].x)))
		}
		rows = append(rows, row)
	}
	return rows
}
