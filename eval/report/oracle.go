package report

import (
	"cmp"
	"slices"
)

// oracles finds what the oracle got under the conditions of a trial.
type oracles struct {
	all   trials // of the oracle
	known map[oracleKey][]float64
}

// oracleKey is what the oracle's values depend on.
type oracleKey struct {
	experiment, env, task, params, measure string
	bfm                                    bfm
}

func newOracles(ts trials) *oracles {
	return &oracles{
		all:   ts.where(func(t *trial) bool { return t.method == oracle }),
		known: make(map[oracleKey][]float64),
	}
}

// values are the means of a measure over each of the oracle's trials with the
// model and the task of t; none where there are none or where their mean is
// not positive, as nothing can be relative to it.
//
// The oracle of the same experiment goes first, then that of the main
// comparison, then any. An oracle that was run with the trial's value of some
// parameter (such as the same noise) goes before one without it; one that was
// run with another value is none.
func (o *oracles) values(t *trial, measure string) []float64 {
	key := oracleKey{t.experiment, t.env, t.task, t.params.String(), measure, t.bfm}
	if values, there := o.known[key]; there {
		return values
	}
	values := o.find(t, measure)
	o.known[key] = values
	return values
}

func (o *oracles) find(t *trial, measure string) []float64 {
	candidates := o.all.where(func(c *trial) bool {
		return c.env == t.env && c.task == t.task && c.bfm == t.bfm && len(c.curves[measure]) > 0 && !contradict(c.params, t.params)
	})
	if len(candidates) == 0 {
		return nil
	}
	best := slices.MinFunc(candidates, func(a, b *trial) int {
		return cmp.Or(cmp.Compare(o.distance(a, t), o.distance(b, t)), cmp.Compare(agreement(b.params, t.params), agreement(a.params, t.params)),
			cmp.Compare(a.experiment, b.experiment), compareParameters(b.params, a.params))
	})
	var values []float64
	for _, c := range candidates {
		if c.experiment == best.experiment && slices.Equal(c.params, best.params) {
			values = append(values, c.curves[measure].mean())
		}
	}
	if mean(values) <= 0 {
		return nil
	}
	return values
}

// distance orders the experiments of which an oracle may be taken.
func (o *oracles) distance(candidate, t *trial) int {
	switch candidate.experiment {
	case t.experiment:
		return 0
	case experimentMain:
		return 1
	}
	return 2
}

// contradict says whether a parameter of both has different values.
func contradict(a, b parameters) bool {
	return slices.ContainsFunc(a, func(p parameter) bool { return b.has(p.key) && b.get(p.key) != p.value })
}

// agreement counts the parameters that both have.
func agreement(a, b parameters) int {
	n := 0
	for _, p := range a {
		if b.has(p.key) {
			n++
		}
	}
	return n
}
