package report

import (
	"cmp"
	"maps"
	"slices"
)

// Origin is where the numbers come from: enough to run them again.
type Origin struct {
	Rows, Trials int
	Versions     []string
	Models       []ModelOrigin
	Experiments  []ExperimentOrigin
}

// ModelOrigin is a model that was evaluated.
type ModelOrigin struct {
	Env, Bundle string
	Seed        int // of its training
	Hash        string
}

// ExperimentOrigin is an experiment as it was run.
type ExperimentOrigin struct {
	Name                         string
	Protocols                    []string // hashes
	Envs, Tasks, Methods, Trials int
	Seeds                        int // different seeds of trials
	FirstSeed, LastSeed          uint64
}

func newOrigin(ts trials, rows int) Origin {
	o := Origin{Rows: rows, Trials: len(ts), Versions: different(ts, func(t *trial) string { return t.row.Version })}
	models := make(map[ModelOrigin]bool)
	for _, t := range ts {
		models[ModelOrigin{t.env, t.row.Bundle, t.row.BFMSeed, t.row.ModelHash}] = true
	}
	o.Models = slices.SortedFunc(maps.Keys(models), func(a, b ModelOrigin) int {
		return cmp.Or(cmp.Compare(a.Env, b.Env), cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Bundle, b.Bundle), cmp.Compare(a.Hash, b.Hash))
	})
	for _, g := range ts.split([]string{"experiment"}) {
		seeds := different(g.trials, func(t *trial) uint64 { return t.row.Seed })
		o.Experiments = append(o.Experiments, ExperimentOrigin{
			Name: g.key[0], Protocols: different(g.trials, func(t *trial) string { return t.row.ProtocolHash }),
			Envs:    len(different(g.trials, func(t *trial) string { return t.env })),
			Tasks:   len(different(g.trials, func(t *trial) string { return t.env + "/" + t.task })),
			Methods: len(different(g.trials, func(t *trial) string { return t.method })),
			Trials:  len(g.trials), Seeds: len(seeds), FirstSeed: seeds[0], LastSeed: seeds[len(seeds)-1],
		})
	}
	return o
}

// different are the different values of something, in order.
func different[V cmp.Ordered](ts trials, of func(*trial) V) []V {
	values := make(map[V]bool)
	for _, t := range ts {
		values[of(t)] = true
	}
	return slices.Sorted(maps.Keys(values))
}
