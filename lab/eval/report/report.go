package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"optibfm/lab/eval"
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
	Claims  []Judgement // in the paper's order, all of them, then ours
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
		j.Note = strings.TrimSpace(j.Note + " " + o.Notes[j.Name])
		r.Claims = append(r.Claims, j)
	}
	together(r.Claims)
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
