package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"optibfm/lab/eval"
)

// ErrNoRows is returned where there is nothing to report.
var ErrNoRows = errors.New("eval report: the results have no rows: run optibfm eval first")

// bfm is a model as the statistics know it: two bundles of the same training
// seed are two models.
type bfm struct {
	hash string
	seed int
}

func (b bfm) compare(other bfm) int {
	return cmp.Or(cmp.Compare(b.seed, other.seed), cmp.Compare(b.hash, other.hash))
}

// trial is what rows have in common that differ in measure, x and value only.
type trial struct {
	experiment, env, task, method string
	bfm                           bfm
	params                        parameters
	number                        int
	curves                        map[string]curve // by measure
	row                           *eval.Row        // the first of its rows, for what reproduces it
}

// curve is a measure of a trial, by ascending x.
type curve []point

type point struct{ x, y float64 }

// field is what a trial is grouped by: a column's name or a parameter's key.
func (t *trial) field(key string) string {
	switch key {
	case "experiment":
		return t.experiment
	case "params":
		return t.params.String()
	case "env":
		return t.env
	case "task":
		return t.task
	case "method":
		return t.method
	case "model":
		return fmt.Sprintf("%d %s", t.bfm.seed, t.bfm.hash)
	case "labels by":
		return t.params.person()
	}
	return t.params.get(key)
}

// trials are all of them, in an order that does not depend on the rows'.
type trials []*trial

// trialKey is the identity of a trial.
type trialKey struct {
	experiment, env, task, method, params string
	bfm                                   bfm
	number                                int
}

// collector makes trials of rows.
type collector struct {
	trials   map[trialKey]*trial
	seen     map[rowKey]float64
	repeated int
}

type rowKey struct {
	trial   *trial
	measure string
	x       float64
}

// newTrials sorts rows by trial. A row that is there twice counts once, as
// shards may overlap; two values for one number are an error, but for the
// rates, which no two runs have in common.
func newTrials(rows []eval.Row) (ts trials, repeated int, err error) {
	if len(rows) == 0 {
		return nil, 0, ErrNoRows
	}
	c := collector{trials: make(map[trialKey]*trial), seen: make(map[rowKey]float64, len(rows))}
	for i := range rows {
		if err := c.add(&rows[i]); err != nil {
			return nil, 0, fmt.Errorf("%w: row %d: %w", eval.ErrResults, i+1, err)
		}
	}
	for _, t := range c.trials {
		for _, curve := range t.curves {
			slices.SortFunc(curve, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		}
		ts = append(ts, t)
	}
	slices.SortFunc(ts, (*trial).compare)
	return ts, c.repeated, nil
}

func (c *collector) add(row *eval.Row) error {
	if bad := slices.Index([]string{row.Experiment, row.Env, row.Task, row.Method, row.Measure}, ""); bad >= 0 {
		return fmt.Errorf("%s is empty: want a name", []string{"experiment", "env", "task", "method", "measure"}[bad])
	}
	if math.IsNaN(row.X+row.Value) || math.IsInf(row.X+row.Value, 0) {
		return fmt.Errorf("x %v, value %v: want finite numbers", row.X, row.Value)
	}
	t, err := c.trial(row)
	if err != nil {
		return err
	}
	key := rowKey{t, row.Measure, row.X}
	if known, there := c.seen[key]; there {
		c.repeated++
		if known != row.Value && row.Measure != eval.MeasureHz {
			return fmt.Errorf("%s of %s/%s %s, trial %d at x = %v is %v here and %v in another row: one of the files is of another run: report on one at a time",
				row.Measure, row.Env, row.Task, row.Method, row.Trial, row.X, row.Value, known)
		}
		return nil
	}
	c.seen[key] = row.Value
	t.curves[row.Measure] = append(t.curves[row.Measure], point{row.X, row.Value})
	return nil
}

func (c *collector) trial(row *eval.Row) (*trial, error) {
	key := trialKey{row.Experiment, row.Env, row.Task, row.Method, row.Params, bfm{row.ModelHash, row.BFMSeed}, row.Trial}
	if t, there := c.trials[key]; there {
		return t, nil
	}
	params, err := parseParameters(row.Params)
	if err != nil {
		return nil, err
	}
	t := &trial{row.Experiment, row.Env, row.Task, row.Method, key.bfm, params, row.Trial, make(map[string]curve), row}
	c.trials[key] = t
	return t, nil
}

func (t *trial) compare(other *trial) int {
	return cmp.Or(
		strings.Compare(t.experiment, other.experiment), strings.Compare(t.env, other.env), strings.Compare(t.task, other.task),
		compareMethods(t.method, other.method), compareParameters(t.params, other.params),
		t.bfm.compare(other.bfm), cmp.Compare(t.number, other.number))
}

func compareParameters(a, b parameters) int {
	return slices.CompareFunc(a, b, func(p, q parameter) int {
		return cmp.Or(cmp.Compare(p.key, q.key), compareValues(p.value, q.value))
	})
}

// where returns the trials for which keep is true.
func (ts trials) where(keep func(*trial) bool) trials {
	var kept trials
	for _, t := range ts {
		if keep(t) {
			kept = append(kept, t)
		}
	}
	return kept
}

// of returns the trials of an experiment.
func (ts trials) of(experiment string) trials {
	return ts.where(func(t *trial) bool { return t.experiment == experiment })
}

// models is how many they are of.
func (ts trials) models() int { return len(ts.values("model")) }

// values are the different values of a field, in order.
func (ts trials) values(key string) []string {
	var values []string
	for _, t := range ts {
		if v := t.field(key); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	switch key {
	case "method":
		slices.SortFunc(values, compareMethods)
	default:
		slices.SortFunc(values, compareValues)
	}
	return values
}

// group is the trials that agree in some fields.
type group struct {
	key    []string // the fields' values
	trials trials
}

// split sorts trials into groups by fields, in the order of the fields' values.
func (ts trials) split(fields []string) []group {
	if len(fields) == 0 {
		return []group{{nil, ts}}
	}
	var groups []group
	for _, value := range ts.values(fields[0]) {
		part := ts.where(func(t *trial) bool { return t.field(fields[0]) == value })
		for _, g := range part.split(fields[1:]) {
			groups = append(groups, group{append([]string{value}, g.key...), g.trials})
		}
	}
	return groups
}

// measures are the names of what the trials measured, in order.
func (ts trials) measures() []string {
	names := make(map[string]bool)
	for _, t := range ts {
		for measure := range t.curves {
			names[measure] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
