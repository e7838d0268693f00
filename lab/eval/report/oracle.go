package report

import (
	"cmp"
	"slices"

	"optibfm/lab/eval"
)

// oracles finds what the oracle got under the conditions of a trial.
type oracles struct {
	all   trials // of the oracle
	known map[oracleKey]numbers
}

// oracleKey is what the oracle's values depend on.
type oracleKey struct {
	experiment, env, task, params, measure string
	bfm                                    bfm
}

func newOracles(ts trials) *oracles {
	return &oracles{
		all:   ts.where(func(t *trial) bool { return t.method == oracle }),
		known: make(map[oracleKey]numbers),
	}
}

// comparedWith is the oracle's measure that a measure is relative to: it has no
// scores, and gets what it gets.
func comparedWith(measure string) string {
	if measure == eval.MeasurePromised {
		return eval.MeasureReturn
	}
	return measure
}

// values are the means of a measure over each of the oracle's trials with the
// model and the task of t; none where there are none or where their mean is
// not positive, as nothing can be relative to it.
//
// Of several oracles that with the most labels counts, then that of the same
// experiment, then that of the main comparison, then any; then one that was run
// with the trial's value of some parameter before one without it. An oracle that
// was run with another value is none.
func (o *oracles) values(t *trial, measure string) numbers {
	measure = comparedWith(measure)
	key := oracleKey{t.experiment, t.env, t.task, t.params.String(), measure, t.bfm}
	if values, there := o.known[key]; there {
		return values
	}
	values := o.find(t, measure)
	o.known[key] = values
	return values
}

func (o *oracles) find(t *trial, measure string) numbers {
	candidates := o.all.where(func(c *trial) bool {
		return c.env == t.env && c.task == t.task && c.bfm == t.bfm && len(c.curves[measure]) > 0 && fair(c.params, t.params)
	})
	if len(candidates) == 0 {
		return numbers{}
	}
	best := slices.MinFunc(candidates, func(a, b *trial) int {
		return cmp.Or(compareValues(told(b.params), told(a.params)), cmp.Compare(distance(a, t), distance(b, t)),
			cmp.Compare(agreement(b.params, t.params), agreement(a.params, t.params)),
			cmp.Compare(a.experiment, b.experiment), compareParameters(a.params, b.params))
	})
	var values numbers
	for _, c := range candidates {
		if c.experiment == best.experiment && slices.Equal(c.params, best.params) {
			values.add(c.row.Seed, reduced(measure, c.curves[measure]))
		}
	}
	if meanOf(&values) <= 0 {
		return numbers{}
	}
	return values
}

// told is the number of labels from which an oracle infers the task.
func told(oracle parameters) string { return cmp.Or(oracle.get("labels"), "50000") }

// distance orders the experiments of which an oracle may be taken.
func distance(candidate, t *trial) int {
	switch candidate.experiment {
	case t.experiment:
		return 0
	case experimentMain:
		return 1
	}
	return 2
}

// fair says whether a trial's return may be divided by an oracle's: no
// parameter of both has different values but for the oracle's labels, and the
// reward is the same.
func fair(oracle, t parameters) bool {
	return oracle.get("nonlinearity") == t.get("nonlinearity") && !contradict(oracle.without([]string{"labels"}), t)
}

// contradict says whether a parameter of both has different values.
func contradict(a, b parameters) bool {
	return slices.ContainsFunc(a, func(p parameter) bool { return b.has(p.key) && b.get(p.key) != p.value })
}

// agreement counts the parameters that both have with the same value.
func agreement(a, b parameters) int {
	n := 0
	for _, p := range a {
		if b.has(p.key) && b.get(p.key) == p.value {
			n++
		}
	}
	return n
}
