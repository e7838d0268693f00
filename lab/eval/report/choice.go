package report

import (
	"cmp"
	"fmt"
	"slices"

	"optibfm/lab/eval"
)

// Choice says which hyper-parameters a method is shown with in an environment.
type Choice struct {
	Experiment, Env string
	Method          string // "collected by ucb" where a method differs by what it learns from, "ucb (sampler correct)" where it is tuned apart
	Measure         string // by whose mean it was chosen
	Candidates      []Candidate
	Best            string // Params of the best, as in the results
}

// Candidate is a setting of the hyper-parameters and the mean that it got over
// everything that was varied.
type Candidate struct {
	Params string
	Mean   float64
}

// analysis is what figures and claims are computed from.
type analysis struct {
	trials  trials
	oracles *oracles
	boot    bootstrap
	choices map[choiceKey]Choice
}

// choiceKey is what a choice depends on.
type choiceKey struct{ scope, env, method string }

// sampleOf takes a number of each trial. A trial that has none is left out, and
// so is one without an oracle where the numbers are to be relative.
func (a *analysis) sampleOf(ts trials, measure string, relative bool, number func(*trial) (float64, bool)) sample {
	var s sample
	index := make(map[place]int)
	for _, t := range ts {
		v, ok := number(t)
		if !ok {
			continue
		}
		var unit numbers
		if relative {
			if unit = a.oracles.values(t, measure); len(unit.values) == 0 {
				continue
			}
		}
		at := place{t.bfm, t.env + "/" + t.task}
		i, there := index[at]
		if !there {
			i = len(s)
			index[at] = i
			s = append(s, stratum{bfm: at.bfm, task: at.task, oracle: unit})
		}
		s[i].values.add(t.row.Seed, v)
	}
	s.sort()
	return s
}

// tuned are the fields of which each combination of values has hyper-parameters
// of its own.
var tuned = []string{"env", "method", "by"}

// best returns the trials with the best hyper-parameters, chosen for each
// environment and method, as the paper does: those with the greatest mean
// return (or reward, where there are no returns) over all that is in the trials
// and was varied on purpose. Settings that were not tried with all the models,
// tasks and varied values are passed over where others were. The scope names what the choice is
// made for. Each value of the fields apart has hyper-parameters of its own.
func (a *analysis) best(scope string, ts trials, varied, apart []string) trials {
	var kept trials
	for _, g := range ts.split(slices.Concat(tuned, apart)) {
		choice := a.choose(scope, g.trials, varied, apart)
		kept = append(kept, g.trials.where(func(t *trial) bool { return t.params.without(varied).String() == choice.Best })...)
	}
	return kept
}

// choose decides among the settings of one method in one environment.
func (a *analysis) choose(scope string, ts trials, varied, apart []string) Choice {
	first := ts[0]
	method := methodLabel(first, apart)
	key := choiceKey{scope, first.env, method}
	if known, there := a.choices[key]; there {
		return known
	}
	measure := eval.MeasureReturn
	if !slices.ContainsFunc(ts, func(t *trial) bool { return len(t.curves[measure]) > 0 }) {
		measure = eval.MeasureReward
	}
	choice := Choice{Experiment: first.experiment, Env: first.env, Method: method, Measure: measure}
	settings := make(map[string]trials)
	for _, t := range ts {
		setting := t.params.without(varied).String()
		settings[setting] = append(settings[setting], t)
	}
	most := -1
	for setting, of := range settings {
		conditions := len(of.split(append([]string{"model", "task"}, varied...)))
		if conditions < most {
			continue
		}
		if conditions > most {
			choice.Candidates, most = nil, conditions
		}
		choice.Candidates = append(choice.Candidates, Candidate{setting, a.score(of, measure)})
	}
	slices.SortFunc(choice.Candidates, func(x, y Candidate) int {
		return cmp.Or(cmp.Compare(y.Mean, x.Mean), cmp.Compare(x.Params, y.Params))
	})
	choice.Best = choice.Candidates[0].Params
	a.choices[key] = choice
	return choice
}

// methodLabel is the method of a choice, with what else it is made apart for.
func methodLabel(t *trial, apart []string) string {
	label := t.method
	if by := t.params.get("by"); by != "" {
		label += " by " + by
	}
	for _, key := range apart {
		label += fmt.Sprintf(" (%s %s)", key, t.field(key))
	}
	return label
}

// score is the mean by which settings are compared: relative to the oracle
// where each task has one, so that no task counts more than another.
func (a *analysis) score(ts trials, measure string) float64 {
	number := func(t *trial) (float64, bool) {
		c := t.curves[measure]
		if len(c) == 0 {
			return 0, false
		}
		return reduced(measure, c), true
	}
	all := a.sampleOf(ts, measure, false, number)
	if len(all) == 0 {
		return 0
	}
	if relative := a.sampleOf(ts, measure, true, number); len(relative) == len(all) {
		return relative.mean()
	}
	return all.mean()
}

// BestLabel is the best setting for people.
func (c *Choice) BestLabel() string { return settingLabel(c.Best) }

// Label is the setting for people.
func (c *Candidate) Label() string { return settingLabel(c.Params) }

func settingLabel(params string) string {
	p, err := parseParameters(params)
	if err != nil || len(p) == 0 {
		return "no parameters"
	}
	return p.label()
}
