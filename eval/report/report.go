package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"optibfm/eval"
)

// Options are how the statistics are computed and what is said beside them. The
// zero value is good.
type Options struct {
	Seed      uint64            // of the bootstrap
	Resamples int               // of the bootstrap; 0: 2000
	Notes     map[string]string // by a claim's name: what people found out about it, such as why it does not hold
}

const (
	defaultResamples = 2000
	fewestResamples  = 100 // below which the ends of a 95 % interval are a matter of luck
)

// Report is what results say.
type Report struct {
	Claims  []Judgement // in the paper's order, all of them
	Figures []Figure    // in the paper's order; those of experiments without rows say so
	Choices []Choice    // of hyper-parameters, each once
	Tasks   []TaskRow
	Rates   []RateRow
	Origin  Origin
	Notices []string // what a reader must know before he believes the numbers
	Options Options
}

// New computes a report. It fails where there are no rows (ErrNoRows), and
// where rows contradict each other or cannot be understood (eval.ErrResults).
// The same rows, in any order, and the same options give the same report.
func New(rows []eval.Row, o Options) (*Report, error) {
	if o.Resamples == 0 {
		o.Resamples = defaultResamples
	}
	if o.Resamples < fewestResamples {
		return nil, fmt.Errorf("eval report: resamples: found %d: want at least %d", o.Resamples, fewestResamples)
	}
	if err := knownClaims(o.Notes); err != nil {
		return nil, err
	}
	ts, repeated, err := newTrials(rows)
	if err != nil {
		return nil, err
	}
	a := &analysis{
		trials: ts, oracles: newOracles(ts),
		boot: bootstrap{o.Seed, o.Resamples}, choices: make(map[choiceKey]Choice),
	}
	r := &Report{Options: o, Origin: newOrigin(ts, len(rows))}
	for i := range claims {
		j := a.judge(&claims[i])
		j.Note = o.Notes[j.Name]
		r.Claims = append(r.Claims, j)
	}
	for _, f := range a.declared() {
		r.Figures = append(r.Figures, a.build(&f))
	}
	r.Choices = uniqueChoices(r.Figures)
	r.Tasks, r.Rates = a.taskRows(), a.rateRows()
	r.Notices = a.notices(&r.Origin, repeated)
	return r, nil
}

// knownClaims says whether all notes are about claims.
func knownClaims(notes map[string]string) error {
	var names []string
	for i := range claims {
		names = append(names, claims[i].name)
	}
	for _, name := range slices.Sorted(maps.Keys(notes)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("eval report: notes: no claim is called %q: use one of %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// declared are the figures, and a plain one for each experiment without one.
func (a *analysis) declared() []figure {
	all := slices.Clone(figures)
	for _, experiment := range a.comparisons()[1:] {
		all = append(all, a.plainFigure(experiment))
	}
	return all
}

func uniqueChoices(figures []Figure) []Choice {
	var all []Choice
	for i := range figures {
		for _, c := range figures[i].Choices {
			if !slices.ContainsFunc(all, func(other Choice) bool {
				return c.Experiment == other.Experiment && c.Env == other.Env && c.Method == other.Method && c.Best == other.Best
			}) {
				all = append(all, c)
			}
		}
	}
	return all
}

// notices are what weakens the numbers.
func (a *analysis) notices(o *Origin, repeated int) []string {
	var notices []string
	if repeated > 0 {
		notices = append(notices, fmt.Sprintf("%d rows are there more than once and were counted once.", repeated))
	}
	for _, e := range o.Experiments {
		if len(e.Protocols) > 1 {
			notices = append(notices, fmt.Sprintf("The experiment %s was run with %d different protocols: its numbers mix them.", e.Name, len(e.Protocols)))
		}
	}
	if len(o.Versions) > 1 {
		notices = append(notices, fmt.Sprintf("The rows come from %d versions of the program.", len(o.Versions)))
	}
	if len(a.oracles.all) == 0 {
		notices = append(notices, "There are no rows of the oracle: nothing can be said relative to it.")
	}
	if tasks := a.withoutOracle(); len(tasks) > 0 {
		notices = append(notices, "Left out of everything relative, as the oracle is missing or its returns are not positive: "+strings.Join(tasks, ", ")+".")
	}
	single, unfinished := 0, 0
	for _, g := range a.trials.split([]string{"experiment"}) {
		counts := trialsPerSetting(g.trials)
		most := slices.Max(counts)
		for _, n := range counts {
			if n == 1 {
				single++
			}
			if n < most {
				unfinished++
			}
		}
	}
	if single > 0 {
		notices = append(notices, fmt.Sprintf("%s tried only once with a model on a task: no intervals.", settings(single)))
	}
	if unfinished > 0 {
		notices = append(notices, fmt.Sprintf("%s tried less often than others of the experiment: it may not be finished.", settings(unfinished)))
	}
	return notices
}

func settings(n int) string {
	if n == 1 {
		return "1 setting was"
	}
	return fmt.Sprintf("%s settings were", grouped(n))
}

// withoutOracle are the tasks, with the experiment, that have returns and
// nothing to divide them by, where other tasks of the experiment have.
func (a *analysis) withoutOracle() []string {
	var all []string
	for _, g := range a.trials.split([]string{"experiment"}) {
		lacking, relative := make(map[string]bool), false
		for _, t := range g.trials {
			switch {
			case len(t.curves[eval.MeasureReturn]) == 0:
			case len(a.oracles.values(t, eval.MeasureReturn)) > 0:
				relative = true
			default:
				lacking[fmt.Sprintf("%s/%s in %s", t.env, t.task, t.experiment)] = true
			}
		}
		if relative {
			all = append(all, slices.Sorted(maps.Keys(lacking))...)
		}
	}
	return all
}

// trialsPerSetting counts the trials of each method with each parameters, by
// model and task.
func trialsPerSetting(ts trials) []int {
	type setting struct {
		bfm                       bfm
		env, task, method, params string
	}
	counts := make(map[setting]int)
	for _, t := range ts {
		counts[setting{t.bfm, t.env, t.task, t.method, t.params.String()}]++
	}
	return slices.Collect(maps.Values(counts))
}
