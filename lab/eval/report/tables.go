package report

import (
	"math"
	"slices"

	"optibfm/lab/eval"
)

// TaskRow is what a method got in a comparison of methods.
type TaskRow struct {
	Experiment          string
	Env, Method, Params string
	Task                string    // "" for all tasks of the environment
	Return              Estimate  // sum of rewards of an episode, over all episodes
	Relative            *Estimate // to the oracle's, nil without one
}

// RateRow is how fast decisions come.
type RateRow struct {
	Experiment, Env, Method, Params string
	Hz                              Estimate
	Ticks                           int // measured in the longest trial
}

// comparisons are the experiments that compare methods on tasks and vary nothing
// else: the main comparison and those that have no figure of their own.
func (a *analysis) comparisons() []string {
	experiments := []string{experimentMain}
	for _, experiment := range a.trials.values("experiment") {
		if !slices.ContainsFunc(figures, func(f figure) bool { return f.experiment == experiment }) {
			experiments = append(experiments, experiment)
		}
	}
	return experiments
}

// taskRows are the comparisons, environment by environment and then task by
// task, with each method's best hyper-parameters.
func (a *analysis) taskRows() []TaskRow {
	var rows []TaskRow
	for _, experiment := range a.comparisons() {
		best := a.best("tasks "+experiment, a.trials.of(experiment), nil, nil)
		for _, env := range best.split(byEnv) {
			for _, method := range env.trials.split(byMethod) {
				rows = append(rows, a.taskRow(method.trials, "")...)
			}
			for _, g := range env.trials.split([]string{"task", "method"}) {
				rows = append(rows, a.taskRow(g.trials, g.key[0])...)
			}
		}
	}
	return rows
}

// taskRow is a row of a method's trials, none if they have no returns.
func (a *analysis) taskRow(ts trials, task string) []TaskRow {
	number := func(t *trial) (float64, bool) {
		c := t.curves[eval.MeasureReturn]
		return c.mean(), len(c) > 0
	}
	absolute := a.sampleOf(ts, eval.MeasureReturn, false, number)
	if len(absolute) == 0 {
		return nil
	}
	first := ts[0]
	name := "task|" + first.experiment + "|" + first.env + "|" + task + "|" + first.method
	row := TaskRow{Experiment: first.experiment, Env: first.env, Task: task, Method: first.method, Params: first.params.label(), Return: a.boot.estimate(name, absolute)}
	if relative := a.sampleOf(ts, eval.MeasureReturn, true, number); len(relative) == len(absolute) {
		e := a.boot.estimate(name+"|relative", relative)
		row.Relative = &e
	}
	return []TaskRow{row}
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
